"""The training report: what happened so far, drawn from the journal; reloads itself while the run goes on.

A page says when it was written. One that has not been written for longer than the run's steps explain is that of a run
that was killed: it says so and stops reloading itself, as far as the browser lets a page count time.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from components.shared.pages import number, percent, render
from components.shared.program import find_stop
from components.shared.progress import duration
from components.train.advisor import advise
from components.train.curves import curves, running, steps_a_point
from components.train.metrics import lost_step
from components.train.schedule import Schedule

REFRESH_SECONDS = 15
STALE_SECONDS, STALE_STEPS = 300.0, 10  # a page that is older than both is of a run that no longer writes
STALE_BEFORE_FIRST_STEP = 1800.0
SHOWN_SAMPLES = 8


def training_report(
    metrics: Sequence[Mapping[str, Any]],
    samples: Sequence[Mapping[str, Any]],
    *,
    schedule: Schedule,
    given: Mapping[str, Any],
    run: str,
    finished: bool,
) -> str:
    """The page as HTML, as of now. metrics and samples: the rows of metrics.jsonl and samples.jsonl so far."""
    last = metrics[-1] if metrics else None
    now = time.time()
    return render(
        "training.html",
        title=f"Training {run}",
        refresh_seconds=None if finished else REFRESH_SECONDS,
        run=run,
        written=now,
        written_at=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now)),
        stale_after=stale_after(metrics),
        steps_a_point=steps_a_point(len(metrics)),
        control=given["reward"] == "random",
        done=last["step"] if last else 0,
        steps=schedule.steps,
        epoch=last["epoch"] if last else 0.0,
        headline=headline(metrics, finished=finished),
        stats=stat_grid(metrics, schedule, given),
        charts=curves(metrics),
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
    return f"Training reward {verb} from {percent(first, 0)} to {percent(last, 0)} over {len(metrics)} steps."


def stat_grid(
    metrics: Sequence[Mapping[str, Any]], schedule: Schedule, given: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """(label, value, note) of the figures a reader asks for first."""
    last: Mapping[str, Any] = metrics[-1] if metrics else {}
    seconds = sum(row["seconds"]["step"] for row in metrics)
    return [
        ("Method", str(given["method"]), str(given["model_name"])),
        ("Problems", str(schedule.problems), f"{schedule.prompts_per_step} prompts a step"),
        ("Epochs", str(schedule.epochs), f"{last.get('epoch', 0):.2f} done"),
        ("Learning rate", f"{given['lr']:g}", f"beta {given['beta']:g}"),
        ("Generations", str(given["num_generations"]), f"{schedule.batch_size} completions a step"),
        ("Loss", number(last.get("loss"), 2), "of the last step"),
        ("Reward", *last_and_average(metrics, "reward")),
        ("Pass rate", *last_and_average(metrics, "pass_rate")),
        ("Mixed groups", *last_and_average([{**row, "mixed": 1 - row["zero_variance"]} for row in metrics], "mixed")),
        ("Truncated", *last_and_average(metrics, "truncated")),
        ("KL", number(last.get("kl"), 2), "nats a token from the base, last step"),
        ("Time", duration(seconds), f"{seconds / len(metrics):.2f} s a step" if metrics else ""),
    ]


def last_and_average(metrics: Sequence[Mapping[str, Any]], name: str) -> tuple[str, str]:
    """A share in the last step, and its running average in words."""
    if not metrics:
        return "–", ""
    average = running([(row["step"], row[name]) for row in metrics])[-1][1]
    return percent(metrics[-1][name], 0), f"last step; running average {percent(average, 0)}"


def stale_after(metrics: Sequence[Mapping[str, Any]]) -> float:
    """Seconds after which a page of a run that goes on would have been written anew."""
    if not metrics:
        return STALE_BEFORE_FIRST_STEP
    return max(STALE_SECONDS, STALE_STEPS * max(float(row["seconds"]["step"]) for row in metrics[-STALE_STEPS:]))


def sample_card(sample: Mapping[str, Any], *, use_chat_template: bool) -> dict[str, Any]:
    """A completion for the template's code card, as far as it belongs to the program."""
    completion = sample["completion"]
    code = completion if use_chat_template else completion[: find_stop(completion)]
    return {
        "label": f"{sample['outcome']}, reward {'none' if sample['reward'] is None else format(sample['reward'], 'g')}",
        "passed": None if sample["reward"] is None else sample["outcome"] == "passed",
        "code": code.strip("\n"),
        "note": note_of(sample),
        "task_id": sample["task_id"],
        "prompt": sample.get("prompt", ""),  # rows of an older run have none
    }


def note_of(sample: Mapping[str, Any]) -> str:
    """The test that does not hold, a visible or else a hidden one."""
    if sample["failing_test"]:
        return f"Does not hold: {sample['failing_test']}"
    hidden = sample.get("failing_hidden_test")  # rows of an older run have none
    return f"Passes the visible tests; of the hidden ones this does not hold: {hidden}" if hidden else ""
