"""Whose split wins, and that a seed draws the same problems again."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.prepare.raw import RawRow
from components.prepare.rows import Row, check_row
from components.prepare.splits import assign_splits, drawn, is_mbpp, official_split
from components.shared.errors import UserError
from tests.prepare.examples import full_row

# The first tests of these MBPP problems, which are how MBPP is told from data that merely uses its ids.
MBPP_FIRST_TESTS = {
    1: "assert min_cost([[1, 2, 3], [4, 8, 2], [1, 5, 3]], 2, 2) == 8",
    17: "assert square_perimeter(10)==40",
    601: "assert max_chain_length([Pair(5, 24), Pair(15, 25),Pair(27, 40), Pair(50, 60)], 4) == 3",
}


def row(task_id: int, file_split: str = "", **fields: object) -> Row:
    return check_row(RawRow(f"data.jsonl, line {task_id}", file_split, full_row(task_id, **fields)))


def mbpp_rows() -> list[Row]:
    return [row(task_id, test_list=[test]) for task_id, test in MBPP_FIRST_TESTS.items()]


@pytest.mark.parametrize(
    ("task_id", "split"),
    [
        *[(1, "prompt"), (10, "prompt"), (11, "test"), (510, "test"), (511, "validation"), (600, "validation")],
        *[(601, "train"), (974, "train"), (0, ""), (975, "")],
    ],
)
def test_official_split(task_id: int, split: str) -> None:
    assert official_split(str(task_id)) == split


def test_mbpp_gets_its_official_split_by_id() -> None:
    assert assign_splits(mbpp_rows(), seed=1) == {"1": "prompt", "17": "test", "601": "train"}


def test_mbpp_is_known_though_texts_were_edited_and_rows_added() -> None:
    rows = [row(task_id, text="Edited.", test_list=[f" {test}\r\n"]) for task_id, test in MBPP_FIRST_TESTS.items()]
    assert is_mbpp([*rows, row(602), row(2000), row(2001)])
    assert not is_mbpp([*rows, *(row(task_id) for task_id in range(2000, 2004))])


def test_other_data_with_mbpps_ids_is_split_80_20() -> None:
    rows = [row(task_id) for task_id in range(11, 111)]
    splits = assign_splits(rows, seed=1)
    assert not is_mbpp(rows)
    assert sorted(splits.values()) == ["test"] * 20 + ["train"] * 80
    assert splits == assign_splits(random.Random(0).sample(rows, len(rows)), seed=1)
    assert splits != assign_splits(rows, seed=2)


def test_a_rows_own_split_wins_over_its_file_and_over_mbpp() -> None:
    rows = [row(1, "test", split="train"), row(2, "test"), row(3, split="dev")]
    assert assign_splits([*rows, *mbpp_rows()[1:]], seed=1) == {
        "1": "train",
        "2": "test",
        "3": "validation",
        "17": "test",
        "601": "train",
    }


def test_an_unknown_split_names_the_row() -> None:
    with pytest.raises(UserError, match="line 3: split 'held' is unknown"):
        assign_splits([row(3, split="held")], seed=1)


def test_a_task_id_used_twice_names_both_rows() -> None:
    twice = check_row(RawRow("data.jsonl, line 9", "", {**full_row(3), "task_id": "3"}))
    with pytest.raises(UserError, match=r"line 9: task_id '3' was used before, at data\.jsonl, line 3"):
        assign_splits([row(3), twice], seed=1)


@given(st.sets(st.integers(1, 5000), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_a_row_that_leaves_moves_no_other(task_ids: set[int], seed: int) -> None:
    rows = [row(task_id) for task_id in sorted(task_ids)]
    order = drawn(rows, seed, purpose="candidates")
    assert sorted(order, key=lambda r: int(r.task_id)) == rows
    left = order[1:]
    assert drawn(left[::-1], seed, purpose="candidates") == left
