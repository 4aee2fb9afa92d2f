"""Publishing with real models and a real sandbox: who takes over from whom, on what evidence, what is left behind."""

import json
from pathlib import Path

import pytest

from components.evaluate import publishing as publishing_step
from components.evaluate.comparison import compare
from components.evaluate.publishing import figures, limits, run, verdict
from components.evaluate.trials import Examination
from components.shared import published
from components.shared.errors import InfraError, UserError
from components.shared.lineage import UNTRAINED, write_trained_on
from components.shared.problem import HELDOUT, VALIDATION, read_problems, write_problems
from components.shared.status import write_status
from components.shared.store import open_store
from tests.builders import make_problem
from tests.conftest import DEMO_MODEL, ROOT, problems_of
from tests.evaluate.test_comparison import trial, trials
from tests.evaluate.trained import fully_trained, with_adapter

EVALUATION = {
    "base": {"pass_at_1": 0.0},
    "tuned": {"pass_at_1": 0.3},
    "difference": {"pass_at_1": 0.3, "ci95": [0.1, 0.5]},
    "problems": 12,
}


@pytest.fixture(scope="module")
def validation_set(tmp_path_factory) -> Path:
    """A problem set with 20 validation problems, and held-out ones that no program passes: they must not matter."""
    folder = tmp_path_factory.mktemp("problems")
    write_problems(folder / VALIDATION, problems_of(ROOT / "demo/problems/validation.jsonl", 20))
    write_problems(folder / HELDOUT, [make_problem(str(number), tests=["assert False"]) for number in range(20)])
    return folder


@pytest.fixture
def evaluation(tmp_path) -> Path:
    folder = tmp_path / "evaluation"
    folder.mkdir()
    (folder / "evaluation.json").write_text(json.dumps(EVALUATION))
    return folder


@pytest.fixture
def publishing(given, monkeypatch, store_root):
    """The step's parameters, small."""
    monkeypatch.delenv("GRPO_RUN_ID", raising=False)
    taken = ("precision", "use_chat_template", "temperature", "top_p", "max_completion_length", "eval_k", "seed")
    more = ("threads", "sandbox_url", "test_timeout_s", "infra_limit")
    return {"resume_run": "", "publish_as": "nightly", **{name: given[name] for name in (*taken, *more)}}


def decision_of(run_id: str) -> dict:
    return json.loads(open_store().read(f"runs/{run_id}/publish/decision.json"))


@pytest.mark.slow
@pytest.mark.usefixtures("local_sandbox")
def test_a_better_model_takes_over_and_one_that_is_not_better_does_not(
    tmp_path, validation_set, evaluation, publishing, untaught_model, store_root, capsys
):
    learned = fully_trained(tmp_path / "learned", base=untaught_model, weights=DEMO_MODEL)
    store = open_store()
    store.write("runs/one/run.json", b'{"run_id": "one", "parameters": {"lr": 0.1}}')
    metrics = run(validation_set, learned, evaluation, run_id="one", **publishing)
    assert metrics["published"] == 1.0
    decision = decision_of("one")
    assert (decision["published"], decision["version"], decision["incumbent"]) == (True, "one", None)
    assert decision["difference"]["ci95"][0] > 0
    assert "against the base, there being no version yet" in decision["reason"]
    assert "over 20 validation problems: better beyond noise" in decision["reason"]
    folder = store_root / "models/nightly"
    assert (folder / "current").read_text() == "one\n"
    assert (folder / "one/model/config.json").is_file()
    assert json.loads((folder / "one/model.json").read_text())["kind"] == "model"
    assert json.loads((folder / "one/provenance.json").read_text())["parameters"] == {"lr": 0.1}
    assert json.loads((folder / "one/evaluation.json").read_text())["difference"] == decision["difference"]
    told = json.loads((folder / "one/publication.json").read_text())
    assert (told["replaces"], told["decided_by"], told["heldout"]["tuned"]) == (None, "validation", 0.3)
    assert told["decision"] == decision
    (store_root / "runs/one/publish/decision.json").unlink()  # the attempt was lost right after it had published
    assert run(validation_set, learned, evaluation, run_id="one", **publishing) == {"published": 1.0}
    assert decision_of("one") == decision

    same = fully_trained(tmp_path / "same", base=untaught_model, weights=DEMO_MODEL)
    assert run(validation_set, same, evaluation, run_id="two", **publishing)["published"] == 0.0
    decision = decision_of("two")
    assert (decision["published"], decision["incumbent"]) == (False, "one")
    assert "against the current version one" in decision["reason"]
    assert "within noise" in decision["reason"]
    assert "publish: validation: 20 problems with 3 samples of each model can show a difference of" in (
        capsys.readouterr().out
    )
    assert decision["incumbent_pass_at_1"] > 0.15, "the incumbent is the published model, not the base"
    worse = fully_trained(tmp_path / "worse", base=untaught_model, weights=untaught_model)
    run(validation_set, worse, evaluation, run_id="three", **publishing)
    assert "publish: not published: " in capsys.readouterr().out
    assert "it is worse" in decision_of("three")["reason"]
    assert published.current_version(store, "nightly") == "one"
    assert [one["version"] for one in published.versions(store, "nightly")] == ["one"]
    status = write_status("three", "", state="SUCCEEDED", error="")
    assert status["publishing"]["published"] is False
    page = store.read("runs/three/status.html").decode()
    assert "Not published as nightly" in page
    assert "it is worse" in page


@pytest.mark.slow
@pytest.mark.usefixtures("local_sandbox")
def test_of_two_that_were_judged_against_the_same_incumbent_one_wins_and_the_other_says_so(
    tmp_path, validation_set, evaluation, publishing, untaught_model, monkeypatch
):
    """The other run publishes, for real, after this one has been judged and before it publishes."""
    store, judge = open_store(), publishing_step.judge
    model = fully_trained(tmp_path / "model", base=untaught_model, weights=DEMO_MODEL)

    def judge_while_another_publishes(*arguments):
        comparison = judge(*arguments)
        monkeypatch.setattr(publishing_step, "judge", judge)
        run(validation_set, model, evaluation, run_id="winner", **publishing)
        return comparison

    monkeypatch.setattr(publishing_step, "judge", judge_while_another_publishes)
    run(validation_set, model, evaluation, run_id="loser", **publishing)
    winner, loser = decision_of("winner"), decision_of("loser")
    assert (winner["published"], winner["incumbent"]) == (True, None)
    assert (loser["published"], loser["incumbent"]) == (False, None)
    assert "Another run published nightly as winner while this one was judged against the base." in loser["reason"]
    assert published.current_version(store, "nightly") == "winner"
    assert store.folders("models/nightly/") == ["winner"], "what lost leaves nothing"


@pytest.mark.slow
@pytest.mark.usefixtures("local_sandbox")
def test_an_adapter_is_judged_on_its_base_and_published_again_without_harm(
    tmp_path, validation_set, evaluation, publishing
):
    """A fresh adapter changes nothing; made current by hand, it is what the run's repeated attempt finds."""
    model = with_adapter(tmp_path / "fresh", scale=0.0)
    assert run(validation_set, model, evaluation, run_id="fresh", **publishing)["published"] == 0.0
    assert "within noise" in decision_of("fresh")["reason"]
    store = open_store()
    seen = published.read_pointer(store, "nightly")
    facts = {"prompting": {"use_chat_template": False}}
    published.publish(
        store, "nightly", "fresh", model, seen=seen, decided_by="hand", facts=facts, evaluation=None, provenance={}
    )
    assert run(validation_set, model, evaluation, run_id="fresh", **publishing) == {"published": 1.0}
    ruined = with_adapter(tmp_path / "ruined", scale=10.0)
    run(validation_set, ruined, evaluation, run_id="ruined", **publishing)
    assert "it is worse" in decision_of("ruined")["reason"]


@pytest.mark.slow
@pytest.mark.usefixtures("local_sandbox")
def test_a_decision_that_was_interrupted_takes_what_was_judged_from_the_store(
    tmp_path, validation_set, evaluation, publishing, monkeypatch, capsys
):
    """The first attempt is lost while the candidate is sampled; the second draws nothing of the incumbent again."""
    model, examined = with_adapter(tmp_path / "model", scale=0.01), Examination.trials

    def lost(self, *arguments, **how):
        if self.role == publishing_step.CANDIDATE:
            raise InfraError("the pod is gone")
        return examined(self, *arguments, **how)

    monkeypatch.setattr(Examination, "trials", lost)
    with pytest.raises(InfraError, match="the pod is gone"):
        run(validation_set, model, evaluation, run_id="lost", **publishing)
    monkeypatch.setattr(Examination, "trials", examined)
    capsys.readouterr()
    run(validation_set, model, evaluation, run_id="lost", **publishing)
    said = capsys.readouterr().out
    assert "publish: 20 of 20 problems were taken from the store (validation)" in said
    assert said.count("taken from the store") == 1, "of the candidate there is nothing yet"
    decision = decision_of("lost")

    def nothing(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("components.evaluate.models.load_base", nothing)
    run(validation_set, model, evaluation, run_id="again", **publishing)
    again = decision_of("again")
    names = ("difference", "incumbent_pass_at_1", "candidate_pass_at_1", "reason", "published")
    assert {name: again[name] for name in names} == {name: decision[name] for name in names}


def trained_before(model: Path, problems) -> Path:
    """The model, with what train says that it was trained on."""
    write_trained_on(model, UNTRAINED.and_also(problems))
    return model


@pytest.mark.usefixtures("local_sandbox")
@pytest.mark.slow
def test_problems_that_the_series_was_trained_on_have_no_part_in_the_decision(
    tmp_path, validation_set, evaluation, publishing, store_root, capsys
):
    """One was the candidate's, another the incumbent's alone: their runs had other splits than this one."""
    listed = read_problems(validation_set / VALIDATION)
    before = trained_before(with_adapter(tmp_path / "before", scale=0.0), listed[1:3])
    store = open_store()
    published.publish(
        store, "nightly", "before", before, seen=published.read_pointer(store, "nightly"), decided_by="hand",
        facts={"prompting": {"use_chat_template": False}}, evaluation=None, provenance={},
    )  # fmt: skip
    model = trained_before(with_adapter(tmp_path / "model", scale=0.0), listed[:2])
    run(validation_set, model, evaluation, run_id="r", **publishing)
    decision = decision_of("r")
    assert decision["left_out"] == [problem.task_id for problem in listed[:3]]
    assert decision["problems"] == len(listed) - 3
    assert decision["all_training_known"] is True
    assert "3 validation problems have no part in the decision: this run, or one before it" in decision["reason"]
    assert "publish: warning: 3 validation problems have no part" in capsys.readouterr().out
    write_status("r", "", state="SUCCEEDED", error="")
    assert "3 validation problems have no part in the decision" in (store_root / "runs/r/status.html").read_text()


def test_where_all_of_them_were_trained_on_nothing_is_published(tmp_path, validation_set, evaluation, publishing):
    listed = read_problems(validation_set / VALIDATION)
    model = trained_before(with_adapter(tmp_path / "model", scale=0.0), listed)
    assert run(validation_set, model, evaluation, run_id="r", **publishing) == {"published": 0.0}
    assert "None is left to decide on: keep seed, data set and candidate_splits" in decision_of("r")["reason"]


@pytest.mark.usefixtures("local_sandbox")
@pytest.mark.slow
def test_a_model_of_which_nobody_says_what_it_was_trained_on_is_judged_and_that_is_said(
    tmp_path, validation_set, evaluation, publishing
):
    run(validation_set, with_adapter(tmp_path / "model", scale=0.0), evaluation, run_id="r", **publishing)
    decision = decision_of("r")
    assert (decision["left_out"], decision["all_training_known"]) == ([], False)
    assert "was trained on is not known: validation problems may be among it." in decision["reason"]


def test_without_validation_problems_nothing_is_published_and_the_run_goes_on(tmp_path, evaluation, publishing, capsys):
    write_problems(tmp_path / VALIDATION, [])
    model = with_adapter(tmp_path / "model", scale=0.0)
    assert run(tmp_path, model, evaluation, run_id="r", **publishing) == {"published": 0.0}
    assert "leaves no validation problems" in decision_of("r")["reason"]
    assert "take validation out of candidate_splits" in capsys.readouterr().out


def judged(base: list[int], tuned: list[int]):
    """A comparison of four trials a problem with these numbers of passes."""
    problems = [make_problem(str(number)) for number in range(len(base))]
    both = [[trials("+" * count + "-" * (4 - count)) for count in counts] for counts in (base, tuned)]
    return compare(problems, *both, samples=4)


@pytest.mark.parametrize(
    ("base", "tuned", "better", "words"),
    [
        ([0] * 30, [2] * 20 + [0] * 10, True, "better beyond noise"),
        ([1] * 30, [1] * 30, False, "within noise"),
        ([2] * 20 + [0] * 10, [0] * 30, False, "it is worse"),
        ([0] * 40, [1] * 2 + [0] * 38, False, "within noise"),
    ],
)
def test_only_what_is_better_beyond_noise_is_published(base, tuned, better, words):
    comparison = judged(base, tuned)
    decided, reason = verdict(comparison, "v1")
    assert decided is better
    assert words in reason
    assert "current version v1" in reason


def test_a_candidate_that_learns_the_tests_is_said_to_do_so():
    """Twice as many pass the visible tests, and two thirds of them fail a hidden one, of the incumbent's none."""
    problems = [make_problem(str(n), hidden_tests=["h"]) for n in range(30)]
    right, wrong, failed = trial("passed", hidden="passed"), trial("passed", hidden="failed"), trial("failed")
    before, after = [[right, failed, failed]] * 30, [[right, wrong, wrong]] * 30
    told = {"left_out": [], "all_training_known": True}
    (sentence,) = limits({**told, **figures(compare(problems, before, after, samples=3), seconds=1.0)})
    assert "that looks like reward hacking" in sentence
    assert limits({**told, **figures(compare(problems, before, before, samples=3), seconds=1.0)}) == []


def test_a_published_file_that_was_changed_is_not_taken(tmp_path, publishing, store_root):
    store = open_store()
    model = with_adapter(tmp_path / "model", scale=0.0)
    seen = published.read_pointer(store, "m")
    published.publish(store, "m", "v", model, seen=seen, decided_by="hand", facts={}, evaluation=None, provenance={})
    published.fetch_version(store, "m", "v", tmp_path / "fetched")
    assert (tmp_path / "fetched/adapter/adapter_config.json").is_file()
    assert not (tmp_path / "fetched/publication.json").exists()
    store.write("models/m/v/adapter/adapter_config.json", b"{}")
    with pytest.raises(InfraError, match="is not the file that was published"):
        published.fetch_version(store, "m", "v", tmp_path / "again")
    with pytest.raises(UserError, match="`models list` shows"):
        published.fetch_version(store, "m", "w", tmp_path / "none")
    store.write("models/m/current", b"../x\n")
    with pytest.raises(InfraError, match="names no version"):
        published.current_version(store, "m")
