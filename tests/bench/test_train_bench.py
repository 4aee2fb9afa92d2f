"""The training benchmark compares like with like: it runs, and the plain loop ends with our losses or it says so."""

import json
from pathlib import Path

import pytest

from bench.train import measure


@pytest.mark.slow
def test_both_loops_do_the_same_work(local_sandbox: str, tmp_path: Path) -> None:
    (row,) = measure(rounds=1, steps=4, sandbox_url=local_sandbox, folder=tmp_path)
    assert set(row) == {"ours", "plain"}
    assert all(value > 0 for cost in row.values() for value in cost.values())
    rows = (tmp_path / "ours-0/store/runs/ours-0/train/metrics.jsonl").read_text().splitlines()
    assert len({json.loads(line)["loss"] for line in rows}) == 4
