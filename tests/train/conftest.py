"""The demo's training problems as a problem set, and the train step with the demo's parameters."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bitsandbytes.nn import Linear4bit
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from components.shared.problem import PROBLEMS, write_problems
from tests.conftest import ROOT, demo_problems


def parameters(**changes: Any) -> dict[str, Any]:
    """What the train step is given by default in these tests: the demo's parameters in a small size, with changes."""
    from components.handed import HANDED
    from pipeline import grpo_code

    defaults = {name: spec.default for name, spec in grpo_code.component_spec.inputs.items()}
    preset = tomllib.loads((ROOT / "demo/parameters.toml").read_text())
    small = {
        "batch_size": 16,
        "num_generations": 4,
        "max_completion_length": 32,
        "model_name": str(ROOT / "demo/model"),
    }
    given = {**defaults, **preset, **small, **changes}
    return {name: given[name] for name in ("model_revision", *HANDED["train"]) if name != "resume_run"}


@pytest.fixture
def problem_set(tmp_path: Path) -> Path:
    """A folder of 24 training problems, as prepare hands them on."""
    folder = tmp_path / "problems"
    write_problems(folder / PROBLEMS, demo_problems(24))
    return folder


@pytest.fixture
def train(
    problem_set: Path, tmp_path: Path, local_sandbox: str, store_root: Path
) -> Callable[..., tuple[dict[str, float], Path]]:
    """Run the train step on the demo's parameters with changes; returns its scalars and the model folder.

    resume_run: the run that `run_id` continues, as on a cluster.
    """
    from components.train.training import run

    torch.set_num_threads(1)

    def go(run_id: str = "run", *, resume_run: str = "", **changes: Any) -> tuple[dict[str, float], Path]:
        problems = changes.pop("problems", problem_set)
        target, report = tmp_path / run_id / "model", tmp_path / run_id / "report.html"
        scalars = run(problems, target, report, run_id=run_id, resume_run=resume_run, **parameters(**changes))
        return scalars, target

    return go


def four_bit_policy(*_: Any, **__: Any) -> Any:
    """The demo's model in 4 bits on the CPU, where grpo.load_policy asks for a GPU."""
    config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32)
    policy = AutoModelForCausalLM.from_pretrained(
        ROOT / "demo/model", dtype=torch.float32, quantization_config=config, device_map={"": "cpu"}
    )
    for module in policy.modules():
        if isinstance(module, Linear4bit):
            module.support_avx512bf16_for_cpu = False  # bitsandbytes' faster way knows no backward pass
    return policy.eval()


def rows(store_root: Path, run_id: str, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """The rows of a JSONL file that a run left."""
    text = (store_root / f"runs/{run_id}/train/{name}").read_text()
    return [json.loads(line) for line in text.splitlines()]
