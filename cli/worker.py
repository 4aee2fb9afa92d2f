"""kfp's local runner in a process of its own, whose output goes to a log file.

kfp prints its dumps and the steps' output to stdout and stderr; here both are the log. What kfp says about its tasks
(started, done, reused, failed) is turned into events in the file that the steps write their progress to.
"""

import contextlib
import json
import logging
import multiprocessing
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.processes import stop_group, tie_to_parent
from components.shared.progress import PROGRESS_FILE

COLOUR = re.compile(r"\033\[\d+m")
# kfp's words for a task's state; the cache key is cut to twelve digits by kfp itself.
SAID = (
    ("running", re.compile(r"Executing task '(?P<task>[\w-]+)'")),
    ("done", re.compile(r"Task '(?P<task>[\w-]+)' finished with status SUCCESS")),
    ("failed", re.compile(r"Task '(?P<task>[\w-]+)' finished with status FAILURE")),
    ("reused", re.compile(r"Task (?P<task>[\w-]+) cache hit \(key=(?P<key>\w+)\)")),
)
STEP_OF_TASK = {"filter-learnable": "filter"}


@dataclass(frozen=True)
class Job:
    """A pipeline with its arguments, the folder for its artifacts, kfp's cache, the log, and the steps' environment."""

    pipeline: Any
    arguments: dict[str, Any]
    artifacts: Path
    cache: Path
    log: Path
    environment: dict[str, str]


@contextlib.contextmanager
def started(job: Job) -> Iterator[Any]:
    """Run the job in a forked process (kfp takes a second to import); on leaving, nothing of it is left running."""
    process = multiprocessing.get_context("fork").Process(target=_work, args=(job, os.getpid()), daemon=True)
    process.start()
    try:
        yield process
    finally:
        assert process.pid is not None
        stop_group(process.pid, lambda: not process.is_alive())


def step_name(task: str) -> str:
    """The step that a kfp task belongs to; kfp numbers the tasks of a step that occurs in two branches."""
    name = re.sub(r"-\d+$", "", task)
    return STEP_OF_TASK.get(name, name)


def _work(job: Job, parent: int) -> None:
    tie_to_parent(parent)()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end_group)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _redirect(job.log)
    os.environ.update(job.environment)
    try:
        _run(job)
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _end_group(number: int, frame: object) -> None:
    """Take the running step along: kfp starts it without a tie to its parent."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    time.sleep(1)
    os.killpg(0, signal.SIGKILL)


def _redirect(log: Path) -> None:
    """Send stdout and stderr to the log at the level of file descriptors, and read nothing from the terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    nothing, target = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(nothing, 0)
    os.dup2(target, 1)
    os.dup2(target, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", errors="replace")
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="replace")


def _run(job: Job) -> None:
    from kfp import local

    root = logging.getLogger()
    root.setLevel(logging.INFO)  # kfp tells of a cache hit at this level, outside of its own logging context
    root.addFilter(_StepStates(Path(job.environment[PROGRESS_FILE])))
    local.init(
        runner=local.SubprocessRunner(use_venv=False),
        pipeline_root=str(job.artifacts),
        enable_caching=True,
        cache_root=str(job.cache),
    )
    job.pipeline(**job.arguments)


class _StepStates(logging.Filter):
    """Writes an event for each state of a task that kfp logs; lets every record through."""

    def __init__(self, events: Path) -> None:
        super().__init__()
        self.events = events

    def filter(self, record: logging.LogRecord) -> bool:
        text = COLOUR.sub("", record.getMessage())
        for state, pattern in SAID:
            said = pattern.match(text)
            if said:
                event = {"time": time.time(), "step": step_name(said["task"]), "state": state}
                if state == "reused":
                    event["key"] = said["key"]
                with self.events.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(event) + "\n")
        return True
