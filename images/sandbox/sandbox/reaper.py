"""Ended processes that nobody waits for.

When a judge or a zygote is lost, its jailed forks die with it and fall to the nearest ancestor that adopts: the service
makes itself that (as PID 1 of a container it is anyway), and reaps them here.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable

from sandbox import kernel

log = logging.getLogger("sandbox")

PAUSE_SECONDS = 0.2  # after a loss, for the orphans to end
LOOKS = 10
REAPING_SECONDS = 0.1  # a child that has just ended is a zombie until its parent looks


class Reaper:
    """A thread that reaps orphans for a while after every loss, and sleeps otherwise."""

    def __init__(self, own: Callable[[], list[int]]) -> None:
        """own: processes that somebody else waits for."""
        self._own = own
        self._losses = threading.Semaphore(0)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reaper", daemon=True)

    def start(self) -> None:
        """Adopt orphans from now on."""
        try:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        except OSError as error:  # gVisor; there the service is PID 1 of its container as a rule
            log.info("orphans go to PID 1: %s", error.strerror)
        self._thread.start()

    def wake(self) -> None:
        """A process with children has been lost."""
        self._losses.release()

    def stop(self) -> None:
        """Reap nothing more: a child of this process that ends later is somebody else's to wait for."""
        self._stopping.set()
        self._losses.release()
        if self._thread.ident is not None:  # it was started
            self._thread.join()

    def _run(self) -> None:
        while self._losses.acquire():
            for _ in range(LOOKS):
                if self._stopping.wait(PAUSE_SECONDS):
                    return
                for pid in find_zombies([os.getpid()]) - set(self._own()):
                    # A worker's own process may be among them: subprocess, which waits for it, copes with either order.
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)


def lasting_zombies(parents: list[int]) -> int:
    """How many children of these processes have ended, are not reaped, and stay so."""
    found = find_zombies(parents)
    if found:
        time.sleep(REAPING_SECONDS)
        found &= find_zombies(parents)
    return len(found)


def find_zombies(parents: list[int]) -> set[int]:
    """Pids of the children of these processes that have ended and are not reaped."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                state, parent = stat.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue  # gone meanwhile
        if state == b"Z" and int(parent) in parents:
            found.add(int(name))
    return found
