"""Base against tuned model, or one model alone: judged trials at problems, paired and counted.

A problem counts with the trials that could be judged; where the infrastructure failed on all trials of a model the
problem is dropped and counted, never scored as a failure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from components.shared.attempts import Attempt, judged, passes
from components.shared.problem import Problem
from components.shared.sandbox import Verdict
from components.shared.statistics import Interval, mean_interval

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

    @property
    def misses_hidden(self) -> bool:
        """Whether it passes the visible tests and fails a hidden one."""
        return bool(self.verdict.passed) and self.hidden is not None and self.hidden.passed is False


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

    def settled_on_hidden(self) -> list[Trial]:
        """The trials that are judged on visible and hidden tests: a verdict that was lost on either says nothing."""
        settled = [one for one in self.trials if one.verdict.passed is not None]
        return [one for one in settled if not one.verdict.passed or (one.hidden and one.hidden.passed is not None)]


@dataclass(frozen=True)
class Scores:
    """One model's trials at the problems on which it could be judged; dropped holds the ids of the others."""

    problems: tuple[Problem, ...]
    tallies: tuple[Tally, ...]
    dropped: tuple[str, ...]
    samples: int

    @property
    def pass_at_1(self) -> Interval:
        """Mean pass@1, over problems."""
        return mean_interval([float(tally.rate) for tally in self.tallies], low=0.0, high=1.0)

    @property
    def trials(self) -> list[Trial]:
        return [trial for tally in self.tallies for trial in tally.trials]


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

    def scores(self, model: str) -> Scores:
        """The part of `base` or `tuned`, in the problems' order."""
        tallies = tuple(pair.base if model == "base" else pair.tuned for pair in self.pairs)
        return Scores(tuple(pair.problem for pair in self.pairs), tallies, self.dropped, self.samples)

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


def scores_of(problems: Sequence[Problem], trials: Sequence[Sequence[Trial]], *, samples: int) -> Scores:
    """One model's trials, of shape (problems, samples), without the problems that could not be judged."""
    tallies = [Tally(tuple(row)) for row in trials]
    kept = [(problem, tally) for problem, tally in zip(problems, tallies, strict=True) if tally.judged]
    dropped = tuple(problem.task_id for problem, tally in zip(problems, tallies, strict=True) if not tally.judged)
    return Scores(tuple(problem for problem, _ in kept), tuple(tally for _, tally in kept), dropped, samples)
