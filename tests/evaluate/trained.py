"""Models as train hands them on, made in a moment, and one run of the evaluation over them."""

import json
import shutil
from pathlib import Path

from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from components.evaluate.evaluation import run
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
