"""The training report: what happened so far, drawn from the journal; reloads itself while the run goes on."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from components.shared.charts import line_chart
from components.shared.pages import percent, render
from components.shared.program import find_stop
from components.shared.progress import duration
from components.train.advisor import advise
from components.train.metrics import lost_step
from components.train.schedule import Schedule

REFRESH_SECONDS = 15
MOST_POINTS = 300  # a chart shows means of neighbouring steps beyond that, so that a long run's page stays small
RUNNING_SHARE = 10  # the running average goes over a tenth of the steps so far
SHOWN_SAMPLES = 8
Chart = tuple[str, Any, str]  # its name, the drawing, one sentence on how to read it
step_chart = partial(line_chart, x_label="step")
share_chart = partial(line_chart, x_label="step", percent=True, y_range=(0.0, 1.0))


def training_report(
    metrics: Sequence[Mapping[str, Any]],
    samples: Sequence[Mapping[str, Any]],
    *,
    schedule: Schedule,
    given: Mapping[str, Any],
    run: str,
    finished: bool,
) -> str:
    """The page as HTML. metrics and samples: the rows of metrics.jsonl and samples.jsonl so far."""
    last = metrics[-1] if metrics else None
    return render(
        "training.html",
        title=f"Training {run}",
        refresh_seconds=None if finished else REFRESH_SECONDS,
        run=run,
        control=given["reward"] == "random",
        done=last["step"] if last else 0,
        steps=schedule.steps,
        epoch=last["epoch"] if last else 0.0,
        headline=headline(metrics, finished=finished),
        stats=stat_grid(metrics, schedule, given),
        charts=charts(metrics) if metrics else [],
        samples=[
            sample_card(sample, use_chat_template=given["use_chat_template"])
            for sample in samples
            if last and sample["step"] == last["step"]
        ][:SHOWN_SAMPLES],
        lost_steps=sum(lost_step(row) is not None for row in metrics),
        advice=advise(metrics, given),
    )


def headline(metrics: Sequence[Mapping[str, Any]], *, finished: bool) -> str:
    """One sentence on the reward, from the first tenth of the steps so far to the last."""
    rewards = [row["reward"] for row in metrics if row["reward"] is not None]
    if not rewards:
        return "No completion has been rewarded yet."
    tenth = max(1, len(rewards) // 10)
    first, last = sum(rewards[:tenth]) / tenth, sum(rewards[-tenth:]) / tenth
    verb = "went" if finished else "has gone"
    return f"Training reward {verb} from {first:.2f} to {last:.2f} over {len(metrics)} steps."


def stat_grid(
    metrics: Sequence[Mapping[str, Any]], schedule: Schedule, given: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """(label, value, note) of the figures a reader asks for first."""
    last: Mapping[str, Any] = metrics[-1] if metrics else {}
    seconds = sum(row["seconds"]["step"] for row in metrics)
    loss = last.get("loss")
    return [
        ("Method", str(given["method"]), str(given["model_name"])),
        ("Problems", str(schedule.problems), f"{schedule.prompts_per_step} prompts a step"),
        ("Epochs", str(schedule.epochs), f"{last.get('epoch', 0):.2f} done"),
        ("Learning rate", f"{given['lr']:g}", f"beta {given['beta']:g}"),
        ("Generations", str(given["num_generations"]), f"{schedule.batch_size} completions a step"),
        ("Loss", "–" if loss is None else f"{loss:.4f}", "of the last step"),
        ("Truncated", percent(last.get("truncated"), 0), "of the last step's completions"),
        ("Time", duration(seconds), f"{seconds / len(metrics):.2f} s a step" if metrics else ""),
    ]


def charts(metrics: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """All charts of the page, the most asked for first."""
    return [*learning_charts(metrics), *health_charts(metrics)]


def learning_charts(metrics: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """Reward, pass rate and loss."""
    rewards, passes = column(metrics, "reward"), column(metrics, "pass_rate")
    pair = ("neutral", "series-1")
    return [
        (
            "Reward",
            share_chart(
                {"each step": thin(rewards), "running average": thin(running(rewards))},
                y_label="rewarded completions",
                colours=pair,
            ),
            "Mean reward of a step's completions; it should climb, but only the held-out evaluation proves learning.",
        ),
        (
            "Pass rate",
            share_chart(
                {"each step": thin(passes), "running average": thin(running(passes))},
                y_label="completions that pass",
                colours=pair,
            ),
            "Share of judged completions that pass all tests, truncated ones included.",
        ),
        (
            "Training loss",
            step_chart({"loss": thin(column(metrics, "loss"))}, y_label="loss"),
            "GRPO's loss hovers around zero by construction; look at it only for jumps.",
        ),
    ]


def health_charts(metrics: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """Group mix, truncation, entropy, time by phase, and the KL distance where beta is not 0."""
    groups = {kind: group_shares(metrics, kind) for kind in ("all_fail", "mixed", "all_pass")}
    phases = {
        phase: running([(row["step"], row["seconds"][phase]) for row in metrics])
        for phase in ("generate", "reward", "update")
    }
    drawn: list[Chart] = [
        (
            "Groups",
            share_chart(
                {kind.replace("_", " "): thin(running(rows)) for kind, rows in groups.items()}, y_label="groups"
            ),
            "Only mixed groups teach: completions of one prompt that all fail or all pass have no advantage.",
        ),
        (
            "Where the time goes",
            step_chart({phase: thin(rows) for phase, rows in phases.items()}, y_label="seconds a step"),
            "Sampling completions, judging them in the sandbox, and the update itself.",
        ),
    ]
    truncated, entropy = column(metrics, "truncated"), column(metrics, "entropy")
    drawn.append(
        (
            "Truncated",
            share_chart({"running average": thin(running(truncated))}, y_label="completions"),
            "Completions that max_completion_length cut off: they get no reward, and their tokens teach nothing.",
        )
    )
    if any(y is not None for _, y in entropy):
        chart = step_chart({"entropy": thin(running(entropy))}, y_label="nats a token")
        drawn.append(("Entropy", chart, "How undecided the policy is; a fall to almost nothing ends exploration."))
    if any(row["kl"] is not None for row in metrics):
        chart = step_chart({"KL": thin(column(metrics, "kl"))}, y_label="KL to the base")
        drawn.append(("Distance from the base", chart, "How far the policy has drifted; raise beta to hold it back."))
    return drawn


def column(metrics: Sequence[Mapping[str, Any]], name: str) -> list[tuple[float, float | None]]:
    return [(row["step"], row[name]) for row in metrics]


def group_shares(metrics: Sequence[Mapping[str, Any]], kind: str) -> list[tuple[float, float | None]]:
    return [(row["step"], row["groups"][kind] / sum(row["groups"].values())) for row in metrics]


def running(points: Sequence[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    """The mean over the last tenth of the steps so far, at each step; None where that holds nothing."""
    window = max(1, len(points) // RUNNING_SHARE)
    sums = list(accumulate((0.0 if y is None else y for _, y in points), initial=0.0))
    counts = list(accumulate((y is not None for _, y in points), initial=0))
    averaged: list[tuple[float, float | None]] = []
    for place, (x, _) in enumerate(points, start=1):
        first = max(0, place - window)
        held = counts[place] - counts[first]
        averaged.append((x, (sums[place] - sums[first]) / held if held else None))
    return averaged


def thin(points: Sequence[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    """At most MOST_POINTS points, each the mean of the neighbouring ones it stands for."""
    size = -(-len(points) // MOST_POINTS)
    thinned: list[tuple[float, float | None]] = []
    for start in range(0, len(points), max(1, size)):
        part = points[start : start + size]
        values = [y for _, y in part if y is not None]
        thinned.append((part[-1][0], sum(values) / len(values) if values else None))
    return thinned


def sample_card(sample: Mapping[str, Any], *, use_chat_template: bool) -> dict[str, Any]:
    """A completion for the template's code card, as far as it belongs to the program."""
    completion = sample["completion"]
    code = completion if use_chat_template else completion[: find_stop(completion)]
    return {
        "label": f"{sample['outcome']}, reward {'none' if sample['reward'] is None else format(sample['reward'], 'g')}",
        "passed": None if sample["reward"] is None else sample["outcome"] == "passed",
        "code": code.strip("\n"),
        "note": f"Does not hold: {sample['failing_test']}" if sample["failing_test"] else "",
        "task_id": sample["task_id"],
    }
