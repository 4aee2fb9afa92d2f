"""Two processes train as one does: the same batch, one journal, and adapters that agree."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from components.shared.errors import InfraError, UserError
from components.train import processes
from components.train.processes import launch
from components.train.schedule import plan
from tests.conftest import ROOT
from tests.train import crowded
from tests.train.conftest import parameters, rows
from tests.train.test_training import weights


def test_each_process_gets_its_share_of_a_step() -> None:
    asked = {"problems": 10, "epochs": 1, "batch_size": 16, "num_generations": 4}
    schedule = plan(**asked, micro_batch_size=2, processes=2)
    assert (schedule.accumulation, schedule.prompts_per_step) == (4, 4)
    with pytest.raises(UserError, match="does not divide the 8 completions that each of 2 processes gets"):
        plan(**asked, micro_batch_size=16, processes=2)


@pytest.mark.slow
def test_two_processes_learn_what_one_does(
    problem_set: Path, tmp_path: Path, store_root: Path, local_sandbox: str
) -> None:
    trained = {}
    for count in (1, 2):
        run_id = f"with-{count}"
        model = tmp_path / run_id / "model"
        given = parameters(epochs=2, save_steps=4, micro_batch_size=4)
        report = tmp_path / run_id / "report.html"
        model.parent.mkdir()
        scalars = launch(
            count, problems=problem_set, model=model, report=report, run_id=run_id, resume_run="", **given
        )  # fmt: skip
        assert scalars["steps"] == 12
        assert report.is_file()
        trained[run_id] = weights(model)
    one, two = (rows(store_root, run_id) for run_id in trained)
    assert [row["step"] for row in two] == list(range(1, 13))
    # The first step draws the same completions; later ones differ by rounding alone, until a token does.
    for key in ("reward", "groups", "outcomes", "ended_by"):
        assert two[0][key] == one[0][key], key
    assert abs(two[0]["loss"] - one[0]["loss"]) < 1e-4
    assert rows(store_root, "with-2", "samples.jsonl")[:4] == rows(store_root, "with-1", "samples.jsonl")[:4]
    agreement = [
        torch.nn.functional.cosine_similarity(trained["with-1"][name].flatten(), tensor.flatten(), dim=0)
        for name, tensor in trained["with-2"].items()
    ]
    assert sum(agreement) / len(agreement) > 0.7
    names = [path.name for path in (store_root / "checkpoints/with-2/12").iterdir()]
    assert {"rng_state_0.pth", "rng_state_1.pth", "manifest.json"} <= set(names)
    manifest = json.loads((store_root / "checkpoints/with-2/12/manifest.json").read_text())
    assert {"rng_state_0.pth", "rng_state_1.pth"} <= set(manifest["files"])


@pytest.mark.slow
def test_a_mistake_in_one_of_them_is_the_steps_own(problem_set: Path, tmp_path: Path, store_root: Path) -> None:
    given = parameters(grpo_overrides='{"epsilon_hi": 0.3}')
    with pytest.raises(UserError, match="did you mean epsilon_high"):
        launch(
            2, problems=problem_set, model=tmp_path / "model", report=tmp_path / "report.html", run_id="run",
            resume_run="", **given,
        )  # fmt: skip


@pytest.fixture
def two(
    problem_set: Path, tmp_path: Path, store_root: Path, local_sandbox: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """Train for 6 steps in two processes, to which happens what tests/train/crowded.py has for this run id."""
    monkeypatch.setattr(processes, "__name__", crowded.__name__)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)

    def go(run_id: str) -> Path:
        model = tmp_path / run_id / "model"
        model.parent.mkdir(exist_ok=True)
        asked = {"problems": problem_set, "model": model, "report": model.with_name("report.html")}
        launch(2, **asked, run_id=run_id, resume_run="", **parameters(save_steps=2, micro_batch_size=8))
        return model

    return go


def told(store_root: Path, run_id: str) -> list[Any]:
    return [{**row, "seconds": None} for row in rows(store_root, run_id)]


@pytest.mark.slow
def test_two_processes_that_were_stopped_end_as_if_they_had_not_been(
    two: Callable[..., Path], store_root: Path
) -> None:
    whole = weights(two("whole"))
    with pytest.raises(InfraError, match=r"stopped from outside \(SIGTERM\); \d of 6 steps are kept"):
        two(crowded.STOPPED)
    assert len(told(store_root, crowded.STOPPED)) < 6
    final = weights(two(crowded.STOPPED))
    assert told(store_root, crowded.STOPPED) == told(store_root, "whole")
    assert all(torch.equal(final[name], tensor) for name, tensor in whole.items())


@pytest.mark.slow
def test_memory_that_runs_out_in_one_of_two_makes_both_start_again_with_less(
    two: Callable[..., Path], store_root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    two(crowded.SMALL_GPU)
    log = capfd.readouterr().out
    assert "Memory ran out in one of 2 processes at micro_batch_size 8" in log
    assert "micro_batch_size is 4 now" in log
    assert "continues run small-gpu after step 2 of 6" in log
    assert [row["step"] for row in rows(store_root, crowded.SMALL_GPU)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_a_failure_in_the_second_process_is_told_in_its_own_words(two: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="logits are inf or nan"):
        two(crowded.NAN)
