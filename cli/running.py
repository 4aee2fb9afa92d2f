"""One local run under way: its files, its lock, its signals, and the loop that shows what the worker reports."""

import contextlib
import fcntl
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cli.display import Display, Event, Events
from cli.worker import Job, started
from components.shared.errors import UserError

POLL_SECONDS = 0.1
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class RunFiles:
    """Where a local run keeps what is no result, below the store's directory (./out for a store in a bucket)."""

    root: Path
    run_id: str

    @property
    def folder(self) -> Path:
        """kfp's artifacts of this run, and what the steps report to the runner."""
        return self.root / "kfp" / self.run_id

    @property
    def shared_cache(self) -> Path:
        """What all runs have finished, for kfp's cache."""
        return self.root / "kfp" / "cache"

    @property
    def own_cache(self) -> Path:
        return self.folder / "cache"

    @property
    def failure(self) -> Path:
        return self.folder / "failure.json"

    @property
    def progress(self) -> Path:
        return self.folder / "progress.jsonl"

    @property
    def log(self) -> Path:
        return self.root / "runs" / self.run_id / "log.txt"

    @property
    def sandbox_log(self) -> Path:
        return self.log.with_name("sandbox.txt")

    def prepare(self) -> None:
        """Make the folders; UserError when the store cannot be written."""
        try:
            for folder in (self.folder, self.log.parent):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"The store at {self.root} cannot be written ({error.strerror}): "
                "set GRPO_STORE to a directory that can."
            ) from None


@contextlib.contextmanager
def held(files: RunFiles) -> Iterator[None]:
    """Hold the run for this process (a lock on its log), with nothing left of an earlier attempt's reports."""
    with files.log.open("ab") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"Run {files.run_id} is at work in another process: wait for it, or use another id."
            ) from None
        files.failure.unlink(missing_ok=True)
        files.progress.unlink(missing_ok=True)
        yield


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """Make SIGTERM and a closed terminal end the run as Ctrl-C does; from then on to the exit nothing interrupts."""
    stopping = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal stopping
        stopping = True
        for each in STOPPING:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in STOPPING}
    try:
        yield
    finally:
        if not stopping:
            for number, handler in before.items():
                signal.signal(number, handler)


@dataclass(frozen=True)
class Outcome:
    """How the worker ended, and the last state that each step had."""

    exit_code: int
    states: dict[str, Event]


def follow(job: Job, files: RunFiles, display: Display) -> Outcome:
    """Run the job to its end and show its events; an exception on the way stops the job with all it started."""
    events, states = Events(files.progress), {}

    def show_new() -> None:
        for event in events.new():
            if "state" in event:
                states[event["step"]] = event
            display.show(event)

    with started(job) as worker, display:
        while worker.is_alive():
            worker.join(POLL_SECONDS)
            show_new()
        show_new()
        return Outcome(worker.exitcode, states)
