"""Estimates from stopped sampling, against simulations in which the truth is known."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from components.filter.forecast import RATES, expected_samples, forecast, mixed_at

Rates = Callable[[np.random.Generator, int], np.ndarray]
BASES: dict[str, Rates] = {
    "mostly never": lambda random, n: random.beta(0.3, 0.9, n),
    "a third hopeless": lambda random, n: np.where(random.random(n) < 0.33, 0.0, random.beta(1, 2, n)),
    "two kinds": lambda random, n: np.where(random.random(n) < 0.5, random.beta(2, 20, n), random.beta(15, 3, n)),
    "strong": lambda random, n: random.beta(2, 0.4, n),
}


def stopped(random: np.random.Generator, rates: np.ndarray, most: int) -> list[tuple[int, int]]:
    """(passes, samples) of each problem, drawn until both outcomes were seen."""
    found = []
    for row in random.random((len(rates), most)) < rates[:, None]:
        drawn = next((n for n in range(2, most) if 0 < row[:n].sum() < n), most)
        found.append((int(row[:drawn].sum()), drawn))
    return found


def truths(rates: np.ndarray, most: int, group: int) -> tuple[float, float, float]:
    def mixed(samples: int) -> np.ndarray:
        return 1 - rates**samples - (1 - rates) ** samples

    return float(rates.mean()), float(mixed(group).mean()), float(np.average(mixed(group), weights=mixed(most)))


def estimates(found: dict, what: str = "estimate") -> list:
    groups = found["usable_groups"]
    return [found["pass_rate"][what], groups["candidates"][what], groups["kept"][what]]


@pytest.mark.parametrize("base", BASES)
def test_many_problems_give_the_truth_where_passes_by_samples_do_not(base: str) -> None:
    random = np.random.default_rng(1)
    rates = BASES[base](random, 8000)
    counts = stopped(random, rates, 4)
    found = forecast(counts, most=4, group=4)
    truth = truths(rates, 4, 4)
    assert estimates(found)[:2] == pytest.approx(truth[:2], abs=0.015)
    low, high = estimates(found, "ci95")[2]
    assert low < truth[2] < high  # its estimate is not sharp however many problems there are
    assert found["sample_variance"] == pytest.approx(np.mean(rates * (1 - rates)), abs=0.01)
    assert found["expected_samples"] == pytest.approx(np.mean([drawn for _, drawn in counts]), abs=0.02)
    naive = np.mean([passed / drawn for passed, drawn in counts])
    if base != "two kinds":  # where the two biases cancel
        assert abs(naive - rates.mean()) > 2 * abs(found["pass_rate"]["estimate"] - rates.mean())


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
def test_intervals_cover_and_estimates_are_nearly_unbiased(base: str) -> None:
    random = np.random.default_rng(2)
    truth = np.array(truths(BASES[base](random, 400_000), 4, 8))
    covered, errors, repetitions = np.zeros(3), np.zeros(3), 60
    for _ in range(repetitions):
        found = forecast(stopped(random, BASES[base](random, 240), 4), most=4, group=8)
        low, high = np.array(estimates(found, "ci95")).T
        covered += (low <= truth) & (truth <= high)
        errors += estimates(found) - truth
    assert (covered >= 53).all(), covered  # 57 of 60, less two standard errors
    assert abs(errors[0]) / repetitions < 0.01
    assert (abs(errors[1:]) / repetitions < 0.10).all(), errors / repetitions


def test_few_samples_leave_larger_groups_open_and_the_interval_says_so() -> None:
    random = np.random.default_rng(3)
    counts = stopped(random, random.beta(0.5, 0.5, 240), 4)
    widths = []
    for group in (4, 8, 32):
        low, high = forecast(counts, most=4, group=group)["usable_groups"]["candidates"]["ci95"]
        widths.append(high - low)
    assert widths == sorted(widths)
    assert widths[2] > 2 * widths[0]


@pytest.mark.parametrize("solved", [False, True])
def test_one_outcome_alone_bounds_the_rate(solved: bool) -> None:
    """By hand: a share w of problems always solved makes all-failed 60 times as likely as (1 - w)^60."""
    found = forecast([(4 * solved, 4)] * 60, most=4, group=8)
    far = 1 - math.exp(-1.92 / 60)
    assert found["pass_rate"]["ci95"] == pytest.approx([1 - far, 1] if solved else [0, far], abs=0.002)
    assert found["usable_groups"]["candidates"]["ci95"][1] < 0.1


def test_nothing_judged_is_nothing_known() -> None:
    found = forecast([(0, 0)], most=4, group=8)
    assert found["pass_rate"] is None
    assert found["usable_groups"] == {"num_generations": 8, "candidates": None, "kept": None}


def test_expected_samples_by_hand() -> None:
    half = len(RATES) // 2  # p = 1/2: 2 + 1/2 + 1/4 samples; p = 0: all of them
    assert expected_samples(4)[[0, half]] == pytest.approx([4, 2.75])
    assert expected_samples(2) == pytest.approx(np.full(len(RATES), 2.0))
    assert mixed_at(8)[[0, half, -1]] == pytest.approx([0, 1 - 2 / 256, 0])
