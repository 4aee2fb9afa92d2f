"""Which interval covers: simulated evaluations with known pass rates, and ways to put 95 % intervals on the gain.

`make bench-intervals` prints how often each way's interval holds the true mean gain, at 20 to 500 problems with four
samples of each model, and writes bench/out/intervals.json. The way that evaluate uses is the last column, and is called
as evaluate calls it. An evaluation is kept as counts: how many problems have a gain of -4/4, -3/4, … 4/4.
"""

import argparse
import functools
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from components.shared.statistics import mean_interval

OUT = Path(__file__).resolve().parent / "out"
SAMPLES, SIZES = 4, (20, 50, 100, 500)
RESAMPLES = 999
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bounds: TypeAlias = tuple[Floats, Floats]
GAINS = np.arange(-SAMPLES, SAMPLES + 1) / SAMPLES
Z = float(stats.norm.ppf(0.975))


def _beta(a: float, b: float) -> Callable[[np.random.Generator, tuple[int, ...]], Floats]:
    return lambda random, shape: random.beta(a, b, shape)


def _same(random: np.random.Generator, before: Floats) -> Floats:
    return before


def _share_gains(share: float, a: float, b: float) -> Callable[[np.random.Generator, Floats], Floats]:
    """Of the problems `share` gain, each a beta(a, b) part of what it lacked; the others stay."""

    def after(random: np.random.Generator, before: Floats) -> Floats:
        gained = before + (1 - before) * random.beta(a, b, before.shape)
        return np.where(random.random(before.shape) < share, gained, before)

    return after


def _both_ways(random: np.random.Generator, before: Floats) -> Floats:
    """A quarter becomes easy, an eighth hard."""
    lot = random.random(before.shape)
    easy, hard = random.beta(3, 1, before.shape), random.beta(1, 3, before.shape)
    return np.where(lot < 1 / 4, easy, np.where(lot < 3 / 8, hard, before))


# name: (pass rates of the base over problems, those of the tuned model given them).
REALISTIC: dict[str, tuple[Any, Any]] = {
    "no gain, base 35 %": (_beta(0.6, 1.1), _same),
    "no gain, base 48 %": (_beta(0.5, 0.55), _same),
    "a third gains": (_beta(0.5, 0.55), _share_gains(0.35, 1, 1.5)),
    "small gain everywhere": (_beta(0.6, 0.8), _share_gains(1.0, 1, 4)),
    "large gain": (_beta(0.6, 0.8), _share_gains(1.0, 1, 1)),
    "the demo": (_beta(2, 4), _share_gains(1.0, 3, 1)),
    "gains and losses": (_beta(0.5, 0.55), _both_ways),
}
HARD: dict[str, tuple[Any, Any]] = {
    "saturated, no gain": (_beta(0.15, 0.15), _same),
    "saturated, a tenth gains": (_beta(0.15, 0.15), _share_gains(0.1, 1, 1)),
    "hardly anything solved": (_beta(0.1, 1.5), _share_gains(0.3, 1, 4)),
    "1 in 100 becomes solved": (lambda random, shape: np.zeros(shape), _share_gains(0.01, 1e9, 1e-9)),
    "1 in 25 becomes solved": (lambda random, shape: np.zeros(shape), _share_gains(0.04, 1e9, 1e-9)),
}
SCENARIOS = REALISTIC | HARD


@functools.cache
def true_gain(scenario: str) -> float:
    """The mean gain over all problems there could be, to about 0.0003."""
    base, tuned = SCENARIOS[scenario]
    many = base(np.random.default_rng(0), (1_000_000,))
    return float((tuned(np.random.default_rng(1), many) - many).mean())


def evaluations(scenario: str, problems: int, runs: int, random: np.random.Generator) -> tuple[Ints, float]:
    """Counts of gains, of shape (runs, 2 * SAMPLES + 1), and the true mean gain."""
    base, tuned = SCENARIOS[scenario]
    before = base(random, (runs, problems))
    gains = random.binomial(SAMPLES, tuned(random, before)) - random.binomial(SAMPLES, before)
    counts = np.stack([(gains == gain).sum(axis=1) for gain in range(-SAMPLES, SAMPLES + 1)], axis=1)
    return counts, true_gain(scenario)


def _moments(counts: NDArray[Any]) -> tuple[Floats, Floats, Floats]:
    """(size, mean, variance with n - 1) along the last axis."""
    n = counts.sum(axis=-1).astype(float)
    mean = counts @ GAINS / n
    return n, mean, np.maximum((counts @ GAINS**2 - n * mean**2) / (n - 1), 0.0)


def student(counts: NDArray[Any]) -> Bounds:
    n, mean, variance = _moments(counts)
    half = stats.t.ppf(0.975, n - 1) * np.sqrt(variance / n)
    return mean - half, mean + half


def score(counts: NDArray[Any]) -> Bounds:
    """Wilson's way for a mean: the variance taken about the hypothesis, so that the root of n - z² divides."""
    n, mean, variance = _moments(counts)
    half = Z * np.sqrt(variance * (n - 1) / n / (n - Z**2))
    return mean - half, mean + half


def pseudo_always(counts: NDArray[Any]) -> Bounds:
    """Student's t with a problem at each end added throughout."""
    more = counts.astype(float).copy()
    more[:, [0, -1]] += 1
    return student(more)


def hall(counts: NDArray[Any]) -> Bounds:
    """Hall's (1992) monotone transformation, which takes skewness out of the t statistic."""
    n, mean, variance = _moments(counts)
    third = counts @ GAINS**3 / n - 3 * mean * (counts @ GAINS**2) / n + 2 * mean**3
    skew = np.where(variance > 0, third / np.maximum(variance, 1e-12) ** 1.5, 0.0)
    slope = np.where(np.abs(skew) > 1e-9, skew, 1e-9)
    quantile, error = stats.t.ppf(0.975, n - 1), np.sqrt(variance / n)

    def back(value: Floats) -> Floats:
        inner = np.cbrt(1 + slope / np.sqrt(n) * (value - slope / (6 * np.sqrt(n)))) - 1
        return np.asarray(3 * np.sqrt(n) / slope * inner)

    return mean - error * back(quantile), mean - error * back(-quantile)


def bootstraps(counts: Ints, random: np.random.Generator) -> dict[str, Bounds]:
    """The percentile, BCa (Efron 1987) and studentised bootstrap from the same resamples."""
    found: dict[str, list[Bounds]] = {"percentile": [], "BCa": [], "studentised": []}
    for part in np.array_split(counts, max(1, len(counts) // 100)):
        n, mean, variance = _moments(part)
        again = random.multinomial(n.astype(int)[:, None], (part / n[:, None])[:, None, :], (len(part), RESAMPLES))
        _, means, _ = _moments(again)
        means.sort(axis=1)
        found["percentile"].append((np.quantile(means, 0.025, axis=1), np.quantile(means, 0.975, axis=1)))
        found["BCa"].append(_bca(part, means))
        found["studentised"].append(_studentised(mean, variance, n, random, part))
    return {name: (_joined(parts, 0), _joined(parts, 1)) for name, parts in found.items()}


def _joined(parts: list[Bounds], end: int) -> Floats:
    return np.concatenate([part[end] for part in parts])


def _bca(counts: Ints, means: Floats) -> Bounds:
    n, mean, variance = _moments(counts)
    third = counts @ GAINS**3 / n - 3 * mean * (counts @ GAINS**2) / n + 2 * mean**3
    acceleration = np.where(variance > 0, third / np.maximum(variance, 1e-12) ** 1.5 / (6 * np.sqrt(n)), 0.0)
    below = (means < mean[:, None]).mean(axis=1) + (means == mean[:, None]).mean(axis=1) / 2
    bias = stats.norm.ppf(np.clip(below, 1 / RESAMPLES, 1 - 1 / RESAMPLES))
    ends = []
    for z in (-Z, Z):
        level = stats.norm.cdf(bias + (bias + z) / (1 - acceleration * (bias + z)))
        place = np.clip((level * RESAMPLES).astype(int), 0, RESAMPLES - 1)
        ends.append(means[np.arange(len(means)), place])
    return ends[0], ends[1]


def _studentised(mean: Floats, variance: Floats, n: Floats, random: np.random.Generator, counts: Ints) -> Bounds:
    again = random.multinomial(n.astype(int)[:, None], (counts / n[:, None])[:, None, :], (len(counts), RESAMPLES))
    size, means, variances = _moments(again)
    error = np.sqrt(variances / size)
    statistic = np.where(error > 0, (means - mean[:, None]) / np.maximum(error, 1e-9), 0.0)
    low, high = np.quantile(statistic, [0.025, 0.975], axis=1)
    own = np.sqrt(variance / n)
    return mean - high * own, mean - low * own


def ours(counts: NDArray[Any]) -> Bounds:
    """What evaluate does, by its own code; evaluations with the same counts are computed once."""
    different, places = np.unique(counts, axis=0, return_inverse=True)
    found = [mean_interval(np.repeat(GAINS, row).tolist(), low=-1.0, high=1.0) for row in different]
    return np.array([one.low for one in found])[places], np.array([one.high for one in found])[places]


def coverage(bounds: Bounds, truth: float) -> float:
    """The share of intervals that hold the truth."""
    return float(((bounds[0] <= truth + 1e-12) & (truth - 1e-12 <= bounds[1])).mean())


WAYS: Mapping[str, Callable[[NDArray[Any]], Bounds]] = {
    "t": student,
    "score": score,
    "Hall": hall,
    "pseudo always": pseudo_always,
    "evaluate": ours,
}


def measure(problems: int, runs: int, random: np.random.Generator) -> list[dict[str, Any]]:
    """Coverage of every way in every scenario at one size."""
    rows = []
    for scenario in SCENARIOS:
        counts, truth = evaluations(scenario, problems, runs, random)
        bounds = {**bootstraps(counts, random), **{name: way(counts) for name, way in WAYS.items()}}
        rows.append({"scenario": scenario, "problems": problems, **{n: coverage(b, truth) for n, b in bounds.items()}})
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Per size and way: the lowest and highest coverage over realistic scenarios, and the lowest over hard ones."""
    ways = [name for name in rows[0] if name not in ("scenario", "problems")]
    lines = ["| problems | scenarios | " + " | ".join(ways) + " |", "|---|---|" + "---|" * len(ways)]
    for problems in dict.fromkeys(row["problems"] for row in rows):
        for kind, names in (("realistic", REALISTIC), ("hard", HARD)):
            of_kind = [row for row in rows if row["problems"] == problems and row["scenario"] in names]
            found = [[100 * row[way] for row in of_kind] for way in ways]
            cells = [f"{min(values):.1f} to {max(values):.1f}" for values in found]
            lines.append(f"| {problems} | {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="simulated evaluations of each kind (%(default)s)")
    options = parser.parse_args()
    random, rows = np.random.default_rng(1), []
    for problems in SIZES:
        rows += measure(problems, options.runs, random)
        print(f"{problems} problems: done", flush=True)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    OUT.mkdir(parents=True, exist_ok=True)
    lowest = {"coverage_at_50": min(row["evaluate"] for row in rows if row["problems"] == 50)}
    content = {"machine": machine, "ratios": lowest, "rows": rows}
    (OUT / "intervals.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"\n{machine}, {time.strftime('%Y-%m-%d')}, {options.runs} evaluations each\n\n{table(rows)}")


if __name__ == "__main__":
    main()
