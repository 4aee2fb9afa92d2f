"""The jail: every limit that a process puts on itself after the fork and before it runs anything foreign.

Both kinds of untrusted code enter it: candidate programs and the tests of data sets. It needs no privilege, and works
the same for root without capabilities and for any other user. Threads are allowed (an honest program may use them,
and the address space bounds their number); processes are not, which the system call filter enforces: RLIMIT_NPROC
counts every process of the user, neighbours included, and would let one program's verdict depend on another's.
"""

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
FILE_BYTES = 1 << 20  # the largest file a program may write into its scratch directory


class Limits(NamedTuple):
    """What one jailed process may use: CPU time in seconds, address space in bytes, size of a file, open files."""

    cpu_seconds: float
    memory_bytes: int
    file_bytes: int
    open_files: int

    def without_cpu(self) -> list[tuple[int, int]]:
        """The limits but for CPU time, as the kernel knows them."""
        return [
            (resource.RLIMIT_AS, self.memory_bytes),
            (resource.RLIMIT_FSIZE, self.file_bytes),
            (resource.RLIMIT_NOFILE, self.open_files),
            (resource.RLIMIT_CORE, 0),
        ]


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

    def __init__(self, *, scratch: str | None, use_landlock: bool, receives_descriptors: bool) -> None:
        """Prepare it.

        Args:
            scratch: the one folder that may be written to, None for none.
            use_landlock: without it nothing can be written, and everything of this user's can be read.
            receives_descriptors: whether the process may be handed open descriptors.
        """
        may_write = use_landlock and scratch is not None
        self._filter = Filter(may_write=may_write, receives_descriptors=receives_descriptors)
        self._null = os.open(os.devnull, os.O_RDWR)
        self._inherited: list[tuple[int, int]] = []
        self._ruleset: int | None = None
        if use_landlock:
            readable = [*interpreter_paths(), *SYSTEM_LIBRARIES, *SYSTEM_FILES]
            rules = [(path, landlock.READ) for path in readable] + [(os.devnull, landlock.DEVICE)]
            if scratch is not None:
                rules.append((scratch, landlock.SCRATCH))
            self._ruleset = landlock.make_ruleset(rules)

    def limit_parent(self, limits: Limits) -> None:
        """Put on the calling process what `enter` need not put on its forks any more: all limits but CPU time."""
        for kind, value in limits.without_cpu():
            _lower(kind, value)
        self._inherited = limits.without_cpu()

    def enter(self, limits: Limits, descriptors: list[int]) -> None:
        """Shut this process in, for good. Raises OSError when any part fails: nothing foreign may run then.

        Args:
            limits: what it may use from now on.
            descriptors: what stays open, as 3, 4 and so on; standard input, output and error lead nowhere.
        """
        os.setsid()
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if self._ruleset is not None:
            landlock.restrict_self(self._ruleset)
        places = [self._null] * FIRST_CHANNEL + descriptors
        above = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, len(places)) for descriptor in places]
        for place, descriptor in enumerate(above):
            os.dup2(descriptor, place)
        os.closerange(len(places), 1 << 16)
        _lower(resource.RLIMIT_CPU, math.ceil(limits.cpu_seconds) + SPARE_CPU_SECONDS)
        if self._inherited != limits.without_cpu():
            for kind, value in limits.without_cpu():
                _lower(kind, value)
        self._filter.apply()


def _lower(kind: int, value: int) -> None:
    """Set soft and hard limit, or leave what is lower already (a limit cannot be raised without privilege)."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
