"""Base against tuned model, from judged trials at the same problems to the content of evaluation.json.

A problem counts with the trials that could be judged; where the infrastructure failed on all trials of a model the
problem is dropped and counted, never scored as a failure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from components.shared.attempts import Attempt, judged, passes
from components.shared.grading import count_outcomes
from components.shared.problem import Problem
from components.shared.sandbox import Verdict
from components.shared.statistics import Interval, mean_interval, minimum_detectable, pass_at_k, problems_to_settle

MODELS = ("base", "tuned")
BUCKETS = ("improved", "both", "neither", "regressed")


@dataclass(frozen=True)
class Trial:
    """One attempt at a problem, and its verdict on the problem's hidden tests.

    hidden is None where the attempt failed the visible tests or there are no hidden ones.
    """

    attempt: Attempt
    hidden: Verdict | None

    @property
    def verdict(self) -> Verdict:
        return self.attempt.verdict

    @property
    def truncated(self) -> bool:
        return self.attempt.completion.truncated


@dataclass(frozen=True)
class Tally:
    """One model's trials at one problem."""

    trials: tuple[Trial, ...]

    @property
    def judged(self) -> int:
        return judged([trial.attempt for trial in self.trials])

    @property
    def passes(self) -> int:
        return passes([trial.attempt for trial in self.trials])

    @property
    def rate(self) -> Fraction:
        """Share of judged trials that pass: the unbiased pass@1 of the problem."""
        return Fraction(self.passes, self.judged)

    def hidden_rates(self) -> tuple[Fraction, Fraction] | None:
        """Shares that pass the visible tests, and those and the hidden ones; None when no trial is judged on both."""
        settled = [one for one in self.trials if one.verdict.passed is not None]
        settled = [one for one in settled if one.hidden is None or one.hidden.passed is not None]
        if not settled:
            return None
        visible = sum(one.verdict.passed is True for one in settled)
        both = sum(one.hidden is not None and one.hidden.passed is True for one in settled)
        return Fraction(visible, len(settled)), Fraction(both, len(settled))


@dataclass(frozen=True)
class Pair:
    """Both models' trials at one problem."""

    problem: Problem
    base: Tally
    tuned: Tally

    @property
    def gain(self) -> Fraction:
        return self.tuned.rate - self.base.rate

    @property
    def bucket(self) -> str:
        if self.gain > 0:
            return "improved"
        if self.gain < 0:
            return "regressed"
        return "both" if self.tuned.passes else "neither"


@dataclass(frozen=True)
class Comparison:
    """Both models on the problems that both were judged on; dropped holds the ids of the others."""

    pairs: tuple[Pair, ...]
    dropped: tuple[str, ...]
    samples: int

    @property
    def difference(self) -> Interval:
        """The gain in mean pass@1, over problems."""
        return mean_interval([float(pair.gain) for pair in self.pairs], low=-1.0, high=1.0)

    def pass_at_1(self, model: str) -> Interval:
        return mean_interval([float(tally.rate) for tally in self.tallies(model)], low=0.0, high=1.0)

    def tallies(self, model: str) -> list[Tally]:
        """The trials of `base` or `tuned`, in the problems' order."""
        return [pair.base if model == "base" else pair.tuned for pair in self.pairs]

    def buckets(self) -> dict[str, list[Pair]]:
        """The pairs by what became of them; the largest change comes first, else the problems' order."""
        found: dict[str, list[Pair]] = {name: [] for name in BUCKETS}
        for pair in sorted(self.pairs, key=lambda pair: -abs(pair.gain)):
            found[pair.bucket].append(pair)
        return found


def compare(
    problems: Sequence[Problem], base: Sequence[Sequence[Trial]], tuned: Sequence[Sequence[Trial]], *, samples: int
) -> Comparison:
    """Pair both models' trials, each of shape (problems, samples)."""
    pairs, dropped = [], []
    for problem, before, after in zip(problems, base, tuned, strict=True):
        pair = Pair(problem, Tally(tuple(before)), Tally(tuple(after)))
        if pair.base.judged and pair.tuned.judged:
            pairs.append(pair)
        else:
            dropped.append(problem.task_id)
    return Comparison(tuple(pairs), tuple(dropped), samples)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The content of evaluation.json that the comparison decides; all rates are fractions."""
    difference = comparison.difference
    return {
        "base": _model_json(comparison, "base"),
        "tuned": _model_json(comparison, "tuned"),
        "difference": {"pass_at_1": difference.mean, "ci95": [difference.low, difference.high]},
        "minimum_detectable": minimum_detectable(difference.standard_error),
        "problems": len(comparison.pairs),
        "samples_per_problem": comparison.samples,
        "buckets": {name: [pair.problem.task_id for pair in pairs] for name, pairs in comparison.buckets().items()},
        "hidden_tests": hidden_tests(comparison),
        "within_noise": difference.holds_zero,
        "interval_method": difference.method,
        "interval_too_narrow": difference.too_narrow,
        "standard_error": difference.standard_error,
        "problems_to_settle": problems_to_settle(difference, len(comparison.pairs)),
        "dropped": list(comparison.dropped),
        "per_problem": [
            {
                "task_id": pair.problem.task_id,
                "base_passes": pair.base.passes,
                "base_judged": pair.base.judged,
                "tuned_passes": pair.tuned.passes,
                "tuned_judged": pair.tuned.judged,
            }
            for pair in comparison.pairs
        ],
    }


def _model_json(comparison: Comparison, model: str) -> dict[str, Any]:
    tallies = comparison.tallies(model)
    trials = [trial for tally in tallies for trial in tally.trials]
    interval = comparison.pass_at_1(model)
    return {
        "pass_at_1": interval.mean,
        "ci95": [interval.low, interval.high],
        "pass_at_k": pass_at_ks(tallies, comparison.samples),
        "outcomes": count_outcomes([trial.verdict for trial in trials]),
        "truncated": _share(trials, lambda trial: trial.truncated),
        "infra": _share(trials, lambda trial: trial.verdict.passed is None),
    }


def _share(trials: Sequence[Trial], holds: Callable[[Trial], bool]) -> float:
    return sum(holds(trial) for trial in trials) / len(trials)


def pass_at_ks(tallies: Sequence[Tally], most: int) -> dict[str, float]:
    """Mean pass@k over problems for k = 1, 2, … `most`, each over the problems with at least k judged trials."""
    rates = {}
    for k in range(1, most + 1):
        values = [pass_at_k(tally.judged, tally.passes, k) for tally in tallies if tally.judged >= k]
        if values:
            rates[str(k)] = sum(values) / len(values)
    return rates


def hidden_tests(comparison: Comparison) -> dict[str, Any] | None:
    """pass@1 with and without hidden tests, over the problems that have some; None when none has.

    `gap` is what passes the visible tests but not the hidden ones: a gap that grows with training is a sign that the
    model learns the tests and not the task.
    """
    pairs = [pair for pair in comparison.pairs if pair.problem.hidden_tests]
    both = [(pair.base.hidden_rates(), pair.tuned.hidden_rates()) for pair in pairs]
    settled = [(base, tuned) for base, tuned in both if base is not None and tuned is not None]
    if not settled:
        return None
    answer: dict[str, Any] = {"problems": len(settled)}
    for place, model in enumerate(MODELS):
        visible = float(sum(rates[place][0] for rates in settled) / len(settled))
        right = float(sum(rates[place][1] for rates in settled) / len(settled))
        answer[model] = {"visible": visible, "visible_and_hidden": right, "gap": visible - right}
    return answer
