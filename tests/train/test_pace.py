"""Pages and checkpoints come as often as their share of the time allows, and never too seldom."""

from itertools import cycle

import pytest

from components.train.pace import LONGEST, MOST_LOST, SHARE, SHARE_FOR_SAVES, SHORTEST, Pace, SavePace


def drawn_at(cost: float, until: float) -> list[float]:
    """When pages that take `cost` seconds each are drawn within `until` seconds of a run that looks every second."""
    now = 0.0
    pace, times = Pace(lambda: now), []
    while now < until:
        now += 1.0
        if pace.is_due():
            times.append(now)
            start, now = now, now + cost
            pace.drawn(start)
    return times


def test_the_first_page_comes_soon_and_all_of_them_take_a_small_share_of_the_time() -> None:
    assert drawn_at(0.2, 100)[:2] == [SHORTEST, pytest.approx(40, abs=2)]
    for cost in (0.01, 0.2, 1.0):
        times = drawn_at(cost, 2000)
        assert len(times) * cost <= SHARE * 2000 + cost
        assert len(times) >= min(0.8 * SHARE * 2000 / cost, 0.8 * 2000 / SHORTEST)


def test_a_dear_page_is_still_drawn_every_two_minutes() -> None:
    assert drawn_at(5.0, 1000)[1] == pytest.approx(SHORTEST + LONGEST, abs=6)


def test_an_attempt_that_begins_again_counts_from_there() -> None:
    now = 0.0
    pace = Pace(lambda: now)
    pace.drawn(-60.0)
    now = 20.0
    assert not pace.is_due()
    pace.begin()
    now = 30.0
    assert pace.is_due()


def most_lost(steps: list[float], save: float, way: float, *, until: float = 4000.0) -> tuple[float, float]:
    """The most seconds of work that a kill at any time would cost, and the share of the time that saving takes.

    A run of steps as long as `steps`, over and over; a checkpoint arrives `save` and `way` seconds after its step.
    """
    now = 0.0
    pace, saved, worst, saving = SavePace(lambda: now), 0.0, 0.0, 0.0
    for step in cycle(steps):
        now += step
        if pace.is_due(way if saved else 0.0):
            worst, saved = max(worst, now + save + way - saved), now
            now, saving = now + save, saving + save
            pace.saved()
        if now > until:
            return worst, saving / now
    raise AssertionError


@pytest.mark.parametrize("way", [0.0, 5.0, 20.0])
@pytest.mark.parametrize("save", [0.1, 1.0, 5.0, 10.0])
@pytest.mark.parametrize("step", [0.5, 7.0, 20.0, 30.0, 40.0, 45.0, 59.0, 61.0, 80.0, 90.0])
def test_at_most_two_minutes_of_work_are_lost(step: float, save: float, way: float) -> None:
    """Or as little as can be, with every step saved, where that is more."""
    worst, share = most_lost([step], save, way)
    assert MOST_LOST == 120.0
    assert worst <= max(MOST_LOST, save + step + save + way)
    if step <= 40 and save + way <= 15:
        assert share <= SHARE_FOR_SAVES + 0.02


def test_steps_of_unequal_length_lose_no_more() -> None:
    for steps in ([10.0, 58.0], [3.0, 3.0, 3.0, 3.0, 50.0], [60.0, 1.0, 90.0]):
        assert most_lost(steps, save=2.0, way=5.0)[0] <= MOST_LOST


@pytest.mark.parametrize(("step", "save", "way"), [(200.0, 5.0, 5.0), (119.0, 5.0, 5.0), (61.0, 1.0, 100.0)])
def test_where_a_step_takes_longer_every_step_is_saved(step: float, save: float, way: float) -> None:
    assert most_lost([step], save, way)[0] == pytest.approx(save + step + save + way)


def test_a_save_that_takes_minutes_takes_at_most_half_the_time() -> None:
    worst, share = most_lost([10.0], save=130.0, way=0.0)
    assert share <= 0.51
    assert worst <= 3 * 130.0 + 10.0


def test_short_steps_are_not_all_saved_because_the_store_is_slow() -> None:
    worst, share = most_lost([1.0], save=0.5, way=300.0)
    assert share <= 0.01
    assert worst <= 300.0 + 63.0
