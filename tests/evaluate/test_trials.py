"""What is kept of judged trials: an evaluation that was killed goes on, and only what is the same is taken for it."""

import pytest

from components.evaluate.models import Subjects
from components.evaluate.trials import Examination, lost
from components.shared import kept
from components.shared.batches import Fit
from components.shared.errors import InfraError
from components.shared.grading import Grader
from components.shared.problem import HELDOUT, read_problems
from components.shared.sampling import Sampling
from components.shared.sandbox import SandboxClient
from tests.evaluate.test_comparison import trial
from tests.evaluate.trained import evaluated, with_adapter


@pytest.mark.usefixtures("local_sandbox")
def test_what_was_sampled_and_judged_is_taken_from_the_store(tmp_path, problem_set, given, store_root, monkeypatch):
    model = with_adapter(tmp_path / "model", scale=0.01)
    _, first = evaluated(tmp_path / "a", problem_set, model, given)

    def nothing(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("components.evaluate.models.load_base", nothing)
    _, again = evaluated(tmp_path / "b", problem_set, model, given)
    assert {**again, "seconds": 0} == {**first, "seconds": 0}


@pytest.mark.parametrize(
    "change",
    [{"seed": 8}, {"eval_k": 2}, {"temperature": 0.5}, {"test_timeout_s": 3.0}],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.usefixtures("local_sandbox")
def test_what_the_trials_depend_on_is_part_of_their_key(problem_set, given, store_root, change, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "components.evaluate.trials.Examination._draw",
        lambda self, model, part, sampling, samples, progress: (
            drawn.append(len(part)) or [[trial("failed")] * samples for _ in part]
        ),
    )
    chosen = read_problems(problem_set / HELDOUT)[:3]
    for settings in (given, given, {**given, **change}):
        subjects = Subjects(settings, None)
        one = Examination(
            subjects, "base", Grader(SandboxClient.from_setting(""), test_timeout_s=2.0, infra_limit=0.02),
            seed=settings["seed"], given=settings,
        )  # fmt: skip
        one.trials(chosen, Sampling.from_parameters(settings), samples=settings["eval_k"], what="sampled")
    assert drawn == [3, 3]


@pytest.mark.slow
@pytest.mark.usefixtures("local_sandbox")
def test_an_evaluation_that_was_killed_goes_on_where_it_was(tmp_path, problem_set, given, store_root, monkeypatch):
    """The sandbox goes away after the third batch; what the first two held is not sampled again."""
    model = with_adapter(tmp_path / "model", scale=0.01)
    monkeypatch.setattr("components.evaluate.trials.fit_of", lambda model: Fit(4 * given["eval_k"]))
    judge, batches = Grader.grade, []

    def grade(self, pairs):
        batches.append(len(pairs))
        if len(batches) == 5:
            self.client = SandboxClient("http://127.0.0.1:9", retry_seconds=0.1)
            self.judged += 100_000  # in an evaluation that is nearly done
        return judge(self, pairs)

    monkeypatch.setattr(Grader, "grade", grade)
    with pytest.raises(InfraError, match=r"All of the last \d+ programs could not be judged.*127\.0\.0\.1:9"):
        evaluated(tmp_path / "a", problem_set, model, given)
    assert not (tmp_path / "a/evaluation").exists()
    before = len(batches)
    _, resumed = evaluated(tmp_path / "b", problem_set, model, given)
    spared = batches[before:]
    monkeypatch.setenv("GRPO_STORE", str(tmp_path / "other"))
    del batches[:]
    batches += [0] * 5
    _, anew = evaluated(tmp_path / "c", problem_set, model, given)
    assert len(spared) < len(batches) - 5
    assert {**resumed, "seconds": 0} == {**anew, "seconds": 0}


def test_a_lost_verdict_is_not_kept_but_tried_again(problem_set, given, store_root, local_sandbox, monkeypatch):
    outcomes = iter(["infra", "passed", "passed", "passed"])
    monkeypatch.setattr(
        "components.evaluate.trials.Examination._draw",
        lambda self, model, part, sampling, samples, progress: [[trial(next(outcomes))] for _ in part],
    )
    chosen, sampling = read_problems(problem_set / HELDOUT)[:3], Sampling.from_parameters(given)
    grader = Grader(SandboxClient.from_setting(""), test_timeout_s=2.0, infra_limit=1.0)
    one = Examination(Subjects(given, None), "base", grader, seed=1, given=given)
    first = one.trials(chosen, sampling, samples=1, what="sampled")
    second = one.trials(chosen, sampling, samples=1, what="sampled")
    assert sum(lost(row[0]) for row in first) == 1
    assert [row[0].verdict.outcome for row in second] == ["passed"] * 3
    assert next(outcomes, None) is None, "only the lost one was drawn again"


def test_a_damaged_object_and_other_code_are_drawn_again(problem_set, given, store_root, local_sandbox, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "components.evaluate.trials.Examination._draw",
        lambda self, model, part, sampling, samples, progress: (
            drawn.append(len(part)) or [[trial("failed")]] * len(part)
        ),
    )
    chosen, sampling = read_problems(problem_set / HELDOUT)[:3], Sampling.from_parameters(given)
    grader = Grader(SandboxClient.from_setting(""), test_timeout_s=2.0, infra_limit=0.02)
    one = Examination(Subjects(given, None), "base", grader, seed=1, given=given)
    one.trials(chosen, sampling, samples=1, what="sampled")
    (file,) = (store_root / "cache").rglob("*.jsonl")
    file.write_text(file.read_text()[:-40])
    one.trials(chosen, sampling, samples=1, what="sampled")
    monkeypatch.setattr(kept, "CODE", kept.CODE[:-1])
    one.trials(chosen, sampling, samples=1, what="sampled")
    assert drawn == [3, 1, 3]


def test_the_effect_of_the_batch_size_is_that_of_the_model_that_drew(given, store_root, local_sandbox):
    """Where the store had all of the tuned model's trials, it is the base that is still loaded."""
    subjects = Subjects(given, None)
    subjects.model, subjects.which = object(), "base"
    grader = Grader(SandboxClient.from_setting(""), test_timeout_s=2.0, infra_limit=0.02)
    one = Examination(subjects, "base", grader, seed=1, given=given)
    one.which = "tuned"
    assert one.batch_effect([], Sampling.from_parameters(given)) is None
