"""The symptoms of a run that goes wrong: how each is recognised, its likely cause, and the parameter to change.

Every rule reads the rows of the last steps (and the first ones to compare with) and says at most one thing. Thresholds
are rules of thumb; where one has a reason it stands beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.train.metrics import mean, missed_share_of

WINDOW = 20  # steps that a rule looks at; fewer than half of them say too little
STUCK = 0.95  # share of groups of one kind from which on there is next to nothing to learn
FLAT = 0.7  # share of groups without variance: below 30 % mixed ones most of the sampling is wasted
TRUNCATED = 0.2
DRIFTED = 0.5  # nats a token from the base; runs that learn well stay below a tenth of it
UNMOVED = 1e-4  # the same, of a policy that has not left the base
COLLAPSED = 0.25  # of the first steps' entropy
JUMPED = 0.97
SLOW_STEP_SECONDS, GENERATION = 60.0, 0.85
JUDGING = 0.2
OFTEN = 0.2  # share of verdicts of one kind
HACKED, WEAK = 0.1, 0.3  # share of passes that fail hidden tests: so much more than at first; so much in all
ENOUGH = 30  # passes, for a share of them to say something
WILD = 10.0  # times the median gradient norm

Row = Mapping[str, Any]
Rows = Sequence[Row]


@dataclass(frozen=True)
class Advice:
    """symptom: what is seen, with its figure; cause: the likely one; change: which parameters, and how."""

    name: str
    symptom: str
    cause: str
    change: str

    def __str__(self) -> str:
        return f"{self.symptom}: {self.cause}; {self.change}"


Rule = Callable[[Rows, Rows, Mapping[str, Any]], Advice | None]
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    """Enter a rule; it gets all rows, those of the window and the step's parameters."""
    RULES.append(function)
    return function


def column(rows: Rows, name: str) -> list[float]:
    return [row[name] for row in rows if row[name] is not None]


def share_of_groups(rows: Rows, kind: str) -> float:
    every = sum(sum(row["groups"].values()) for row in rows)
    return float(sum(row["groups"][kind] for row in rows) / every)


def share_of_outcome(rows: Rows, outcome: str) -> float:
    every = sum(sum(row["outcomes"].values()) for row in rows) or 1
    return float(sum(row["outcomes"].get(outcome, 0) for row in rows) / every)


def share_of_time(rows: Rows, phase: str) -> float:
    whole = sum(row["seconds"]["step"] for row in rows) or 1.0
    return float(sum(row["seconds"][phase] for row in rows) / whole)


@rule
def truncation(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    share = mean(column(window, "truncated")) or 0.0
    if share < TRUNCATED:
        return None
    cause = "they need more room than they have"
    if not given["use_chat_template"] and sum(row["ended_by"]["eos"] for row in window) == 0:
        cause = "the model never ends a completion by itself, or needs more room"
    return Advice(
        "truncation",
        f"{share:.0%} of the completions are truncated",
        cause,
        f"raise max_completion_length (now {given['max_completion_length']})"
        + (", or set truncated_reward zero" if given["truncated_reward"] == "none" else ""),
    )


@rule
def no_programs(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    share = share_of_outcome(window, "syntax")
    if share < 0.5:
        return None
    other = "off" if given["use_chat_template"] else "on"
    return Advice(
        "no_programs",
        f"{share:.0%} of the completions are no Python at all",
        "the prompt's form does not suit the model, or its sampling is too hot",
        f"turn use_chat_template {other} if this is {'a base' if other == 'off' else 'an -Instruct'} model, "
        "or lower temperature",
    )


@rule
def all_fail(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    share = share_of_groups(window, "all_fail")
    if share < STUCK:
        return None
    return Advice(
        "all_fail",
        f"{share:.0%} of the groups fail as a whole",
        "the base hardly ever solves these problems, so there is no signal",
        "use a larger or more code-trained model_name, raise num_generations, or set use_filter with a larger "
        "max_candidate_samples",
    )


@rule
def all_pass(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    share = share_of_groups(window, "all_pass")
    if share < STUCK:
        return None
    return Advice(
        "all_pass",
        f"{share:.0%} of the groups pass as a whole",
        "the model solves these problems already",
        "set use_filter, use a harder dataset, or lower epochs and stop here",
    )


@rule
def few_mixed(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    share = mean(column(window, "zero_variance")) or 0.0
    if share < FLAT or max(share_of_groups(window, kind) for kind in ("all_fail", "all_pass")) >= STUCK:
        return None
    dynamic = "" if given["dynamic_sampling_tokens"] else ", dynamic_sampling_tokens to replace them"
    return Advice(
        "few_mixed",
        f"{share:.0%} of the groups have no variance and teach nothing",
        "their problems are too hard or too easy for groups of this size",
        f"raise num_generations (now {given['num_generations']}), or set use_filter to drop them beforehand{dynamic}",
    )


@rule
def drift(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    distance = mean(column(window, "kl"))
    if distance is None or distance < DRIFTED:
        return None
    first, last = mean(lengths(metrics[:WINDOW])), mean(lengths(window))
    longer = f", and completions have gone from {first:.0f} to {last:.0f} tokens" if first and last else ""
    return Advice(
        "drift",
        f"the policy is {distance:.2g} nats a token away from the base{longer}",
        "too little holds it back",
        f"raise beta (now {given['beta']:g}), lower lr (now {given['lr']:g}) or epochs",
    )


@rule
def no_movement(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    distance = mean(column(window, "kl"))
    if distance is None or distance > UNMOVED or len(metrics) < 2 * WINDOW or not share_of_groups(window, "mixed"):
        return None
    return Advice(
        "no_movement",
        f"after {len(metrics)} steps the policy is still the base (KL {distance:.1g})",
        "the updates are too small to matter",
        f"raise lr (now {given['lr']:g}) or epochs, or lower beta (now {given['beta']:g})",
    )


@rule
def entropy_collapse(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    first, last = mean(column(metrics[:WINDOW], "entropy")), mean(column(window, "entropy"))
    if not first or last is None or len(metrics) < 2 * WINDOW or last > COLLAPSED * first:
        return None
    if (mean(column(window, "reward")) or 0.0) > 0.9:  # a model that is sure and right has little entropy
        return None
    return Advice(
        "entropy_collapse",
        f"entropy has fallen from {first:.2g} to {last:.2g} while the reward is not high",
        "the policy writes the same thing again and again, right or wrong",
        f"lower lr (now {given['lr']:g}), raise beta (now {given['beta']:g}), or try grpo_overrides "
        '{"epsilon_high": 0.28}',
    )


@rule
def degenerate_reward(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    before, now = mean(column(metrics[-2 * WINDOW : -WINDOW], "reward")), mean(column(window, "reward"))
    if before is None or now is None or before > 0.5 or now < JUMPED:
        return None
    return Advice(
        "degenerate_reward",
        f"the reward has jumped from {before:.2f} to {now:.2f} within {2 * WINDOW} steps",
        "the policy may have found a way around the tests",
        "read the completions on this page and what hidden tests say in the evaluation; use a dataset with more tests",
    )


@rule
def reward_hacking(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    passes = sum(row["hidden"]["passed_visible"] for row in window if row.get("hidden"))
    share, before = missed_share_of(window), missed_share_of(metrics[:WINDOW])
    if share is None or before is None or passes < ENOUGH:
        return None
    grows = len(metrics) >= 2 * WINDOW and share >= before + HACKED
    if not grows and share < WEAK:
        return None
    return Advice(
        "reward_hacking",
        f"{share:.0%} of the completions that pass the visible tests fail hidden ones"
        + (f", after {before:.0%} at first" if grows else ""),
        "reward hacking: the policy learns the visible tests rather than the task"
        if grows
        else "the visible tests are too few to tell a solution from a guess, which invites reward hacking",
        f"use a dataset with more tests a problem, lower epochs (now {given['epochs']}) or raise beta "
        f"(now {given['beta']:g}); the completions on this page say which tests they miss",
    )


@rule
def wild_gradients(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    norms = sorted(column(metrics, "grad_norm"))
    spikes = [norm for norm in column(window, "grad_norm") if norms and norm > WILD * max(norms[len(norms) // 2], 0.1)]
    if len(spikes) < 2:
        return None
    return Advice(
        "wild_gradients",
        f"{len(spikes)} of the last {len(window)} steps had a gradient over {WILD:g} times the usual",
        "the learning rate is too high for this batch",
        f"lower lr (now {given['lr']:g}) or raise batch_size (now {given['batch_size']})",
    )


@rule
def infrastructure(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    share = mean(column(window, "infra")) or 0.0
    if share == 0.0:
        return None
    return Advice(
        "infrastructure",
        f"{share:.1%} of the completions could not be judged",
        "the sandbox failed on them, and they teach nothing",
        f"look at the sandbox's log; above infra_limit ({given['infra_limit']:g}) the run stops",
    )


@rule
def timeouts(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    share = share_of_outcome(window, "timeout")
    if share < OFTEN:
        return None
    return Advice(
        "timeouts",
        f"{share:.0%} of the programs run into their time limit",
        "the policy writes endless loops, or the limit is short for this machine",
        f"raise test_timeout_s (now {given['test_timeout_s']:g}) if right programs are among them",
    )


@rule
def slow_rewards(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    share = share_of_time(window, "reward")
    if share < JUDGING:
        return None
    return Advice(
        "slow_rewards",
        f"judging takes {share:.0%} of the time",
        "the sandbox has too few workers, or programs use up their time limit",
        f"give the sandbox more replicas, or lower test_timeout_s (now {given['test_timeout_s']:g})",
    )


@rule
def slow_generation(metrics: Rows, window: Rows, given: Mapping[str, Any]) -> Advice | None:
    step, share = mean([row["seconds"]["step"] for row in window]) or 0.0, share_of_time(window, "generate")
    if step < SLOW_STEP_SECONDS or share < GENERATION:
        return None
    return Advice(
        "slow_generation",
        f"a step takes {step:.0f} s, {share:.0%} of it drawing completions",
        "the longest completion of a batch decides how long it takes",
        f"lower max_completion_length (now {given['max_completion_length']}) or num_generations "
        f"(now {given['num_generations']})",
    )


def lengths(rows: Rows) -> list[float]:
    return [row["lengths"]["mean"] for row in rows if row["lengths"]["mean"] is not None]
