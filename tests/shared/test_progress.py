"""How much longer: what an earlier attempt did, and how long a model took to load, says nothing about the pace."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from components.shared import progress
from components.shared.progress import PROGRESS_FILE, Progress


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let so many seconds pass, on a clock of the test's own."""
    now = [1000.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def test_a_fresh_run_goes_by_its_mean_pace(wait: Callable[[float], None]) -> None:
    bar = Progress("train", "training", 12, unit="steps")
    assert bar.seconds_left is None
    wait(30)
    bar.advance()
    assert bar.seconds_left == 330
    wait(10)
    bar.advance()
    assert bar.seconds_left == 200
    bar.update(12)
    assert bar.seconds_left == 0


def test_a_resumed_run_goes_by_its_own_steps_alone(
    wait: Callable[[float], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(PROGRESS_FILE, str(tmp_path / "events"))
    bar = Progress("train", "training", 12, unit="steps", every_update=True)
    wait(100)  # the model is loaded
    bar.skip_to(8)
    assert bar.seconds_left is None
    wait(10)
    bar.update(9, "reward 0.50")
    assert bar.seconds_left == 30
    assert capsys.readouterr().out == "train: training 9/12 steps, reward 0.50, 30 s left\n"
    told = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert [(event["done"], event["seconds_left"]) for event in told] == [(0, None), (8, None), (9, 30)]
