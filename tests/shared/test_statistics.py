"""The statistics against scipy, hand-worked values and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from bench.intervals import HARD, REALISTIC, coverage, evaluations, ours, student
from components.shared.statistics import (
    CAREFUL,
    FEWEST_PROBLEMS,
    PLAIN,
    mean_interval,
    minimum_detectable,
    pass_at_k,
    planned_standard_error,
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
    assert (interval.mean, interval.standard_error) == pytest.approx((values.mean(), stats.sem(values)))
    assert interval.method == PLAIN


def test_interval_stays_within_what_is_possible():
    interval = mean_interval([1.0, 0.0], low=0.0, high=1.0)
    assert (interval.low, interval.high) == (0.0, 1.0)


@pytest.mark.parametrize("values", [[0.0] * 46 + [0.25] * 4, [0.0] * 50, [0.5] * 20])
def test_where_few_problems_differ_two_pseudo_problems_are_counted_in(values):
    interval = mean_interval(values, low=-1.0, high=1.0)
    more = np.array([*values, -1.0, 1.0])
    expected = stats.t.interval(0.95, len(more) - 1, loc=more.mean(), scale=stats.sem(more))
    assert (interval.low, interval.high) == pytest.approx(expected)
    assert interval.mean == pytest.approx(np.mean(values)), "what was measured is not changed by it"
    assert interval.low < interval.mean < interval.high
    assert interval.method == CAREFUL


def test_equal_values_claim_no_certainty():
    interval = mean_interval([0.0] * 50, low=-1.0, high=1.0)
    assert interval.high == -interval.low > 0.05
    assert minimum_detectable(interval.standard_error) > 0.05
    assert interval.holds_zero


def test_equal_differences_are_equal_whatever_their_rounding():
    interval = mean_interval([2 / 3 - 1 / 3, 1 - 2 / 3] * 10, low=-1.0, high=1.0)
    assert interval.method == CAREFUL


def test_equal_gains_are_a_gain_only_when_enough_problems_say_so():
    many = mean_interval([0.5] * 20, low=-1.0, high=1.0)
    assert 0 < many.low < 0.5 < many.high < 1
    assert mean_interval([1.0], low=-1.0, high=1.0).holds_zero


def test_ten_problems_that_differ_are_enough_for_t_alone():
    assert mean_interval([0.0] * 41 + [0.25] * 9, low=-1.0, high=1.0).method == CAREFUL
    assert mean_interval([0.0] * 40 + [0.25] * 10, low=-1.0, high=1.0).method == PLAIN


def test_no_values_are_an_error():
    with pytest.raises(ValueError, match="at least one"):
        mean_interval([], low=0.0, high=1.0)


@pytest.mark.parametrize("scenario", REALISTIC)
def test_95_percent_intervals_cover_94_to_96_5_percent_at_50_problems_with_4_samples(scenario):
    counts, truth = evaluations(scenario, 50, 2000, np.random.default_rng(7))
    assert 0.94 <= coverage(ours(counts), truth) <= 0.965


@pytest.mark.parametrize("problems", [FEWEST_PROBLEMS, 100, 500])
@pytest.mark.parametrize("scenario", REALISTIC)
def test_coverage_at_other_sizes(scenario, problems):
    counts, truth = evaluations(scenario, problems, 1500, np.random.default_rng(problems))
    assert 0.93 <= coverage(ours(counts), truth) <= 0.975


def test_with_fewer_than_the_fewest_problems_an_interval_is_no_95_percent_interval():
    """What makes it careful decides it then; at the fewest, test_coverage_at_other_sizes holds what it covers."""
    assert FEWEST_PROBLEMS == 20
    for problems, at_least in ((15, 0.97), (10, 0.99)):
        covered = [
            coverage(ours(counts), truth)
            for counts, truth in (evaluations(each, problems, 1000, np.random.default_rng(5)) for each in REALISTIC)
        ]
        assert min(covered) >= at_least


@pytest.mark.parametrize("problems", [FEWEST_PROBLEMS, 50, 100, 500])
@pytest.mark.parametrize("scenario", HARD)
def test_where_few_problems_change_the_interval_is_rather_too_wide(scenario, problems):
    """Student's t alone covers 17 to 95 % there; the last assertion holds that these are the hard cases."""
    counts, truth = evaluations(scenario, problems, 1500, np.random.default_rng(problems))
    assert coverage(ours(counts), truth) >= 0.92
    if scenario == "1 in 25 becomes solved":
        assert coverage(student(counts), truth) < 0.93


@pytest.mark.parametrize("scenario", ["no gain, base 35 %", "no gain, base 48 %"])
def test_a_base_against_itself_is_called_a_change_in_3_to_7_percent(scenario):
    counts, truth = evaluations(scenario, 50, 2000, np.random.default_rng(11))
    assert truth == 0.0
    assert 0.03 <= 1 - coverage(ours(counts), 0.0) <= 0.07


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


def test_the_planned_standard_error_by_hand():
    """√((0.02 + 2 · 0.1 / 4) / 50), and that of a simulated evaluation with that variance."""
    assert planned_standard_error(50, 4, variance=0.1, spread=0.02) == pytest.approx(0.0374166, abs=1e-7)
    assert planned_standard_error(100, 1, variance=0.25, spread=0.0) == pytest.approx(math.sqrt(0.5 / 100))
    generator = np.random.default_rng(5)
    rates = generator.beta(2, 3, (4000, 50))
    gains = (generator.binomial(4, rates) - generator.binomial(4, rates)) / 4
    variance = float((rates * (1 - rates)).mean())
    expected = planned_standard_error(50, 4, variance=variance, spread=0.0)
    assert gains.mean(axis=1).std() == pytest.approx(expected, rel=0.03)
