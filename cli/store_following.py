"""`watch` where no Kubeflow Pipelines is named: a run as its store shows it, in a directory or in a bucket.

The store learns of a step's progress every few seconds to a minute, as its report page does. Ctrl-C ends the watching,
never the run.
"""

import json
import time
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from cli.display import Display, Event, make_console, make_display, print_plain
from cli.processes import STOPPED
from cli.serving import check_run_is_there
from components.shared.progress import duration
from components.shared.run import folder_of
from components.shared.status import STATUS
from components.shared.store import Store
from components.train import journal

SECONDS = 5.0
SILENT_SECONDS, SILENT_STEPS = 300.0, 10  # a run that writes nothing for longer than both may have been killed
# What a step leaves below the run's folder once it is done; training writes ATTEMPT when it begins.
LEFT = {
    "prepare": "prepare/problems.jsonl",
    "filter": "filter/kept.jsonl",
    "train": "train/model.json",
    "evaluate": "evaluate/evaluation.json",
}
ATTEMPT, METRICS = "train/attempt.json", f"train/{journal.METRICS}"


def watch_store(store: Store, run: str) -> int:
    """Show the run until it ends; returns 0 if it succeeded, 1 if not, 130 when the watching was stopped."""
    check_run_is_there(store, run)
    console = make_console()
    try:
        print_plain(console, f"grpo-code run {run} ({store.uri(folder_of(run))})")
        with make_display(console, ["train", "evaluate"]) as display:
            status = _until_end(Seen(store, run), display, console)
    except KeyboardInterrupt:
        print_plain(console, f"Stopped watching; the run goes on: python pipeline.py watch {run}")
        return STOPPED
    return _tell_end(status, run, console)


@dataclass
class Seen:
    """What has been seen of a run; every look reads only what has changed since the last."""

    store: Store
    run: str
    facts: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)  # step: its state
    rows: list[dict[str, Any]] = field(default_factory=list)
    attempt: dict[str, Any] = field(default_factory=dict)
    changed: float = field(default_factory=time.monotonic)

    def look(self) -> list[Event]:
        """The display's events for what is new."""
        prefix = f"{folder_of(self.run)}/"
        facts = {key.removeprefix(prefix): fact for key, fact in self.store.fingerprints(prefix).items()}
        new = {name for name, fact in facts.items() if self.facts.get(name) != fact}
        if not new:
            return []
        self.facts, self.changed = facts, time.monotonic()
        if ATTEMPT in new:
            self.attempt = json.loads(self.store.read(prefix + ATTEMPT))
        events = [event for step in LEFT for event in self._states(step)]
        if METRICS in new and self.attempt:
            self.rows, _ = journal.rows_of(self.store.read(prefix + METRICS))
            events += [self._progress(self.rows[-1])] if self.rows else []
        return events

    def _states(self, step: str) -> list[Event]:
        begun = {"train": bool(self.attempt), "evaluate": self.told.get("train") == "done"}
        done = LEFT[step] in self.facts and not (step == "train" and not self.attempt.get("ended"))
        state = "done" if done else "running" if begun.get(step) else ""
        if not state or self.told.get(step) == state:
            return []
        states = [state] if step in self.told or state == "running" else ["running", state]
        self.told[step] = state
        return [{"step": step, "state": one, "time": time.time()} for one in states]

    def _progress(self, row: dict[str, Any]) -> Event:
        reward = "none" if row["reward"] is None else f"{row['reward']:.2f}"
        note = f"reward {reward}, mixed groups {1 - row['zero_variance']:.0%}, truncated {row['truncated']:.0%}"
        recent = [one["seconds"]["step"] for one in self.rows[-SILENT_STEPS:]]
        left = (self.attempt["steps"] - row["step"]) * sum(recent) / len(recent)
        counts = {"done": row["step"], "total": self.attempt["steps"], "unit": "steps"}
        return {"step": "train", "task": "training", **counts, "note": note, "seconds_left": left, "time": time.time()}

    def status(self) -> dict[str, Any] | None:
        """How the run ended; None while an attempt that began later is at work."""
        if STATUS not in self.facts:
            return None
        status: dict[str, Any] = json.loads(self.store.read(f"{folder_of(self.run)}/{STATUS}"))
        begun_again = not self.attempt.get("ended", "-") and self.attempt["started"] > status["ended"]
        return None if begun_again else status

    def silent(self) -> float:
        """For how many seconds nothing has been written, where that is more than the steps explain; else 0."""
        waited = time.monotonic() - self.changed
        longest = max((row["seconds"]["step"] for row in self.rows[-SILENT_STEPS:]), default=0.0)
        return waited if waited > max(SILENT_SECONDS, SILENT_STEPS * longest) else 0.0


def _until_end(seen: Seen, display: Display, console: Console) -> dict[str, Any]:
    warned = False
    while True:
        for event in seen.look():
            display.show(event)
        status = seen.status()
        if status is not None:
            return status
        silent = seen.silent()
        if silent and not warned:
            since = f"Nothing has been written for {duration(silent)}"
            print_plain(console, f"{since}: the run was killed, or does something long. Ctrl-C ends the watching.")
        warned = bool(silent)
        time.sleep(SECONDS)


def _tell_end(status: dict[str, Any], run: str, console: Console) -> int:
    where = f"{status['failed_step']}: " if status["failed_step"] else ""
    why = f": {where}{status['message']}" if status["message"] else "."
    print_plain(console, f"The run {status['outcome']}{why}")
    if status["outcome"] == "succeeded":
        print_plain(console, f"See its report: python pipeline.py report {run}")
        return 0
    print_plain(console, f"What was finished is kept; go on with: {status['resume']}")
    return 1
