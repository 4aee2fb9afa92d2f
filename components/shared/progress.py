"""How far a step is, for people: plain lines in a pod's log, events for the local run's display.

Every line says what is being done, how far it is and how long it still takes. When the local runner has set
`GRPO_PROGRESS_FILE`, the same facts go there as JSON, one object a line, and the runner draws them.
"""

import json
import os
import time
from pathlib import Path

PROGRESS_FILE = "GRPO_PROGRESS_FILE"
SECONDS_BETWEEN_LINES = 10.0


_muted = False


def mute() -> None:
    """Say nothing more from this process: another one speaks for it."""
    global _muted
    _muted = True


def say(step: str, message: str) -> None:
    """Tell one fact about a step, such as what was found or why something was skipped."""
    if _muted:
        return
    print(f"{step}: {message}", flush=True)
    _event({"step": step, "message": message})


class Progress:
    """Counts `total` units of one task of a step, for example 60 optimiser steps.

    every_update prints a line for each update; otherwise a line at most every ten seconds, and at the end.
    """

    def __init__(self, step: str, task: str, total: int, *, unit: str, every_update: bool = False) -> None:
        self.step, self.task, self.total, self.unit = step, task, total, unit
        self.every_update = every_update
        self.done = 0
        self.offset = 0  # units that an earlier attempt had done, which say nothing about speed
        self.start = self.last_line = time.monotonic()
        self._tell("", printing=False)

    def skip_to(self, done: int) -> None:
        """Start at `done` units, as a resumed run does."""
        self.done = self.offset = done
        self.start = time.monotonic()  # what came before, such as loading a model, says nothing about speed either
        self._tell("", printing=False)

    def update(self, done: int, note: str = "") -> None:
        """Say that `done` units are finished in all; note is a short remark such as the reward."""
        self.done = done
        now = time.monotonic()
        printing = self.every_update or done >= self.total or now - self.last_line >= SECONDS_BETWEEN_LINES
        if printing:
            self.last_line = now
        self._tell(note, printing=printing)

    def advance(self, count: int = 1, note: str = "") -> None:
        self.update(self.done + count, note)

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the end at the mean speed so far; None before the first unit."""
        measured = self.done - self.offset
        if measured <= 0:
            return None
        return (time.monotonic() - self.start) / measured * max(0, self.total - self.done)

    def _tell(self, note: str, *, printing: bool) -> None:
        if _muted:
            return
        left = self.seconds_left
        if printing:
            remaining = "" if left is None or self.done >= self.total else f", {duration(left)} left"
            remark = f", {note}" if note else ""
            print(f"{self.step}: {self.task} {self.done}/{self.total} {self.unit}{remark}{remaining}", flush=True)
        _event(
            {
                "step": self.step,
                "task": self.task,
                "done": self.done,
                "total": self.total,
                "unit": self.unit,
                "note": note,
                "seconds_left": left,
            }
        )


def duration(seconds: float) -> str:
    """Seconds as a person says them: `8 s`, `3 min 5 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _event(event: dict[str, object]) -> None:
    target = os.environ.get(PROGRESS_FILE)
    if target:
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"time": time.time(), **event}) + "\n")
