"""The whole step with real models and a real sandbox: what it measures, writes and refuses."""

import json
import shutil
from pathlib import Path

import pytest
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from components.evaluate.evaluation import run, seed_of
from components.evaluate.models import Subjects
from components.evaluate.planned import planned, sentence
from components.evaluate.trials import Examination, lost
from components.shared import kept
from components.shared.batches import Fit
from components.shared.errors import InfraError, UserError
from components.shared.grading import Grader
from components.shared.problem import HELDOUT, REGRESSION, read_problems, write_problems
from components.shared.sampling import Sampling
from components.shared.sandbox import SandboxClient
from components.shared.statistics import mean_interval
from components.shared.store import open_store, upload_folder
from tests.conftest import DEMO_MODEL, demo_problems
from tests.evaluate.test_comparison import trial


def trained(folder: Path, *, base: str, kind: str, method: str) -> Path:
    """model.json as train writes it; the caller puts the weights beside it."""
    (folder / kind).mkdir(parents=True)
    facts = {"kind": kind, "method": method, "base": base, "revision": "", "run": "r", "steps": 1}
    (folder / "model.json").write_text(json.dumps(facts))
    return folder


def fully_trained(folder: Path, *, base: Path, weights: Path) -> Path:
    model = trained(folder, base=str(base), kind="model", method="full")
    shutil.copytree(weights, model / "model", dirs_exist_ok=True)
    return model


def with_adapter(folder: Path, *, scale: float) -> Path:
    """An adapter on the demo's model; with scale 0 it changes nothing, as a fresh LoRA does."""
    model = trained(folder, base=str(DEMO_MODEL), kind="adapter", method="lora")
    policy = get_peft_model(
        AutoModelForCausalLM.from_pretrained(DEMO_MODEL), LoraConfig(r=4, target_modules="all-linear")
    )
    for name, parameter in policy.named_parameters():
        if "lora_B" in name:
            parameter.data.fill_(scale)
    policy.save_pretrained(model / "adapter")
    return model


def evaluated(tmp_path: Path, problems: Path, model: Path, given: dict) -> tuple[dict, dict]:
    """(metrics, content of evaluation.json) of one run of the step."""
    metrics = run(problems, model, tmp_path / "evaluation", tmp_path / "report.html", **given)
    return metrics, json.loads((tmp_path / "evaluation/evaluation.json").read_text())


@pytest.mark.usefixtures("local_sandbox")
def test_a_model_that_learned_is_found_to_have_learned(tmp_path, problem_set, untaught_model, given, store_root):
    model = fully_trained(tmp_path / "model", base=untaught_model, weights=DEMO_MODEL)
    given["model_name"] = str(untaught_model)
    metrics, content = evaluated(tmp_path, problem_set, model, given)
    assert content["base"]["pass_at_1"] == 0.0
    assert content["tuned"]["pass_at_1"] > 0.15
    assert content["difference"]["ci95"][0] > 0
    assert sum(content["tuned"]["outcomes"].values()) == 12 * 3
    assert content["hidden_tests"]["problems"] == 1
    assert content["hidden_tests"]["tuned"]["gap"] == 0.0, "its hidden test is one of the visible ones"
    assert content["greedy"]["base"]["pass_at_1"] == 0.0
    assert content["greedy"]["tuned"]["pass_at_1"] > 0.15
    assert metrics["difference"] == content["difference"]["pass_at_1"]
    assert all(isinstance(value, float) for value in metrics.values())
    page = (tmp_path / "report.html").read_text()
    assert "This model learned" in page
    assert "Passing sample of the tuned model" in page
    folder = store_root / "runs/kfp-id"
    assert (folder / "evaluate/report.html").read_text() == page
    assert json.loads((folder / "evaluate/evaluation.json").read_text()) == content
    assert (store_root / "runs/latest").read_text() == "kfp-id\n"


@pytest.mark.usefixtures("local_sandbox")
def test_an_adapter_changes_the_tuned_model_and_not_the_base(tmp_path, problem_set, given, store_root):
    fresh = with_adapter(tmp_path / "fresh", scale=0.0)
    ruined = with_adapter(tmp_path / "ruined", scale=10.0)
    _, unchanged = evaluated(tmp_path / "a", problem_set, fresh, given)
    _, worse = evaluated(tmp_path / "b", problem_set, ruined, given)
    assert worse["base"] == unchanged["base"], "the same seed and weights say the same"
    assert worse["tuned"]["pass_at_1"] == 0.0
    assert worse["buckets"]["improved"] == []
    assert unchanged["tuned"]["pass_at_1"] > 0
    assert unchanged["per_problem"] != [
        {**row, "tuned_passes": row["base_passes"]} for row in unchanged["per_problem"]
    ], "the seeds of the two models are independent"


@pytest.mark.usefixtures("local_sandbox")
def test_the_record_of_the_run_is_completed(tmp_path, problem_set, given, store_root, monkeypatch):
    monkeypatch.setenv("GRPO_RUN_ID", "local-1")
    folder = store_root / "runs/local-1"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"parameters": {"lr": 0.1}, "seconds": {"train": 9.0}}))
    evaluated(tmp_path, problem_set, with_adapter(tmp_path / "model", scale=0.0), given)
    record = json.loads((folder / "run.json").read_text())
    assert record["parameters"]["lr"] == 0.1
    assert record["parameters"]["eval_k"] == 3
    assert record["seconds"].keys() == {"prepare", "train", "evaluate"}
    assert record["datasets"][HELDOUT].startswith("sha256:")
    assert record["seeds"] == {"seed": 7, "evaluate_base": seed_of(7, "base"), "evaluate_tuned": seed_of(7, "tuned")}
    assert "torch" in record["versions"]


@pytest.mark.usefixtures("local_sandbox")
def test_fewer_problems_than_asked_for_are_a_warning(tmp_path, problem_set, given, store_root, capsys):
    given.update(num_eval_examples=40, eval_k=1, max_completion_length=8)
    _, content = evaluated(tmp_path, problem_set, with_adapter(tmp_path / "model", scale=0.0), given)
    assert (content["problems"], content["requested_problems"]) == (16, 40)
    assert "asks for 40 held-out problems, there are 16" in capsys.readouterr().out
    assert "the held-out pool has 24 fewer" in (tmp_path / "report.html").read_text()


def test_a_sandbox_that_cannot_be_reached_is_no_result(tmp_path, problem_set, given, store_root, monkeypatch):
    monkeypatch.setenv("GRPO_SANDBOX_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("components.shared.sandbox.SandboxClient.__init__.__kwdefaults__", {"retry_seconds": 0.1})
    with pytest.raises(InfraError, match="is not ready"):
        evaluated(tmp_path, problem_set, with_adapter(tmp_path / "model", scale=0.0), given)
    assert not (tmp_path / "evaluation").exists()
    assert not store_root.exists()


def test_what_is_no_trained_model_is_refused(tmp_path, problem_set, given):
    with pytest.raises(UserError, match=r"model\.json"):
        evaluated(tmp_path, problem_set, tmp_path, given)
    (tmp_path / "model.json").write_text('{"kind": "adapter"}')
    with pytest.raises(UserError, match="no such folder"):
        evaluated(tmp_path, problem_set, tmp_path, given)


def test_a_model_is_only_compared_with_its_own_base(tmp_path, problem_set, given):
    model = trained(tmp_path / "model", base="some/other", kind="adapter", method="lora")
    with pytest.raises(UserError, match="some/other"):
        evaluated(tmp_path, problem_set, model, given)


def test_without_held_out_problems_there_is_nothing_to_compare(tmp_path, given):
    model = trained(tmp_path / "model", base=str(DEMO_MODEL), kind="adapter", method="lora")
    (tmp_path / "prepare").mkdir()
    (tmp_path / HELDOUT).write_text("")
    with pytest.raises(UserError, match="no held-out problems"):
        evaluated(tmp_path, tmp_path, model, given)


def test_a_4_bit_base_needs_a_gpu(tmp_path, problem_set, given, store_root, local_sandbox, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    model = trained(tmp_path / "model", base=str(DEMO_MODEL), kind="adapter", method="qlora")
    with pytest.raises(UserError, match="qlora"):
        evaluated(tmp_path, problem_set, model, given)


def test_the_seeds_of_the_two_models_differ_and_repeat():
    assert seed_of(1, "base") != seed_of(1, "tuned") != seed_of(2, "tuned")
    assert seed_of(1, "base") == seed_of(1, "base")


@pytest.mark.usefixtures("local_sandbox")
def test_what_can_be_shown_is_said_before_anything_is_sampled(tmp_path, problem_set, given, store_root, capsys):
    given.update(eval_k=2, max_completion_length=8)
    _, content = evaluated(tmp_path, problem_set, with_adapter(tmp_path / "model", scale=0.0), given)
    lines = capsys.readouterr().out.splitlines()
    said = next(
        place for place, line in enumerate(lines) if "12 problems with 2 samples of each model can show" in line
    )
    assert said < next(place for place, line in enumerate(lines) if "base model, sampled" in line)
    assert content["planned"]["minimum_detectable"] == pytest.approx(2.8 * ((0.02 + 2 * 0.1 / 2) / 12) ** 0.5)
    assert content["planned"]["from"] == "assumed"


def test_the_plan_takes_the_filters_estimate_where_there_is_one(tmp_path):
    (tmp_path / "filter").mkdir()
    (tmp_path / "filter/counts.json").write_text(json.dumps({"sample_variance": 0.2}))
    plan = planned(tmp_path, 50, 4)
    assert plan["minimum_detectable"] == pytest.approx(2.8 * ((0.02 + 2 * 0.2 / 4) / 50) ** 0.5)
    assert "given the filter's pass rates" in sentence(plan, count=50, samples=4, alone=False)


@pytest.mark.parametrize("count", [2, 9, 20, 50, 51, 500])
def test_no_interval_of_one_model_is_wider_than_planned(tmp_path, count):
    worst = mean_interval([0.0] * (count // 2) + [1.0] * (count - count // 2), low=0.0, high=1.0)
    planned_half = planned(tmp_path, count, 4)["half_width_alone"]
    assert max(worst.mean - worst.low, worst.high - worst.mean) <= planned_half + 1e-9
    assert planned(tmp_path, 1, 4)["half_width_alone"] == 1.0


@pytest.mark.usefixtures("local_sandbox")
def test_regression_problems_are_scored_with_both_models(tmp_path, problem_set, untaught_model, given, store_root):
    """A model that has unlearned the demo is seen to cost elsewhere, whatever it does on the held-out problems."""
    folder = tmp_path / "set"
    shutil.copytree(problem_set, folder)
    write_problems(folder / REGRESSION, read_problems(folder / HELDOUT)[:14])
    model = fully_trained(tmp_path / "model", base=DEMO_MODEL, weights=untaught_model)
    given["eval_k"] = 4
    metrics, content = evaluated(tmp_path, folder, model, given)
    regression = content["regression"]
    assert regression["problems"] == 14
    assert regression["tuned"]["pass_at_1"] == 0.0
    assert metrics["regression_difference"] == regression["difference"]["pass_at_1"] < 0
    assert regression["minimum_detectable"] > 0
    assert "It costs elsewhere: on 14 regression problems pass@1 fell" in (tmp_path / "report.html").read_text()


@pytest.mark.usefixtures("local_sandbox")
def test_a_base_alone_is_evaluated_without_a_difference(tmp_path, problem_set, given, store_root):
    metrics = run(problem_set, None, tmp_path / "evaluation", tmp_path / "report.html", **given)
    content = json.loads((tmp_path / "evaluation/evaluation.json").read_text())
    assert 0 < metrics["base_pass_at_1"] < 1
    assert "difference" not in metrics
    assert "tuned" not in content
    assert json.loads((store_root / "runs/kfp-id/run.json").read_text())["seeds"].keys() == {"seed", "evaluate_base"}


@pytest.mark.usefixtures("local_sandbox")
def test_the_model_at_an_address_is_evaluated_like_one_that_was_just_trained(tmp_path, problem_set, given, store_root):
    model = with_adapter(tmp_path / "model", scale=0.05)
    _, trained_now = evaluated(tmp_path / "a", problem_set, model, given)
    upload_folder(open_store(), "runs/demo/train", model)
    run(problem_set, None, tmp_path / "b", tmp_path / "b.html", **{**given, "tuned_model": "runs/demo"})
    published = json.loads((tmp_path / "b/evaluation.json").read_text())
    assert published["per_problem"] == trained_now["per_problem"]
    assert published["tuned_model"] == "runs/demo"
    assert published["tuned_run"] == "r", "an address like models/NAME may mean another model by now"
    assert published["training_seeds"] is None, "with which seed it was trained nobody said"


@pytest.mark.usefixtures("local_sandbox")
def test_a_control_stays_one_when_it_is_evaluated_by_its_address(tmp_path, problem_set, given, store_root):
    model = with_adapter(tmp_path / "model", scale=0.0)
    facts = json.loads((model / "model.json").read_text()) | {"reward": "random", "seed": 5}
    (model / "model.json").write_text(json.dumps(facts))
    given |= {"tuned_model": str(model), "max_completion_length": 4}
    run(problem_set, None, tmp_path / "evaluation", tmp_path / "report.html", **given)
    content = json.loads((tmp_path / "evaluation/evaluation.json").read_text())
    assert (content["reward"], content["training_seeds"]) == ("random", [5])
    assert "Control run with random rewards" in (tmp_path / "report.html").read_text()


@pytest.mark.usefixtures("local_sandbox")
def test_another_base_at_an_own_address_is_a_warning_and_one_that_does_not_fit_is_refused(
    tmp_path, problem_set, given, store_root, untaught_model, capsys
):
    with_adapter(tmp_path / "model", scale=0.0)
    given |= {"tuned_model": str(tmp_path / "model"), "max_completion_length": 4, "model_name": str(untaught_model)}
    with pytest.raises(UserError, match="does not fit this base"):
        run(problem_set, None, tmp_path / "evaluation", tmp_path / "report.html", **given)
    assert f"warning: the model was trained from {DEMO_MODEL}" in capsys.readouterr().out


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
            raise InfraError("the sandbox is gone")
        return judge(self, pairs)

    monkeypatch.setattr(Grader, "grade", grade)
    with pytest.raises(InfraError, match="is gone"):
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


@pytest.mark.slow
@pytest.mark.usefixtures("local_sandbox")
def test_a_base_against_itself_is_within_noise_in_18_of_20_evaluations(tmp_path, problem_set, given, store_root):
    """Real samples and verdicts: an adapter that changes nothing, with independent seeds for the two models."""
    model = with_adapter(tmp_path / "model", scale=0.0)
    quiet = 0
    for seed in range(20):
        given.update(seed=seed, num_eval_examples=16, eval_k=4)
        _, content = evaluated(tmp_path / str(seed), problem_set, model, given)
        quiet += content["within_noise"]
    assert quiet >= 18


@pytest.mark.slow
@pytest.mark.usefixtures("local_sandbox")
def test_an_evaluation_of_40_problems_with_4_samples_takes_less_than_20_seconds(tmp_path, given, store_root):
    write_problems(tmp_path / HELDOUT, demo_problems(40))
    given.update(num_eval_examples=40, eval_k=4, max_completion_length=48)
    _, content = evaluated(tmp_path, tmp_path, with_adapter(tmp_path / "model", scale=0.01), given)
    assert content["problems"] == 40
    assert content["seconds"] < 20
