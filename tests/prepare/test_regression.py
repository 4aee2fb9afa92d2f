"""The regression set: checked, written apart from the rest, and refused where none of it is sound."""

from pathlib import Path

import pytest

from components.shared.errors import UserError
from components.shared.problem import REGRESSION, read_problems
from tests.conftest import ROOT
from tests.prepare.examples import full_row, write_jsonl
from tests.prepare.preparing import prepare


def test_the_regression_set_is_checked_and_written_apart(tmp_path: Path, own_data: Path, sandbox_url: str) -> None:
    rows = [full_row(31), full_row(32, code="def add_32(x):\n    return 0"), full_row(33, code="def add_33(x) return")]
    elsewhere = write_jsonl(tmp_path / "elsewhere.jsonl", rows)
    written = prepare(tmp_path / "out", own_data, sandbox_url, regression_dataset=str(elsewhere))
    (problem,) = read_problems(tmp_path / "out" / REGRESSION)
    assert (problem.task_id, problem.split, problem.source) == ("31", "regression", "elsewhere")
    assert problem.hidden_tests == []
    assert {(row["task_id"], row["split"], row["kind"]) for row in written.quarantined} == {
        ("32", "regression", "reference"),
        ("33", "regression", "unusable"),
    }
    assert written.counts["regression"] == 1
    assert "Regression problems" in written.card
    without = prepare(tmp_path / "without", own_data, sandbox_url)
    assert not (tmp_path / "without" / REGRESSION).exists()
    assert without.counts["regression"] == 0


def test_a_regression_set_without_a_sound_problem_is_the_users_mistake(
    tmp_path: Path, own_data: Path, sandbox_url: str
) -> None:
    elsewhere = write_jsonl(tmp_path / "elsewhere.jsonl", [full_row(2, code="def add_2(x):\n    return 0")])
    with pytest.raises(UserError, match="gives no problem whose reference passes its tests: its reference does not"):
        prepare(tmp_path / "out", own_data, sandbox_url, regression_dataset=str(elsewhere))


@pytest.mark.slow
def test_the_demos_regression_set_is_sound_and_costs_the_demo_few_training_problems(
    tmp_path: Path, sandbox_url: str
) -> None:
    given = {"candidate_splits": "train", "max_candidate_samples": 240, "max_eval_samples": 100, "hidden_tests": 0}
    regression = {"regression_dataset": str(ROOT / "demo/regression.jsonl")}
    written = prepare(tmp_path / "out", ROOT / "demo/problems", sandbox_url, **given, **regression)
    assert len(read_problems(tmp_path / "out" / REGRESSION)) == 20
    assert not [name for name in written.counts["weak"] if name.startswith("regression")]
    assert (len(written.problems), len(written.heldout)) == (240, 100)
    assert len(written.card.encode()) < 500_000
