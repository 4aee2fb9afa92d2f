"""The few Linux calls that Python does not offer: prctl, capabilities, raw system calls, CPU clocks of others.

Everything is bound once, before any fork, so that a jailed child need not import or look up anything.
"""

import contextlib
import ctypes
import os
import time
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2
LINUX_CAPABILITY_VERSION_3 = 0x20080522
CAPABILITIES = 64  # more than any kernel knows; dropping an unknown one fails with EINVAL

MACHINE = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}.get(
    os.uname().machine.lower(), "unknown"
)

_libc = ctypes.CDLL(None, use_errno=True)
_libc_unlocked = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock: for calls that do not block
_libc.syscall.restype = ctypes.c_long
_prctl_arguments = [ctypes.c_int] + [ctypes.c_ulong] * 4
_libc.prctl.argtypes = _prctl_arguments


class PreparedCall:
    """A call of the C library whose arguments are laid out before a fork, to be made in the fork.

    A fork has to copy every page that it writes to, reference counts included: preparing costs it more than the call.
    """

    __slots__ = ("_arguments", "_function", "_text")

    def __init__(self, function: str, *arguments: Any) -> None:
        """arguments: small integers, None, and what ctypes.byref gives, whose object stays the caller's to keep."""
        self._function, self._arguments = getattr(_libc_unlocked, function), arguments
        self._text = f"{function}({arguments[0]})"

    def __call__(self) -> None:
        """Make it; raises OSError."""
        if self._function(*self._arguments) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"{self._text}: {os.strerror(error)}")


def prctl(option: int, second: int = 0, third: int = 0) -> None:
    """prctl(2); raises OSError."""
    if _libc.prctl(option, second, third, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")


def system_call(number: int, *arguments: object) -> int:
    """A raw system call by number; raises OSError when it fails."""
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"system call {number}: {os.strerror(error)}")
    return result


def current_core() -> int:
    """The core that this thread runs on (sched_getcpu(3))."""
    return int(_libc.sched_getcpu())


def drop_capabilities() -> None:
    """Empty every capability set of this process for good. Harmless for a process that has none."""
    for capability in range(CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # past the last one, or no CAP_SETPCAP: then no_new_privs keeps the bounding set from mattering
    with contextlib.suppress(OSError):  # a kernel without ambient capabilities has nothing to clear
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(LINUX_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if _libc.capset(header, nothing) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"capset: {os.strerror(error)}")


def cpu_seconds(pid: int) -> float | None:
    """CPU time of another process so far, all its threads, in seconds; None once it is gone.

    The clock id of a process is made from its pid: (~pid << 3) | CPUCLOCK_SCHED (clock_getcpuclockid(3)).
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None


def threads(pid: int) -> int:
    """Number of threads of another process; 0 once it is gone."""
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - 2
    except OSError:
        return 0
