"""The training benchmark compares like with like: it runs, and the plain loop ends with our losses or it says so."""

import json
from pathlib import Path

import pytest

from bench.train import TARGETS, measure, ratios_of


@pytest.mark.slow
def test_both_loops_do_the_same_work(local_sandbox: str, tmp_path: Path) -> None:
    (measured,) = measure(rounds=1, steps=4, sandbox_url=local_sandbox, folder=tmp_path)
    assert set(measured) == {"ours", "plain"}
    assert all(value > 0 for cost in measured.values() for value in cost.values())
    lines = (tmp_path / "ours-0/store/runs/ours-0/train/metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len({row["loss"] for row in rows}) == 4
    judging, whole = (sum(row["seconds"][phase] for row in rows) for phase in ("reward", "step"))
    ratios = ratios_of([measured])
    assert set(ratios) == set(TARGETS)
    assert 0 < ratios["reward_to_step"] < 1
    assert ratios["reward_to_step"] == pytest.approx(judging / whole)
