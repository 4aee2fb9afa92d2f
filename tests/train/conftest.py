"""The demo's training problems as a problem set, and the train step with the demo's parameters."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from components.shared.problem import PROBLEMS, write_problems
from tests.conftest import ROOT, demo_problems


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
    """Run the train step on the demo's parameters with changes; returns its scalars and the model folder."""
    from components.train.component import train as face
    from components.train.training import run
    from pipeline import grpo_code

    torch.set_num_threads(1)
    defaults = {name: spec.default for name, spec in grpo_code.component_spec.inputs.items()}
    preset = tomllib.loads((ROOT / "demo/parameters.toml").read_text())
    small = {
        "batch_size": 16,
        "num_generations": 4,
        "max_completion_length": 32,
        "model_name": str(ROOT / "demo/model"),
    }
    wanted = [name for name in face.component_spec.inputs if name in defaults and name != "resume_run"]

    def go(run_id: str = "run", **changes: Any) -> tuple[dict[str, float], Path]:
        given = {**defaults, **preset, **small, **changes}
        target = tmp_path / run_id / "model"
        scalars = run(
            changes.pop("problems", problem_set),
            target,
            tmp_path / run_id / "report.html",
            run_id=run_id,
            resume_run="",
            **{name: given[name] for name in wanted},
        )
        return scalars, target

    return go


def rows(store_root: Path, run_id: str, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """The rows of a JSONL file that a run left."""
    text = (store_root / f"runs/{run_id}/train/{name}").read_text()
    return [json.loads(line) for line in text.splitlines()]
