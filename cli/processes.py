"""Child processes that never outlive the command line: after Ctrl-C, a failure, or a kill -9 of the parent.

Each runs in a session of its own, so that a Ctrl-C on the terminal reaches the parent alone, which then stops the whole
group in order. The kernel sends SIGTERM to the child should the parent die without having done so.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from types import TracebackType

STOPPED = 130  # the exit code of what Ctrl-C ends
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
SECONDS_TO_STOP = 5.0
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def end_quietly() -> None:
    """Have a Ctrl-C that nobody else answers, such as one while modules are loaded, end this process in one word."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        print("\nStopped.", file=sys.stderr, flush=True)
        os._exit(STOPPED)

    sys.excepthook = hook


def tie_to_parent(parent: int) -> Callable[[], None]:
    """What a child calls first; `parent` is the process id it must not outlive."""

    def tie() -> None:
        if os.getsid(0) != os.getpid():
            os.setsid()
        _prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return tie


def stop_group(leader: int, ended: Callable[[], bool]) -> None:
    """End a child's whole process group: SIGTERM, and SIGKILL for what is left after five seconds."""
    _signal_group(leader, signal.SIGTERM, ended)
    deadline = time.monotonic() + SECONDS_TO_STOP
    while not ended() and time.monotonic() < deadline:
        time.sleep(0.05)
    _signal_group(leader, signal.SIGKILL, ended)
    while not ended():
        time.sleep(0.05)


def _signal_group(leader: int, number: int, ended: Callable[[], bool]) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        if not ended():  # it has not come to setsid() yet
            os.kill(leader, number)
