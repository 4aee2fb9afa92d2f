"""New inputs keep the types and the structure of the seeds, and what all seeds have in common."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.prepare.mutation import mutated_inputs

SCALARS = st.none() | st.booleans() | st.integers(-1000, 1000) | st.floats(-99, 99) | st.text(max_size=6)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.sets(st.integers(0, 9), max_size=4)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def inputs_of(*seeds: tuple[Any, ...], wanted: int = 40, seed: int = 1) -> list[tuple[Any, ...]]:
    return mutated_inputs(seeds, wanted, random.Random(seed))


def types_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        parts = [*value, *value.values()]
    else:
        parts = list(value) if isinstance(value, list | tuple | set) else []
    return {type(value).__name__}.union(*(types_in(part) for part in parts))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=3), st.integers(0, 99))
def test_types_stay_inputs_are_new_and_a_seed_repeats_them(seeds: list[tuple[Any, ...]], seed: int) -> None:
    found = inputs_of(*seeds, wanted=10, seed=seed)
    assert found == inputs_of(*seeds, wanted=10, seed=seed)
    fewer = inputs_of(*seeds, wanted=3, seed=seed)
    assert found[: len(fewer)] == fewer
    texts = [repr(each) for each in found]
    assert len(set(texts)) == len(texts)
    assert not set(texts) & set(map(repr, seeds))
    for each in found:
        assert len(each) == 2
        for place in range(2):
            assert type(each[place]) in {type(one[place]) for one in seeds}
            assert types_in(each[place]) <= set().union(*(types_in(one[place]) for one in seeds))


def test_most_seeds_give_as_many_as_are_wanted() -> None:
    assert len(inputs_of(([3, 1, 2], 2), ([5], 1), wanted=100)) == 100
    assert len(inputs_of((2,), (5,), wanted=20)) == 20


@pytest.mark.parametrize("seeds", [[], [()], [(), ()], [(1,), (1, 2)]])
def test_without_arguments_to_change_there_is_nothing(seeds: list[tuple[Any, ...]]) -> None:
    assert mutated_inputs(seeds, 10, random.Random(1)) == []


def test_numbers_stay_on_their_side_of_zero_and_near_the_seeds() -> None:
    assert all(1 <= number <= 30 for (number,) in inputs_of((2,), (5,)))
    assert all(0 <= number <= 400 for (number,) in inputs_of((0,), (200,)))
    assert any(number < 0 for (number,) in inputs_of((-3,), (5,)))


def test_an_argument_that_is_a_length_stays_one() -> None:
    found = inputs_of(([1, 2, 3], 3), ([7, 5], 2))
    assert all(number == len(values) for values, number in found)
    assert len({number for _, number in found}) > 2


def test_lists_in_order_stay_in_order_and_others_do_not() -> None:
    assert all(values == sorted(values) for (values,) in inputs_of(([1, 3, 9],), ([2, 4, 6, 8],)))
    assert not all(values == sorted(values) for (values,) in inputs_of(([1, 3, 9],), ([2, 8, 6, 4],)))


def test_rows_of_a_table_stay_equally_long() -> None:
    for (table,) in inputs_of(([[1, 2], [3, 4]],), ([[5, 6], [7, 8], [9, 0]],)):
        assert {len(row) for row in table} == {2}


def test_strings_are_made_of_the_letters_of_the_seeds_and_not_emptied() -> None:
    found = inputs_of(("1010",), ("11",))
    assert all(text and set(text) <= {"0", "1"} for (text,) in found)
    assert any(text == "" for text, _ in inputs_of(("", 1), ("ab", 2)))


def test_seeds_are_not_changed_in_place() -> None:
    seed = ([[1], [2, 3]], {"a": [1]})
    inputs_of(seed, wanted=60)
    assert seed == ([[1], [2, 3]], {"a": [1]})
