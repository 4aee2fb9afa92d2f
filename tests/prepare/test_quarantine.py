"""Rows that are left out, each with its reason, and problems that are kept and named as weak."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.prepare.splits import drawn
from tests.prepare.examples import full_row, write_jsonl
from tests.prepare.preparing import ids, prepare

SEED_THAT_DRAWS_2_FIRST = next(
    seed
    for seed in range(100)
    if drawn([SimpleNamespace(task_id=str(n)) for n in range(1, 5)], seed, purpose="candidates")[0].task_id == "2"
)
BROKEN: dict[str, dict[str, Any]] = {
    "failed in test 2": {"test_list": ["assert add_2(0) == 2", "assert add_2(1) == 4", "assert add_2(2) == 4"]},
    "error in test 1": {"code": "def add_2(x):\n    return y"},
    "failed in challenge test 1": {"challenge_test_list": ["assert add_2(7) == 8"]},
    "timeout in test 1": {"code": "def add_2(x):\n    while True:\n        pass"},
    "is no Python": {"code": "def add_2(x) return x + 2"},
    "call no function": {"code": "def add_two(x):\n    return x + 2"},
}


@pytest.mark.parametrize("reason", BROKEN)
def test_a_row_whose_reference_fails_is_quarantined_with_the_reason_and_replaced(
    tmp_path: Path, sandbox_url: str, reason: str
) -> None:
    rows = [full_row(n, **(BROKEN[reason] if n == 2 else {})) for n in range(1, 5)]
    write_jsonl(tmp_path / "own/train.jsonl", rows)
    write_jsonl(tmp_path / "own/test.jsonl", [full_row(9)])
    given = {"max_candidate_samples": 3, "max_eval_samples": 1, "test_timeout_s": 0.5, "seed": SEED_THAT_DRAWS_2_FIRST}
    written = prepare(tmp_path / "out", tmp_path / "own", sandbox_url, **given)
    assert sorted(ids(written.problems)) == ["1", "3", "4"]
    (row,) = written.quarantined
    assert row["task_id"] == "2"
    assert reason in row["reason"]
    assert written.counts["quarantined"] == 1
    assert reason in written.card
    late = ["1 references take more than half of the CPU time that test_timeout_s gives a program"]
    told = [warning.split(", and were left out")[0] for warning in written.counts["warnings"]]
    assert told == (late if reason.startswith("timeout") else [])


def test_weak_problems_are_not_trained_on_and_named_where_they_are_measured_on(
    tmp_path: Path, own_data: Path, sandbox_url: str
) -> None:
    write_jsonl(
        own_data / "train.jsonl", [full_row(1, test_list=["assert add_1(1) == 2"]), *map(full_row, range(2, 9))]
    )
    write_jsonl(own_data / "test.jsonl", [full_row(21, test_list=["assert add_21(1) == 22"]), *map(full_row, (22, 23))])
    written = prepare(tmp_path / "out", own_data, sandbox_url, max_candidate_samples=20, max_eval_samples=3)
    assert "1" not in ids(written.problems)
    assert "21" in ids(written.heldout)
    assert written.counts["weak"] == {"21": "always returns 22"}
    (row,) = written.quarantined
    assert (row["task_id"], row["kind"]) == ("1", "weak")
    assert "a program that always returns 2 passes its tests" in row["reason"]
    (warning,) = [warning for warning in written.counts["warnings"] if "weak" in warning]
    assert warning.endswith("passes the tests of 21.")
    assert "always returns 22" in written.card
