"""The jail: every limit that a process puts on itself after the fork and before it runs anything foreign.

Both kinds of untrusted code enter it: candidate programs and the tests of data sets. It needs no privilege, and works
the same for root without capabilities and for any other user. Threads are allowed (an honest program may use them,
and their number is watched from outside); processes are not, which the system call filter enforces: RLIMIT_NPROC
counts every process of the user, neighbours included, and would let one program's verdict depend on another's.
"""

import ctypes
import fcntl
import math
import os
import resource
import signal
import stat
import sys
from typing import NamedTuple

from sandbox import kernel, landlock
from sandbox.seccomp import Filter

NOBODY = 65534
SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
SYSTEM_FILES = ("/usr/share/zoneinfo", "/etc/localtime", "/etc/ld.so.cache", "/dev/urandom", "/dev/zero")
SPARE_CPU_SECONDS = 2  # the kernel's own limit is a backstop behind the supervisor's
FIRST_CHANNEL = 3  # the descriptor after standard input, output and error
CLEAR_OF_CHANNELS = 8  # the first descriptor that parents keep for themselves
FILE_BYTES = 1 << 20  # the largest file a program may write into its scratch directory


class Limits(NamedTuple):
    """What one jailed process may use, CPU time aside: address space in bytes, size of a file, open files."""

    memory_bytes: int
    file_bytes: int
    open_files: int


def interpreter_paths() -> list[str]:
    """Where the running interpreter finds its standard library and shared objects.

    sys.path must hold the standard library and nothing else (a process started with -S, see `warm`).
    """
    library = os.path.dirname(os.path.dirname(os.__file__))  # <prefix>/lib, which also holds libpython and its kin
    return list(dict.fromkeys([library, *filter(os.path.exists, sys.path)]))


def readable_by_anyone(path: str) -> bool:
    """Whether a user with no rights of its own can read below `path`: every folder on the way is open to others."""
    while True:
        mode = os.stat(path).st_mode
        wanted = stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
        if not mode & wanted:
            return False
        parent = os.path.dirname(path)
        if parent == path:
            return True
        path = parent


def give_up_privileges() -> None:
    """For a warm parent, once: no capabilities, no way to new ones, unreadable to others, nobody's uid if it can.

    Root keeps its uid when the interpreter lies where nobody could read it (under a 0700 home, say).
    """
    becomes_nobody = os.geteuid() == 0 and all(readable_by_anyone(path) for path in interpreter_paths())
    if becomes_nobody:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        except PermissionError:
            pass  # root without CAP_SETUID: stays uid 0, which means nothing without capabilities
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # no process without capabilities can look into this one's memory


class Jail:
    """A jail prepared before the fork; `enter` is what the forked process calls."""

    def __init__(self, limits: Limits, *, scratch: str | None, use_landlock: bool, receives_descriptors: bool) -> None:
        """Prepare it, and put on the calling process what its forks need not put on any more: all limits but CPU time.

        Args:
            limits: what every process in it may use.
            scratch: the one folder that may be written to, None for none.
            use_landlock: without it nothing can be written, and everything of this user's can be read.
            receives_descriptors: whether the process may be handed open descriptors.
        """
        may_write = use_landlock and scratch is not None
        self._null = clear_of_channels(os.open(os.devnull, os.O_RDWR))
        self._cpu_limit = (ctypes.c_ulong * 2)()  # soft and hard, in seconds
        filter_ = Filter(may_write=may_write, receives_descriptors=receives_descriptors)
        self._first = [kernel.PreparedCall("prctl", kernel.PR_SET_PDEATHSIG, int(signal.SIGKILL))]
        if use_landlock:
            readable = [*interpreter_paths(), *SYSTEM_LIBRARIES, *SYSTEM_FILES]
            rules = [(path, landlock.READ) for path in readable] + [(os.devnull, landlock.DEVICE)]
            if scratch is not None:
                rules.append((scratch, landlock.SCRATCH))
            self._first.append(landlock.restriction(clear_of_channels(landlock.make_ruleset(rules))))
        limit_cpu = kernel.PreparedCall("prlimit", 0, int(resource.RLIMIT_CPU), ctypes.byref(self._cpu_limit), None)
        self._last = [limit_cpu, filter_.apply]
        self._filter = filter_  # its memory
        self._hard_cpu_limit = resource.getrlimit(resource.RLIMIT_CPU)[1]
        _lower(resource.RLIMIT_AS, limits.memory_bytes)
        _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
        _lower(resource.RLIMIT_NOFILE, limits.open_files)
        _lower(resource.RLIMIT_CORE, 0)

    def allow_cpu(self, seconds: float) -> None:
        """Before a fork: what it may use of CPU time once it enters."""
        allowed = _within(math.ceil(seconds) + SPARE_CPU_SECONDS, self._hard_cpu_limit)
        self._cpu_limit[:] = [allowed, allowed]

    def enter(self, channels: list[int]) -> None:
        """Shut this process in, for good. Raises OSError when any part fails: nothing foreign may run then.

        channels: descriptors that stay open, as 3, 4 and so on; standard input, output and error lead nowhere.
        """
        os.setsid()
        for call in self._first:
            call()
        for place in range(FIRST_CHANNEL):
            os.dup2(self._null, place)
        end = FIRST_CHANNEL + len(channels)
        if channels != [*range(FIRST_CHANNEL, end)]:
            above = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, end) for descriptor in channels]
            for place, descriptor in enumerate(above, FIRST_CHANNEL):
                os.dup2(descriptor, place)
        os.closerange(end, 1 << 16)
        for call in self._last:
            call()


def clear_of_channels(descriptor: int) -> int:
    """A descriptor moved out of the way of those that forks are handed, which then arrive where they belong."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, CLEAR_OF_CHANNELS)
    os.close(descriptor)
    return moved


def _lower(kind: int, value: int) -> None:
    """Set soft and hard limit, or leave what is lower already (a limit cannot be raised without privilege)."""
    value = _within(value, resource.getrlimit(kind)[1])
    resource.setrlimit(kind, (value, value))


def _within(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)
