"""The curves of the training report: each step faintly, and the running average over it in full.

A long run's page stays small: beyond MOST_POINTS a point is the mean of neighbouring steps.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from components.shared.charts import line_chart
from components.train.metrics import missed_share_of

MOST_POINTS = 300
RUNNING_SHARE = 10  # the running average goes over a tenth of the steps so far
Chart = tuple[str, Any, str]  # its name, the drawing, one sentence on how to read it
Row = Mapping[str, Any]
Points = list[tuple[float, float | None]]
SHARE = {"percent": True, "y_range": (0.0, 1.0)}
GROUPS = ("all_fail", "mixed", "all_pass")
PHASES = ("generate", "reward", "update")


def curves(metrics: Sequence[Row]) -> list[Chart]:
    """All charts of the page, the most asked for first; one without any figure is left out."""
    every = partial(column, metrics)
    drawn = [
        chart(
            "Reward",
            {"reward": every("reward")},
            "rewarded completions",
            "Mean reward of a step's completions; it should climb, but only the held-out evaluation proves learning.",
            **SHARE,
        ),
        chart(
            "Pass rate",
            {"pass rate": every("pass_rate")},
            "completions that pass",
            "Share of judged completions that pass all tests, truncated ones included.",
            **SHARE,
        ),
        chart(
            "Groups",
            {kind.replace("_", " "): group_shares(metrics, kind) for kind in GROUPS},
            "groups",
            "Only mixed groups teach: completions of one prompt that all fail or all pass have no advantage.",
            **SHARE,
        ),
        chart(
            "Hidden tests",
            {"fail hidden tests": hidden_shares(metrics)},
            "passes that fail them",
            "The missed share: of the completions that pass the visible tests, those that fail hidden ones, which are "
            "never rewarded; a curve that climbs means that the policy learns the visible tests rather than the task.",
            **SHARE,
        ),
        *health(metrics),
    ]
    return [one for one in drawn if one is not None]


def health(metrics: Sequence[Row]) -> list[Chart | None]:
    """Whether the run is sound: loss, KL, entropy, lengths, truncation and time by phase."""
    every = partial(column, metrics)
    return [
        chart(
            "Training loss",
            {"loss": every("loss")},
            "loss",
            "GRPO's loss hovers around zero by construction; look at it only for jumps.",
        ),
        chart(
            "Distance from the base",
            {"KL": every("kl")},
            "KL, nats a token",
            "How far the policy has drifted; raise beta to hold it back.",
        ),
        chart(
            "Entropy",
            {"entropy": every("entropy")},
            "nats a token",
            "How undecided the policy is; a fall to almost nothing ends exploration.",
        ),
        chart(
            "Lengths",
            {name: [(row["step"], row["lengths"][name]) for row in metrics] for name in ("mean", "max")},
            "tokens a completion",
            "Mean and longest completion of a step; growth without more reward is rambling.",
        ),
        chart(
            "Truncated",
            {"truncated": every("truncated")},
            "completions",
            "Completions that max_completion_length cut off: their tokens stay out of the loss, and they earn 0, or "
            "nothing with truncated_reward none.",
            **SHARE,
        ),
        chart(
            "Where the time goes",
            {phase: [(row["step"], row["seconds"][phase]) for row in metrics] for phase in PHASES},
            "seconds a step",
            "Sampling completions, judging them in the sandbox, and the update itself.",
        ),
    ]


def chart(name: str, series: Mapping[str, Points], y_label: str, how_to_read: str, **options: Any) -> Chart | None:
    """One chart of the running averages over the steps' own values; None when there is no figure at all."""
    if all(y is None for points in series.values() for _, y in points):
        return None
    averages = {label: thin(running(points)) for label, points in series.items()}
    steps = {label: thin(points) for label, points in series.items()}
    return name, line_chart(averages, behind=steps, x_label="step", y_label=y_label, **options), how_to_read


def column(metrics: Sequence[Row], name: str) -> Points:
    return [(row["step"], row[name]) for row in metrics]


def group_shares(metrics: Sequence[Row], kind: str) -> Points:
    return [(row["step"], row["groups"][kind] / sum(row["groups"].values())) for row in metrics]


def hidden_shares(metrics: Sequence[Row]) -> Points:
    return [(row["step"], missed_share_of([row])) for row in metrics]


def running(points: Sequence[tuple[float, float | None]]) -> Points:
    """The mean over the last tenth of the steps so far, at each step; None where that holds nothing."""
    window = max(1, len(points) // RUNNING_SHARE)
    sums = list(accumulate((0.0 if y is None else y for _, y in points), initial=0.0))
    counts = list(accumulate((y is not None for _, y in points), initial=0))
    averaged: Points = []
    for place, (x, _) in enumerate(points, start=1):
        first = max(0, place - window)
        held = counts[place] - counts[first]
        averaged.append((x, (sums[place] - sums[first]) / held if held else None))
    return averaged


def steps_a_point(steps: int) -> int:
    """For how many neighbouring steps one point of a curve stands."""
    return max(1, -(-steps // MOST_POINTS))


def thin(points: Sequence[tuple[float, float | None]]) -> Points:
    """At most MOST_POINTS points, each the mean of the neighbouring ones it stands for."""
    size = steps_a_point(len(points))
    thinned: Points = []
    for start in range(0, len(points), size):
        part = points[start : start + size]
        values = [y for _, y in part if y is not None]
        thinned.append((part[-1][0], sum(values) / len(values) if values else None))
    return thinned
