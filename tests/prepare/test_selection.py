"""Which problems a run of the step draws, into which list, and what must not be in two of them."""

from collections import Counter
from pathlib import Path

import pytest

from tests.prepare.examples import full_row, sanitized_row, write_jsonl
from tests.prepare.preparing import ids, prepare


def test_problems_are_drawn_by_split_and_timed(tmp_path: Path, own_data: Path, sandbox_url: str) -> None:
    written = prepare(tmp_path / "out", own_data, sandbox_url)
    assert (len(written.problems), len(written.heldout)) == (6, 4)
    assert {problem.split for problem in written.heldout} == {"test"}
    assert {problem.split for problem in written.problems} <= {"train", "validation"}
    unused = {"11", "12", "13", "14"} - set(ids(written.problems))
    assert set(ids(written.validation)) == unused
    assert not set(ids(written.problems)) & set(ids(written.heldout))
    for problem in written.problems + written.heldout + written.validation:
        assert problem.source == "own"
        assert problem.reference_cpu_ms is not None
        assert 0 < problem.reference_cpu_ms < 5000
    assert written.quarantined == []
    assert written.counts["splits"] == {"train": 10, "validation": 4, "test": 6}
    assert written.counts["warnings"] == []
    assert written.counts["dataset_digest"].startswith("sha256:")


def test_where_nothing_is_trained_on_all_rows_without_a_split_are_held_out(tmp_path: Path, sandbox_url: str) -> None:
    data = tmp_path / "unsorted.jsonl"
    write_jsonl(data, [sanitized_row(n) for n in range(21, 27)])
    written = prepare(tmp_path / "out", data, sandbox_url, max_candidate_samples=0, max_eval_samples=6)
    assert (len(written.heldout), written.problems, written.validation) == (6, [], [])
    assert written.counts["warnings"] == []
    assert "0 problems to train on, 6 held out" in written.card


def test_where_nothing_is_trained_on_a_split_that_is_named_still_holds(
    tmp_path: Path, own_data: Path, sandbox_url: str
) -> None:
    written = prepare(tmp_path / "out", own_data, sandbox_url, max_candidate_samples=0, max_eval_samples=10)
    assert {problem.split for problem in written.heldout} == {"test"}
    assert len(written.heldout) == 6
    assert any("max_eval_samples asks for 10" in warning for warning in written.counts["warnings"])


def test_a_seed_draws_the_same_again_and_fewer_are_the_first_of_more(
    tmp_path: Path, own_data: Path, sandbox_url: str
) -> None:
    first, again, fewer, other = (
        prepare(tmp_path / name, own_data, sandbox_url, **given)
        for name, given in (
            ("first", {}),
            ("again", {}),
            ("fewer", {"max_candidate_samples": 3, "max_eval_samples": 2}),
            ("other", {"seed": 7}),
        )
    )
    assert (ids(first.problems), ids(first.heldout)) == (ids(again.problems), ids(again.heldout))
    assert (ids(fewer.problems), ids(fewer.heldout)) == (ids(first.problems)[:3], ids(first.heldout)[:2])
    assert (ids(other.problems), ids(other.heldout)) != (ids(first.problems), ids(first.heldout))


def test_asking_for_more_than_there_is_is_a_recorded_warning(
    tmp_path: Path, own_data: Path, sandbox_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    written = prepare(tmp_path / "out", own_data, sandbox_url, max_candidate_samples=300, max_eval_samples=50)
    assert (len(written.problems), len(written.heldout), len(written.validation)) == (14, 6, 0)
    eval_warning, candidate_warning = written.counts["warnings"]
    assert eval_warning == "max_eval_samples asks for 50 problems, split test could give 6: all 6 are used."
    assert "max_candidate_samples asks for 300 problems" in candidate_warning
    assert "could give 14: all 14 are used" in candidate_warning
    assert f"prepare: warning: {eval_warning}" in capsys.readouterr().out
    assert eval_warning in written.card


def test_all_adds_the_rest_of_test_and_says_so(tmp_path: Path, own_data: Path, sandbox_url: str) -> None:
    written = prepare(tmp_path / "out", own_data, sandbox_url, candidate_splits="all", max_candidate_samples=16)
    assert Counter(problem.split for problem in written.problems) == {"train": 10, "validation": 4, "test": 2}
    assert not set(ids(written.problems)) & set(ids(written.heldout))
    assert any("not comparable with published MBPP figures" in warning for warning in written.counts["warnings"])


def test_what_repeats_a_heldout_or_regression_problem_is_not_trained_on(
    tmp_path: Path, own_data: Path, sandbox_url: str
) -> None:
    repeated = [full_row(n, text=f"Write a function to add {m}.") for n, m in ((1, 21), (2, 31))]
    same_program = full_row(3, code="def add_3(y):\n    return y + 22", test_list=["assert add_3(0) == 22"])
    same_program["test_list"].append("assert add_3(1) == 23")
    write_jsonl(own_data / "train.jsonl", [*repeated, same_program, *map(full_row, range(4, 9))])
    write_jsonl(own_data / "validation.jsonl", [full_row(11, text="Write a function to add 5.")])
    write_jsonl(own_data / "test.jsonl", [full_row(n) for n in (21, 22)])
    elsewhere = write_jsonl(tmp_path / "elsewhere.jsonl", [full_row(31)])
    given = {"max_candidate_samples": 20, "candidate_splits": "train", "regression_dataset": str(elsewhere)}
    written = prepare(tmp_path / "out", own_data, sandbox_url, max_eval_samples=2, **given)
    assert sorted(ids(written.heldout)) == ["21", "22"]
    assert sorted(ids(written.problems)) == ["4", "5", "6", "7", "8"]
    assert written.validation == []
    assert {row["task_id"]: row["reason"] for row in written.quarantined} == {
        "1": "it shares the text with held-out problem 21",
        "2": "it shares the text with regression problem 31",
        "3": "it shares the program but for its names with held-out problem 22",
        "11": "it shares the text with training problem 5",
    }
    assert written.counts["quarantined_by"] == {"duplicate": 4}
    assert written.counts["duplicates"]["dropped"] == 4
