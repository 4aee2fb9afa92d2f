"""How much, and how sure: unbiased pass@k, the interval of a mean over problems, and what an evaluation can show.

The interval is Student's t over problems. It was chosen by its coverage (`make bench-intervals`, bench/README.md) at
20, 50, 100 and 500 problems, against the percentile, BCa and studentised bootstrap, a transformation for skewness, and
pseudo-observations throughout: it is the one that stays nearest to 95 % for every kind of gain. What no method of one
sample gets right is a sample in which almost no problem changed: there t covers as seldom as 17 %. So where fewer than
ten problems differ from the rest, two more are counted in, one at each end of what is possible (as Agresti and Caffo,
2000, do for proportions), which keeps coverage at 92 % or more.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

CONFIDENCE = 0.95
# Standard errors between nothing and what is found with 80 % power at a two-sided 5 % level: 1.96 + 0.84.
DETECTABLE = 2.8
FEW_CHANGES = 10  # with fewer problems off the common value, a t interval alone is too narrow
# With fewer problems the pseudo-problems decide: what is called a 95 % interval holds the truth in 97 to 100 % of
# simulated evaluations (15 problems; 20: 94 to 97 %), and at a handful it is as wide as can be whatever was measured.
FEWEST_PROBLEMS = 20
PLAIN = "Student's t over problems"
CAREFUL = f"{PLAIN} and two pseudo-problems, as few problems differ"
# What is assumed of a comparison before anything is known of the model: a sample's variance p(1 - p), its mean over
# problems between a saturated benchmark's and the largest there is (1/4), and the variance of the true gains.
TYPICAL_VARIANCE, LARGEST_VARIANCE, TYPICAL_SPREAD = 0.10, 0.25, 0.02


@dataclass(frozen=True)
class Interval:
    """A mean over problems with its 95 % interval; all numbers are fractions."""

    mean: float
    low: float
    high: float
    standard_error: float
    method: str

    @property
    def holds_zero(self) -> bool:
        return self.low <= 0.0 <= self.high


def pass_at_k(samples: int, passes: int, k: int) -> float:
    """Chance that at least one of k samples passes, unbiased from `passes` of `samples` (Chen et al. 2021, eq. 1).

    1 - C(samples - passes, k) / C(samples, k); needs 1 <= k <= samples.
    """
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} cannot be estimated from {samples} samples")
    return 1.0 - math.comb(samples - passes, k) / math.comb(samples, k)


def mean_interval(values: Sequence[float], *, low: float, high: float) -> Interval:
    """The mean of one value a problem and its 95 % interval, for values that can lie between low and high.

    The mean is that of the values. Where few of them differ, two pseudo-problems, one at low and one at high, enter
    the interval and its standard error; so equal values claim no certainty. ValueError without values.
    """
    if len(values) == 0:
        raise ValueError("an interval needs at least one value")
    data = np.asarray(values, dtype=float).round(12)  # 2/3 - 1/3 and 1 - 2/3 are the same difference
    mean = float(data.mean())
    _, counts = np.unique(data, return_counts=True)
    few = len(data) - int(counts.max()) < FEW_CHANGES
    if few:
        data = np.append(data, [low, high])
    error = float(data.std(ddof=1)) / math.sqrt(len(data))
    half = t_quantile((1 + CONFIDENCE) / 2, len(data) - 1) * error
    centre = float(data.mean())
    return Interval(mean, max(low, centre - half), min(high, centre + half), error, CAREFUL if few else PLAIN)


def unpaired_interval(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Mean of `first` minus mean of `second`, rates of unrelated problems, with Welch's 95 % interval (Welch 1947).

    Degrees of freedom by Welch and Satterthwaite, rounded down. ValueError where one has fewer than two values.
    """
    if min(len(first), len(second)) < 2:
        raise ValueError("an interval needs at least two values of each kind")
    arrays = [np.asarray(values, dtype=float) for values in (first, second)]
    one, other = (mean_interval(values, low=0.0, high=1.0) for values in (first, second))
    parts = [float(values.var(ddof=1)) / len(values) for values in arrays]
    if sum(parts) == 0:  # their spread says nothing: what mean_interval makes of that
        parts = [one.standard_error**2, other.standard_error**2]
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(second) - 1))
    error, mean = math.sqrt(sum(parts)), float(arrays[0].mean() - arrays[1].mean())
    half = t_quantile((1 + CONFIDENCE) / 2, max(1, math.floor(degrees))) * error
    low, high = max(-1.0, mean - half), min(1.0, mean + half)
    return replace(one, mean=mean, low=low, high=high, standard_error=error, method="Welch's t, unpaired")


@functools.cache
def t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t, for a probability above one half and whole degrees of freedom, to 1e-10."""
    near, far = 0.0, 1.0
    while t_within(far, degrees) < 2 * probability - 1:
        far *= 2
    while far - near > 1e-10 * max(1.0, far):
        middle = (near + far) / 2
        if t_within(middle, degrees) < 2 * probability - 1:
            near = middle
        else:
            far = middle
    return (near + far) / 2


def t_within(bound: float, degrees: int) -> float:
    """P(|T| <= bound) for Student's t with whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(bound / math.sqrt(degrees))
    cosine_squared = math.cos(angle) ** 2
    odd = degrees % 2
    term = total = math.cos(angle) if odd else 1.0
    for power in range(3 + odd, degrees, 2):
        term *= cosine_squared * (power - 2) / (power - 1)
        total += term
    if not odd:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + (math.sin(angle) * total if degrees > 1 else 0.0))


def minimum_detectable(standard_error: float) -> float:
    """The smallest true difference that an evaluation of this size finds with 80 % power at the 5 % level."""
    return DETECTABLE * standard_error


def problems_to_settle(interval: Interval, problems: int) -> int | None:
    """How many problems would show a true difference as large as the measured one, with 80 % power.

    The standard error falls with the root of the number of problems. None where the measured difference is zero.
    """
    if interval.mean == 0:
        return None
    return math.ceil(problems * (minimum_detectable(interval.standard_error) / abs(interval.mean)) ** 2)


def planned_standard_error(problems: int, samples: int, *, variance: float, spread: float) -> float:
    """The standard error to expect of a difference in mean pass@1, before anything is sampled (Miller 2024, section 5).

    √((spread + 2 · variance / samples) / problems). variance: the mean over problems of p(1 - p), that of one sample,
    for both models alike; spread: the variance over problems of the true gains.
    """
    return math.sqrt((spread + 2 * variance / samples) / problems)
