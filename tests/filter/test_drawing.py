"""Stopped sampling against naive sampling of the same seeds: the same is kept, nothing is drawn in vain."""

import random
from collections.abc import Sequence

import pytest

from components.filter.cache import Sample
from components.filter.drawing import History, Place, decided, draw
from components.filter.learnable import learnable


def sample(passed: bool | None) -> Sample:
    return Sample(completion="", outcome="", passed=passed, tokens=1, truncated=False)


class World:
    """Problems whose samples are settled beforehand, as seeds settle them; counts what is asked for."""

    def __init__(self, seed: int, problems: int, most: int, lost: float = 0.0) -> None:
        chance = random.Random(seed)
        rates = [chance.choice([0.0, 1.0, chance.random(), chance.random() ** 4]) for _ in range(problems)]
        self.most = most
        self.table = [
            [sample(None if chance.random() < lost else chance.random() < rate) for _ in range(most)] for rate in rates
        ]
        self.batches: list[list[Place]] = []

    def batch(self, places: Sequence[Place]) -> list[Sample]:
        self.batches.append(list(places))
        return [self.table[place][number] for place, number in places]

    def draw(self, histories: list[History], *, rows: int, every: bool = False, most: int = 0) -> list[list[Sample]]:
        most = most or self.most
        self.done: list[int] = []
        order = list(range(len(histories)))
        draw(
            histories, order, most=most, every=every, rows=lambda: rows, batch=self.batch, on_progress=self.done.append
        )
        return [history.samples(most, every=every) for history in histories]

    def empty(self) -> list[History]:
        return [History() for _ in self.table]

    @property
    def drawn(self) -> list[Place]:
        return [place for batch in self.batches for place in batch]


def least(samples: Sequence[Sample]) -> int:
    """How many of these, in order, it takes until both outcomes were seen."""
    return next((count for count in range(len(samples)) if decided(samples[:count])), len(samples))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_is_what_all_samples_would_have_kept(seed: int) -> None:
    chance = random.Random(seed)
    world = World(seed, problems=chance.randint(1, 80), most=chance.choice([2, 3, 4, 8, 16]), lost=0.1 * (seed % 2))
    found = world.draw(world.empty(), rows=chance.choice([1, 7, 32, 500]))
    assert [learnable(samples) for samples in found] == [learnable(row) for row in world.table]
    assert found == [row[: least(row)] for row in world.table]
    assert len(world.drawn) == len(set(world.drawn)) == sum(map(len, found))  # not one was drawn in vain
    assert world.done == sorted(world.done)
    assert world.done[-1] == len(world.table)


def test_batches_are_full_until_fewer_are_undecided() -> None:
    world, rows = World(1, problems=100, most=8), 32
    world.draw(world.empty(), rows=rows)
    sizes = [len(batch) for batch in world.batches]
    first_short = next(place for place, size in enumerate(sizes) if size < rows)
    drawn = world.drawn[: sum(sizes[:first_short])]
    undecided = [
        place for place, row in enumerate(world.table) if len([1 for other, _ in drawn if other == place]) < least(row)
    ]
    assert len(undecided) < rows
    assert first_short > 6


def test_all_samples_can_be_asked_for() -> None:
    world = World(2, problems=30, most=6)
    assert world.draw(world.empty(), rows=16, every=True) == world.table
    assert sorted(world.drawn) == [(place, number) for place in range(30) for number in range(6)]


def test_what_is_known_is_not_drawn_and_more_than_needed_changes_nothing() -> None:
    world = World(3, problems=40, most=8)
    fresh = world.draw(world.empty(), rows=16)
    for known in (4, 8):
        again = World(3, problems=40, most=8)
        histories = [History(dict(enumerate(row[:known]))) for row in again.table]
        assert again.draw(histories, rows=16) == fresh
        assert len(again.drawn) == sum(max(0, len(samples) - known) for samples in fresh)
    fewer = World(3, problems=40, most=8)
    histories = [History(dict(enumerate(row))) for row in fewer.table]
    assert fewer.draw(histories, rows=16, most=3) == [row[: least(row[:3])] for row in fewer.table]
    assert not fewer.drawn


def test_a_sample_that_was_lost_is_drawn_again_by_a_later_run() -> None:
    world = World(4, problems=1, most=4)
    world.table = [[sample(True), sample(True), sample(True), sample(False)]]
    history = History({1: world.table[0][1], 2: world.table[0][2]})  # number 0 could not be judged then
    assert world.draw([history], rows=8) == world.table
    assert world.drawn == [(0, 0), (0, 3)]


def test_one_that_could_not_be_judged_does_not_decide() -> None:
    assert not decided([sample(True), sample(None)])
    assert not decided([sample(False), sample(None)])
    assert decided([sample(None), sample(False), sample(True)])
