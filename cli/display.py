"""What a person sees while the pipeline runs: one live table on a terminal, plain lines elsewhere.

Both are fed the same events: a step's state (from the worker), a message, or the progress of a task (both from
components/shared/progress.py). Events arrive as JSON lines in a file, which `Events` reads as it grows.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Column, Table

from components.shared.progress import SECONDS_BETWEEN_LINES, duration

Event = dict[str, Any]
REUSED = "reused, nothing it reads has changed"
WIDEST_LINE = 100_000


class Events:
    """The complete lines that were appended to a file since the last look."""

    def __init__(self, file: Path) -> None:
        self.file, self.offset, self.rest = file, 0, b""

    def new(self) -> list[Event]:
        """New events, oldest first; none when the file does not exist yet."""
        try:
            with self.file.open("rb") as stream:
                stream.seek(self.offset)
                data = stream.read()
        except FileNotFoundError:
            return []
        self.offset += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [json.loads(line) for line in lines if line.strip()]


def make_console() -> Console:
    """The console of a local run; colours are for words of ours, see `print_plain` for all others.

    No `:100:` is made a picture of: it may be part of an image's name or of a parameter.
    """
    return Console(highlight=False, emoji=False)


def print_plain(console: Console, text: str) -> None:
    """Print text as it is: no markup in it is meant, and no line is broken, so that it can be copied."""
    console.print(text, markup=False, soft_wrap=True)


def print_table(columns: Sequence[str], groups: Sequence[Sequence[Sequence[str]]], *, foldable: bool = False) -> None:
    """Print groups of rows under the names of their columns, each row on a line of its own and each cell as it is.

    Lines run on beyond a narrow terminal, so that an id can be copied and a line found with grep; foldable: on a
    terminal the cells are folded instead, for a table that is read from side to side.
    """
    console = make_console()
    table = Table(*(Column(name, overflow="fold") for name in columns), box=None, padding=(0, 2, 0, 0))
    for group in groups:
        for row in group:
            table.add_row(*row)
        table.add_section()
    if not (foldable and console.is_terminal):
        console.width = WIDEST_LINE  # a table takes no more than it needs
    console.print(table, markup=False)


class Display(Protocol):
    """Shows events while it is entered."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None: ...

    def show(self, event: Event) -> None: ...


def make_display(console: Console, steps: Sequence[str]) -> Display:
    """The live table where the console is a terminal, plain lines elsewhere."""
    return LiveDisplay(console, steps) if console.is_terminal else PlainDisplay(console)


class PlainDisplay:
    """One line per state and message; of a task's progress a line every ten seconds and the last one."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.since: dict[str, float] = {}
        self.printed: dict[tuple[str, str], float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        return None

    def _line(self, text: str) -> None:
        print_plain(self.console, text)

    def show(self, event: Event) -> None:
        step = event["step"]
        if "state" in event:
            self._line(f"{step}: {self._state(event)}")
        elif "message" in event:
            self._line(f"{step}: {event['message']}")
        else:
            self._progress(event)

    def _state(self, event: Event) -> str:
        self.since.setdefault(event["step"], event["time"])
        words = {"running": "started", "reused": REUSED}
        seconds = duration(event["time"] - self.since[event["step"]])
        return words.get(event["state"], f"{event['state']} in {seconds}")

    def _progress(self, event: Event) -> None:
        task = (event["step"], event["task"])
        due = self.printed.setdefault(task, event["time"]) + SECONDS_BETWEEN_LINES
        finished = event["done"] >= event["total"]
        if finished or event["time"] >= due:
            self.printed[task] = event["time"]
            parts = [f"{event['task']} {event['done']}/{event['total']} {event['unit']}", event["note"]]
            if not finished and event["seconds_left"] is not None:
                parts.append(f"{duration(event['seconds_left'])} left")
            self._line(f"{event['step']}: {', '.join(part for part in parts if part)}")


class LiveDisplay:
    """A table of the steps that redraws itself; messages scroll by above it."""

    def __init__(self, console: Console, steps: Sequence[str]) -> None:
        self.console = console
        self.rows: dict[str, Event] = {step: {} for step in steps}
        self.live = Live(console=console, get_renderable=self._table, refresh_per_second=4)

    def __enter__(self) -> Self:
        self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.live.stop()

    def show(self, event: Event) -> None:
        row = self.rows.setdefault(event["step"], {})
        if "state" in event:
            row.update(state=event["state"], ended=event["time"])
            row.setdefault("since", event["time"])
        elif "message" in event:
            self.console.print(f"[dim]{event['step']}:[/] {escape(event['message'])}")
        else:
            row["progress"] = event

    def _table(self) -> Group:
        table = Table.grid(padding=(0, 1))
        for step, row in self.rows.items():
            table.add_row(*self._cells(step, row))
        return Group(table)

    def _cells(self, step: str, row: Event) -> tuple[Any, ...]:
        state = row.get("state")
        if state is None:
            return (" ", f"[dim]{step}[/]")
        if state == "reused":
            return ("[cyan]=[/]", step, f"[cyan]{REUSED}[/]")
        if state == "running":
            spinner = row.setdefault("spinner", Spinner("dots"))
            return (spinner, f"[bold]{step}[/]", self._running(row))
        mark = "[green]✓[/]" if state == "done" else "[red]✗[/]"
        return (mark, step, f"[dim]{duration(row['ended'] - row['since'])}[/]")

    def _running(self, row: Event) -> Any:
        progress = row.get("progress")
        if progress is None:
            return f"[dim]{duration(time.time() - row['since'])}[/]"
        parts = [f"{progress['done']}/{progress['total']} {progress['unit']}", progress["note"]]
        if progress["seconds_left"] is not None and progress["done"] < progress["total"]:
            left = max(0.0, progress["seconds_left"] - (time.time() - progress["time"]))
            parts.append(f"{duration(left)} left")
        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(1, progress["total"]), completed=progress["done"], width=24)
        line.add_row(escape(progress["task"]), bar, escape(", ".join(part for part in parts if part)))
        return line
