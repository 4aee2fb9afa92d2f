"""A run that is killed or stopped anywhere ends with the metrics and weights of one that was left alone."""

import json
import multiprocessing
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from components.shared.progress import PROGRESS_FILE
from tests.train.conftest import parameters, rows
from tests.train.dying import POINTS, Attempt, main
from tests.train.test_training import weights

PROCESSES = multiprocessing.get_context("forkserver")
# (steps done when the signal comes, the newest checkpoint after kill -9); checkpoints are due after 4, 8 and 12 steps.
# The journal and a half-written checkpoint belong to the checkpoint of step 8, which then does not exist.
STEPS = {"rollout": (1, 0), "reward": (9, 8), "update": (6, 4), "journal": (4 * 6, 4), "upload": (8, 4)}
# The steps that SIGTERM leaves, where the point is one of the trainer's own; the others are the uploads', beside it.
LEFT_BY_SIGTERM = {"rollout": 1, "reward": 9, "update": 7}


@pytest.fixture
def attempt(
    problem_set: Path, tmp_path: Path, store_root: Path, sandbox_url: str
) -> Callable[..., tuple[int | None, str]]:
    """Run the train step in a process of its own; returns its exit code and its log."""
    PROCESSES.set_forkserver_preload(["components.train.training"])

    def go(run_id: str, **trap: Any) -> tuple[int | None, str]:
        log = tmp_path / f"{run_id}.txt"
        environment = {"GRPO_STORE": str(store_root), "GRPO_SANDBOX_URL": sandbox_url}
        environment[PROGRESS_FILE] = str(tmp_path / f"{run_id}.events")
        given = {"run_id": run_id, **parameters(epochs=2, save_steps=4, micro_batch_size=4)}
        target = tmp_path / run_id / "model"
        process = PROCESSES.Process(
            target=main, args=(Attempt(problem_set, target, log, environment, given, **trap),)
        )  # fmt: skip
        process.start()
        process.join(120)
        return process.exitcode, log.read_text()

    return go


def told(run_id: str, root: Path) -> list[Any]:
    return [{**row, "seconds": None} for row in rows(root, run_id)] + rows(root, run_id, "samples.jsonl")


def check_time_left(events: Path, done: int) -> None:
    """The time left after the first step of an attempt that begins after `done` is by the pace of that step alone."""
    told = [one for one in map(json.loads, events.read_text().splitlines()) if one.get("task") == "training"]
    begin, first = next(pair for pair in pairwise(told) if pair[1]["done"] == done + 1)
    assert (begin["done"], begin["seconds_left"]) == (done, None)
    assert first["seconds_left"] == pytest.approx((first["time"] - begin["time"]) * (11 - done), abs=1.0)


def newest_checkpoint(root: Path, run_id: str) -> int:
    return max((int(file.parent.name) for file in root.glob(f"checkpoints/{run_id}/*/manifest.json")), default=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param([(signal.SIGKILL, "upload"), (signal.SIGTERM, "reward")], id="two of them"),
        pytest.param(
            [(number, point) for number in (signal.SIGKILL, signal.SIGTERM) for point in POINTS],
            id="all of them",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_interrupted_run_ends_as_one_that_was_not(
    cases: list[tuple[signal.Signals, str]],
    attempt: Callable[..., tuple[int | None, str]],
    tmp_path: Path,
    store_root: Path,
) -> None:
    assert attempt("whole")[0] == 0
    expected, tensors = told("whole", store_root), weights(tmp_path / "whole/model")
    assert len(rows(store_root, "whole")) == 12
    for number, point in cases:
        run_id = f"{number.name}-{point}"
        step, left = STEPS[point]
        code, log = attempt(run_id, point=point, step=step, number=number)
        page = (store_root / f"runs/{run_id}/train/report.html").read_text()
        assert page.rstrip().endswith("</html>")  # whole, however the run ended
        assert ("http-equiv" in page) == (number == signal.SIGKILL)
        if number == signal.SIGKILL:
            assert code == -signal.SIGKILL, log
        else:
            assert code == 1, log
            assert "stopped from outside (SIGTERM)" in log
            left = rows(store_root, run_id)[-1]["step"]  # the last step that was done is kept, whatever the point
            assert left == LEFT_BY_SIGTERM.get(point, left)
            assert f"{left} of 12 steps are kept" in log
        assert newest_checkpoint(store_root, run_id) == left, log
        events = tmp_path / f"{run_id}.events"
        events.unlink()
        code, log = attempt(run_id)
        assert code == 0, log
        assert (f"continues run {run_id} after step {left} of 12" in log) == (left > 0)
        check_time_left(events, left)
        assert told(run_id, store_root) == expected, run_id
        final = weights(tmp_path / run_id / "model")
        assert all(torch.equal(final[name], tensor) for name, tensor in tensors.items()), run_id
