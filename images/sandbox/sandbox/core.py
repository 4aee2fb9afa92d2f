"""Keeping the processes of one worker on one core while they hand an item round, and letting them go when one works.

Judge, zygote, examiner and program take turns: at most one has something to do. Left to itself the scheduler spreads
them over idle cores, and waking a core costs more than a turn does. So they follow the judge to the core it runs on.
Who computes longer than a tick is set free, lest it wait for a core that somebody else needs while another is idle.
"""

import contextlib
import os
import time

from sandbox import kernel

STAY_SECONDS = 0.05  # how long the judge itself stays where it is before the scheduler may move it


class Core:
    """Where the processes of one worker are. Affinity is a matter of speed alone: what cannot be set is left."""

    def __init__(self) -> None:
        self._all = os.sched_getaffinity(0)
        self._core: int | None = None  # None: the judge is free
        self._until = 0.0
        self._gathered: set[int] = set()

    def gather(self, pids: list[int]) -> None:
        """Before an item: bring these processes, and what they fork, to the judge's core."""
        if self._core is None:
            core = kernel.current_core()
            self._set(os.getpid(), {core})
            self._core, self._until, self._gathered = core, time.monotonic() + STAY_SECONDS, set()
        for pid in pids:
            if pid not in self._gathered:
                self._set(pid, {self._core})
                self._gathered.add(pid)

    def free(self, pids: list[int]) -> None:
        """Let these processes run anywhere again."""
        for pid in pids:
            self._set(pid, self._all)
            self._gathered.discard(pid)

    def rest(self) -> None:
        """After an item: from time to time, give the judge free, so that the scheduler may find it a better core."""
        if self._core is not None and time.monotonic() > self._until:
            self._set(os.getpid(), self._all)
            self._core = None

    def _set(self, pid: int, cores: set[int]) -> None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(pid, cores)
