"""What evaluation.json says of a comparison, or of one model alone; all rates are fractions."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from components.evaluate.comparison import MODELS, Comparison, Scores, Tally, Trial
from components.evaluate.hidden import hidden_tests
from components.shared.grading import count_outcomes
from components.shared.statistics import minimum_detectable, pass_at_k, problems_to_settle


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
