"""The statistics against scipy, hand-worked values and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from components.shared.statistics import (
    mean_interval,
    minimum_detectable,
    pass_at_k,
    problems_to_settle,
    t_quantile,
    t_within,
)


@pytest.mark.parametrize(
    ("samples", "passes", "k", "expected"),
    [
        (4, 1, 1, 0.25),
        (4, 1, 2, 0.5),
        (4, 1, 4, 1.0),
        (4, 0, 4, 0.0),
        (4, 4, 1, 1.0),
        (5, 2, 2, 0.7),
        (200, 1, 100, 0.5),
    ],
)
def test_pass_at_k_by_hand(samples, passes, k, expected):
    assert pass_at_k(samples, passes, k) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("samples", "passes", "k"), [(n, c, k) for n in (3, 6) for c in range(n + 1) for k in (1, 2, 3)]
)
def test_pass_at_k_is_the_share_of_subsets_with_a_pass(samples, passes, k):
    subsets = list(itertools.combinations(range(samples), k))
    with_a_pass = sum(any(place < passes for place in subset) for subset in subsets)
    assert pass_at_k(samples, passes, k) == pytest.approx(with_a_pass / len(subsets))


def test_pass_at_k_needs_k_samples():
    with pytest.raises(ValueError, match="pass@5"):
        pass_at_k(4, 1, 5)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 10, 19, 49, 99, 500, 1001])
def test_student_t_against_scipy(degrees):
    assert t_quantile(0.975, degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-8)
    assert t_within(1.3, degrees) == pytest.approx(1 - 2 * stats.t.sf(1.3, degrees), rel=1e-9)


def test_interval_against_scipy():
    values = np.random.default_rng(1).choice([-0.25, 0.0, 0.25, 0.5], size=40)
    interval = mean_interval(values, low=-1.0, high=1.0)
    expected = stats.t.interval(0.95, 39, loc=values.mean(), scale=stats.sem(values))
    assert (interval.low, interval.high) == pytest.approx(expected)
    assert interval.standard_error == pytest.approx(stats.sem(values))
    assert not interval.too_narrow


def test_interval_stays_within_what_is_possible():
    interval = mean_interval([1.0, 0.0], low=0.0, high=1.0)
    assert (interval.low, interval.high) == (0.0, 1.0)


def test_equal_values_claim_no_certainty():
    interval = mean_interval([0.0] * 50, low=-1.0, high=1.0)
    bound = stats.binomtest(0, 50).proportion_ci(0.95, method="exact").high
    assert (interval.low, interval.high) == pytest.approx((-bound, bound))
    assert minimum_detectable(interval.standard_error) > 0.05
    assert interval.holds_zero


def test_equal_differences_are_equal_whatever_their_rounding():
    interval = mean_interval([2 / 3 - 1 / 3, 1 - 2 / 3] * 10, low=-1.0, high=1.0)
    assert interval.high - interval.low > 0.1


def test_equal_gains_are_a_gain_only_when_enough_problems_say_so():
    many = mean_interval([0.5] * 20, low=-1.0, high=1.0)
    assert 0 < many.low < 0.5 < many.high < 1
    assert mean_interval([1.0], low=-1.0, high=1.0).holds_zero


def test_few_changes_are_flagged():
    assert mean_interval([0.0] * 46 + [0.25] * 4, low=-1.0, high=1.0).too_narrow
    assert not mean_interval([0.0] * 45 + [0.25] * 5, low=-1.0, high=1.0).too_narrow


def test_no_values_are_an_error():
    with pytest.raises(ValueError, match="at least one"):
        mean_interval([], low=0.0, high=1.0)


@pytest.mark.parametrize("problems", [20, 50, 100])
def test_coverage_is_near_95_percent(problems):
    """4 samples a problem, pass rates from a beta distribution, a gain that differs from problem to problem."""
    generator = np.random.default_rng(problems)
    runs, inside = 1500, 0
    for _ in range(runs):
        before = generator.beta(0.6, 0.8, problems)
        after = before + (1 - before) * generator.beta(1, 1, problems)
        difference = (generator.binomial(4, after) - generator.binomial(4, before)) / 4
        interval = mean_interval(difference, low=-1.0, high=1.0)
        true = (1 - 0.6 / 1.4) / 2  # E[(1 - before) * uniform], with E[before] = 0.6 / 1.4
        inside += interval.low <= true <= interval.high
    assert 0.93 <= inside / runs <= 0.97


def test_a_difference_of_the_minimum_detectable_size_is_found_in_four_of_five():
    generator, found, runs = np.random.default_rng(3), 0, 1500
    spread, problems = 0.3, 60
    true = minimum_detectable(spread / math.sqrt(problems))
    for _ in range(runs):
        interval = mean_interval(generator.normal(true, spread, problems), low=-9.0, high=9.0)
        found += interval.low > 0
    assert 0.76 <= found / runs <= 0.83


def test_problems_to_settle_scale_with_the_square_of_what_is_missing():
    interval = mean_interval([0.5, -0.4] * 20, low=-1.0, high=1.0)
    needed = problems_to_settle(interval, 40)
    assert needed == math.ceil(40 * (2.8 * interval.standard_error / 0.05) ** 2)
    assert problems_to_settle(mean_interval([0.0] * 5, low=-1.0, high=1.0), 5) is None
