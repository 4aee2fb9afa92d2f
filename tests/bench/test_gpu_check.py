"""The GPU check: the whole of it at a tiny shape on a CPU, its verdict, and with a GPU the real thing."""

import subprocess
import sys
from typing import Any

import pytest

from bench.gpu_check import UNPROVEN, deviation, table, verdict
from tests.conftest import ROOT


def run_check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.gpu_check", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


def row(case: str, peak: float | None, planned: float) -> dict[str, Any]:
    seconds = {"generate": 4.0, "reward": 0.1, "update": 1.0, "step": 5.1}
    return {"case": case, "peak_gib": peak, "planned_gib": planned, "seconds": seconds, "tokens_per_s": 384.0}


@pytest.mark.slow
def test_it_goes_through_at_a_tiny_shape_and_says_that_it_proves_nothing() -> None:
    done = run_check("--tiny")
    assert done.returncode == 0, done.stderr
    assert "qlora is left out: it needs a CUDA GPU" in done.stdout
    assert "| lora, tiny |" in done.stdout
    assert "| full, tiny |" in done.stdout
    assert UNPROVEN in done.stdout


@pytest.mark.gpu
def test_peaks_are_those_of_the_plan() -> None:
    done = run_check()
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_plan_that_is_off_fails_the_check() -> None:
    good, bad = row("lora, 7B", 20.0, 19.0), row("full, 0.5B", 20.0, 17.0)
    assert verdict([good]) == ("Every peak is within 10% of its plan.", 0)
    assert verdict([good, bad]) == ("The plan is off by more than 10%: full, 0.5B +17.6%.", 1)
    assert verdict([row("lora, tiny", None, 1.0)]) == (UNPROVEN, 0)
    assert deviation(bad) == pytest.approx(3 / 17)


def test_the_table_has_a_column_for_each_phase() -> None:
    head, line, first = table([row("lora, 7B", 20.0, 19.0)]).splitlines()
    assert head.count("|") == line.count("|") == first.count("|")
    assert "| 4.00 | 0.10 | 1.00 | 5.10 | 384 |" in first
