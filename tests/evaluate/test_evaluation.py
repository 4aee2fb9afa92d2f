"""The whole step with real models and a real sandbox: what it measures, writes and refuses."""

import json
import shutil
from pathlib import Path

import pytest
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from components.evaluate.evaluation import run, seed_of
from components.shared.errors import InfraError, UserError
from components.shared.problem import HELDOUT
from tests.conftest import DEMO_MODEL


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
    assert metrics["difference"] == content["difference"]["pass_at_1"]
    assert all(isinstance(value, float) for value in metrics.values())
    page = (tmp_path / "report.html").read_text()
    assert "It learned" in page
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
    with pytest.raises(InfraError, match="could not be judged"):
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


def test_a_4_bit_base_needs_a_gpu(tmp_path, problem_set, given, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    model = trained(tmp_path / "model", base=str(DEMO_MODEL), kind="adapter", method="qlora")
    with pytest.raises(UserError, match="qlora"):
        evaluated(tmp_path, problem_set, model, given)


def test_the_seeds_of_the_two_models_differ_and_repeat():
    assert seed_of(1, "base") != seed_of(1, "tuned") != seed_of(2, "tuned")
    assert seed_of(1, "base") == seed_of(1, "base")
