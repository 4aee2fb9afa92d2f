"""What one optimiser step did, as the row of metrics.jsonl and as samples of real completions.

Everything about rewards is counted here from the step's completions: TRL's own figures take a group without any
reward for one with variance, and know no outcomes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from components.shared.grading import count_outcomes, missed_share
from components.train.hidden import Missed
from components.train.rewards import Judged

MEND_SANDBOX = (
    "see what the sandbox at sandbox_url logs; give it more replicas or lower test_timeout_s if it is too slow"
)


def groups_of(batch: Sequence[Judged], num_generations: int) -> list[Sequence[Judged]]:
    """The batch cut into its groups; TRL keeps the completions of one prompt side by side."""
    return [batch[start : start + num_generations] for start in range(0, len(batch), num_generations)]


def kind_of_group(group: Sequence[Judged]) -> str:
    """`all_fail`, `mixed` or `all_pass` by the rewards that count; `unrewarded` when none does."""
    rewards = {judged.reward for judged in group if judged.reward is not None}
    if not rewards:
        return "unrewarded"
    return "mixed" if len(rewards) > 1 else "all_pass" if rewards == {1.0} else "all_fail"


def step_metrics(
    batch: Sequence[Judged], logs: Mapping[str, Any], *, step: int, epoch: float, num_generations: int
) -> dict[str, Any]:
    """The row of metrics.jsonl for one step; shares are fractions of the batch, None where nothing was measured.

    reward is the mean over completions that got one, truncated ones as truncated_reward says; pass_rate the share of
    judged programs that pass, those cut from truncated completions included, as the evaluation counts them;
    zero_variance the share of groups without an advantage, those without any reward included; usable the share that
    finished and was judged.
    """
    rewards = [judged.reward for judged in batch if judged.reward is not None]
    passed = [judged.verdict.passed for judged in batch if judged.verdict.passed is not None]
    kinds = [kind_of_group(group) for group in groups_of(batch, num_generations)]
    return {
        "step": step,
        "epoch": round(epoch, 4),
        "loss": number(logs.get("loss")),
        "reward": mean(rewards),
        "pass_rate": mean(passed),
        "groups": {kind: kinds.count(kind) for kind in ("all_fail", "mixed", "all_pass", "unrewarded")},
        "zero_variance": 1 - kinds.count("mixed") / len(kinds),
        "kl": number(logs.get("kl")),
        "entropy": number(logs.get("entropy")),
        "grad_norm": number(logs.get("grad_norm")),
        "learning_rate": number(logs.get("learning_rate")),
        "truncated": mean([judged.ended_by == "length" for judged in batch]),
        "ended_by": {how: sum(one.ended_by == how for one in batch) for how in ("eos", "stop", "length")},
        "usable": mean([judged.ended_by != "length" and judged.verdict.passed is not None for judged in batch]),
        "infra": mean([judged.verdict.passed is None for judged in batch]),
        "outcomes": count_outcomes([judged.verdict for judged in batch]),
        "lengths": {
            "mean": number(logs.get("completions/mean_length")),
            "max": number(logs.get("completions/max_length")),
        },
    }


def lost_step(metrics: Mapping[str, Any]) -> str | None:
    """Why a step could teach nothing, with the parameter to change; None when some completion was usable."""
    if metrics["usable"] > 0:
        return None
    if metrics["truncated"] == 1.0:
        return "every completion was truncated: raise max_completion_length"
    if metrics["infra"] == 1.0:
        return f"no completion could be judged: {MEND_SANDBOX}"
    return f"every completion was truncated or could not be judged: raise max_completion_length, and {MEND_SANDBOX}"


def step_samples(
    batch: Sequence[Judged], *, step: int, num_generations: int, missed: Sequence[Missed]
) -> list[dict[str, Any]]:
    """One group of the step for samples.jsonl: the first mixed one, for it is what the step learns from.

    missed: the step's completions that pass the visible tests alone.
    """
    tests = {(one.task_id, one.completion): one.test for one in missed}
    groups = groups_of(batch, num_generations)
    chosen = next((group for group in groups if kind_of_group(group) == "mixed"), groups[0])
    return [
        {
            "step": step,
            "task_id": judged.problem.task_id,
            "prompt": judged.problem.prompt,
            "completion": judged.completion,
            "outcome": "truncated" if judged.ended_by == "length" else judged.verdict.outcome,
            "reward": judged.reward,
            "failing_test": judged.failing_test,
            "failing_hidden_test": tests.get((judged.problem.task_id, judged.completion)),
        }
        for judged in chosen
    ]


def summary(metrics: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Scalars of a whole run: steps, lost steps; reward, pass rate and missed share in the first and last tenth."""
    tenth = max(1, len(metrics) // 10)
    lost = sum(lost_step(row) is not None for row in metrics)
    figures: dict[str, float | None] = {"steps": float(len(metrics)), "lost_steps": float(lost)}
    for name, part in (("first", metrics[:tenth]), ("last", metrics[-tenth:])):
        for key in ("reward", "pass_rate"):
            figures[f"{key}_{name}_tenth"] = mean([row[key] for row in part if row[key] is not None])
        figures[f"missed_share_{name}_tenth"] = missed_share_of(part)
    return {name: value for name, value in figures.items() if value is not None}


def missed_share_of(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The missed share (see grading.missed_share) over some steps; None where no completion was judged on both."""
    counts = [row["hidden"] for row in rows if row.get("hidden")]  # rows of an older run have none
    return missed_share(*(sum(count[name] for count in counts) for name in ("passed_visible", "failed_hidden")))


def mean(values: Sequence[float]) -> float | None:
    """The mean, or None of nothing."""
    return sum(values) / len(values) if values else None


def number(value: Any) -> float | None:
    """A finite float, or None: JSON has no NaN, and a chart needs to know that nothing was there."""
    return float(value) if value is not None and math.isfinite(float(value)) else None
