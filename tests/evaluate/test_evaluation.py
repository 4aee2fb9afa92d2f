"""The whole step with real models and a real sandbox: what it measures, writes and refuses."""

import json
import shutil

import pytest

from components.evaluate.evaluation import seed_of
from components.shared.errors import InfraError, UserError
from components.shared.problem import HELDOUT, REGRESSION, read_problems, write_problems
from tests.conftest import DEMO_MODEL, demo_problems
from tests.evaluate.trained import evaluated, fully_trained, trained, with_adapter


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
