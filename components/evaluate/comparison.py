"""Base against tuned model, or one model alone, from judged trials at problems to the content of evaluation.json.

A problem counts with the trials that could be judged; where the infrastructure failed on all trials of a model the
problem is dropped and counted, never scored as a failure.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from components.shared.attempts import Attempt, judged, passes
from components.shared.grading import count_outcomes
from components.shared.problem import GENERATED, Problem
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


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The content of evaluation.json that the comparison decides; all rates are fractions."""
    difference = comparison.difference
    return {
        **{model: model_json(comparison.scores(model)) for model in MODELS},
        "difference": {"pass_at_1": difference.mean, "ci95": [difference.low, difference.high]},
        "minimum_detectable": minimum_detectable(difference.standard_error),
        "problems": len(comparison.pairs),
        "samples_per_problem": comparison.samples,
        "buckets": {name: [pair.problem.task_id for pair in pairs] for name, pairs in comparison.buckets().items()},
        "hidden_tests": hidden_tests({model: comparison.scores(model) for model in MODELS}),
        "within_noise": difference.holds_zero,
        "interval_method": difference.method,
        "standard_error": difference.standard_error,
        "problems_to_settle": problems_to_settle(difference, len(comparison.pairs)),
        "dropped": list(comparison.dropped),
        "per_problem": [
            {"task_id": pair.problem.task_id, **_counts("base", pair.base), **_counts("tuned", pair.tuned)}
            for pair in comparison.pairs
        ],
    }


def alone_as_json(scores: Scores) -> dict[str, Any]:
    """The same for a base alone: no second model, so no difference."""
    interval = scores.pass_at_1
    return {
        "base": model_json(scores),
        "problems": len(scores.problems),
        "samples_per_problem": scores.samples,
        "hidden_tests": hidden_tests({"base": scores}),
        "interval_method": interval.method,
        "standard_error": interval.standard_error,
        "dropped": list(scores.dropped),
        "per_problem": [
            {"task_id": problem.task_id, **_counts("base", tally)}
            for problem, tally in zip(scores.problems, scores.tallies, strict=True)
        ],
    }


def _counts(model: str, tally: Tally) -> dict[str, int]:
    return {f"{model}_passes": tally.passes, f"{model}_judged": tally.judged}


def model_json(scores: Scores) -> dict[str, Any]:
    """One model's part; lengths are tokens of a completion."""
    trials, interval = scores.trials, scores.pass_at_1
    lengths = [len(trial.attempt.completion.token_ids) for trial in trials]
    return {
        "pass_at_1": interval.mean,
        "ci95": [interval.low, interval.high],
        "pass_at_k": pass_at_ks(scores.tallies, scores.samples),
        "outcomes": count_outcomes([trial.verdict for trial in trials]),
        "truncated": _share(trials, lambda trial: trial.truncated),
        "infra": _share(trials, lambda trial: trial.verdict.passed is None),
        "lengths": {"mean": statistics.mean(lengths), "median": statistics.median(lengths), "longest": max(lengths)},
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


def hidden_tests(scores: Mapping[str, Scores]) -> dict[str, Any] | None:
    """What the hidden tests say of each model, over the problems that have some; None when none has.

    Of the samples that were judged on both kinds of tests `visible` passes the visible ones, `visible_and_hidden` both,
    and `gap` is the difference, as means over problems; passed_visible and failed_hidden count samples. With two models
    only problems count on which both were judged, and `growth` is how much larger the tuned model's gap is. A model
    that passes more often has more to fail with, so `growth_of_share` says by how much more of what passes the visible
    tests fails a hidden one: a share that grows with training is a sign that the model learns the tests and not the
    task; None where a model passes none. `generated`: of the problems, those with tests that prepare has made.
    """
    rows: dict[str, dict[str, tuple[Problem, list[Trial]]]] = {}
    for model, one in scores.items():
        pairs = zip(one.problems, one.tallies, strict=True)
        found = [(problem, tally.settled_on_hidden()) for problem, tally in pairs if problem.hidden_tests]
        rows[model] = {problem.task_id: (problem, trials) for problem, trials in found if trials}
    common = [task for task in next(iter(rows.values())) if all(task in of_model for of_model in rows.values())]
    if not common:
        return None
    problems = [next(iter(rows.values()))[task][0] for task in common]
    made = sum(GENERATED in problem.hidden_tests_from for problem in problems)
    settled = {model: [of_model[task][1] for task in common] for model, of_model in rows.items()}
    answer: dict[str, Any] = {"problems": len(common), "generated": made}
    answer |= {model: _gap(trials) for model, trials in settled.items()}
    if len(settled) == 2:
        before, after = (_missed(trials) for trials in settled.values())
        growth = mean_interval([float(b - a) for a, b in zip(before, after, strict=True)], low=-1.0, high=1.0)
        answer["growth"] = {"gap": growth.mean, "ci95": [growth.low, growth.high]}
        answer["growth_of_share"] = _growth_of_share(*settled.values())
    return answer


def _growth_of_share(before: Sequence[Sequence[Trial]], after: Sequence[Sequence[Trial]]) -> dict[str, Any] | None:
    """The difference of two ratios of means over the same problems, missed / visible, by linearisation (Cochran 1977,
    section 6.3): a problem enters with how far its missed samples are from the share of its visible ones."""
    if not all(sum(_visible(rows)) for rows in (before, after)):
        return None
    first, second = (_linearised(rows) for rows in (before, after))
    grown = mean_interval([float(b - a) for a, b in zip(first, second, strict=True)], low=-1.0, high=1.0)
    return {"share": grown.mean, "ci95": [grown.low, grown.high]}


def _linearised(rows: Sequence[Sequence[Trial]]) -> list[Fraction]:
    """One value a problem, whose mean is the ratio of the means of missed and visible."""
    missed, visible = _missed(rows), _visible(rows)
    none = Fraction(0)
    share, mean = sum(missed, none) / sum(visible, none), sum(visible, none) / len(rows)
    return [share + (one - share * of) / mean for one, of in zip(missed, visible, strict=True)]


def _visible(rows: Sequence[Sequence[Trial]]) -> list[Fraction]:
    return [Fraction(sum(one.verdict.passed is True for one in row), len(row)) for row in rows]


def _missed(rows: Sequence[Sequence[Trial]]) -> list[Fraction]:
    return [Fraction(sum(one.misses_hidden for one in row), len(row)) for row in rows]


def _gap(rows: Sequence[Sequence[Trial]]) -> dict[str, Any]:
    """One model's hidden-test figures; each row holds a problem's settled trials."""
    visible, missed = _visible(rows), _missed(rows)
    gap = mean_interval([float(share) for share in missed], low=0.0, high=1.0)
    rate = float(sum(visible) / len(rows))
    return {
        "visible": rate,
        "visible_and_hidden": float((sum(visible) - sum(missed)) / len(rows)),
        "gap": gap.mean,
        "gap_ci95": [gap.low, gap.high],
        "passed_visible": sum(one.verdict.passed is True for row in rows for one in row),
        "failed_hidden": sum(one.misses_hidden for row in rows for one in row),
    }
