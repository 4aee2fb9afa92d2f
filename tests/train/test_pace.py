"""Pages are drawn soon, then as often as their share of the time allows, and never too seldom."""

import pytest

from components.train.pace import LONGEST, SHARE, SHORTEST, Pace


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
