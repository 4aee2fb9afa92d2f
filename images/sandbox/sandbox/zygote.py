"""The zygote: a warm, single-threaded process that forks one jailed child for each candidate program.

It never sees a test. Its judge sends it one end of a socket; the child it forks has that socket, an empty scratch
folder and nothing else. When the judge is done the zygote makes sure the child has ended, reports how, and empties
the folder.
"""

import _signal  # type: ignore[import-not-found]  # for a fork: `signal` looks for enumeration members, in much memory
import contextlib
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Iterator
from typing import NoReturn

from sandbox import kernel, landlock, program, warm, wire
from sandbox.jail import FILE_BYTES, FIRST_CHANNEL, Jail, Limits
from sandbox.verdict import MAX_SCRATCH_FILES, MAX_THREADS

# Modules that many programs import and that cost little to carry through every fork.
import bisect, cmath, collections, functools, heapq, itertools, operator, re, string  # noqa: E401, F401  isort: skip

SPAWN, FINISH, END = b"S", b"F", b"E"  # fork one; end it and tell how it ended; end it
REQUEST = struct.Struct(">cd")  # the operation; CPU seconds to allow, or seconds to wait for the child's own end
HELLO = struct.Struct(">ii")  # the kernel's Landlock ABI, the zygote's pid
SPAWNED = struct.Struct(">i")  # the child's pid
# Whether by itself, wait status, CPU seconds, largest resident memory in bytes, whether the scratch folder overflowed.
ENDING = struct.Struct(">?idq?")
OPEN_FILES = 64
LOOK_SECONDS = 0.02  # how often a running child's threads and scratch folder are looked at


class Zygote:
    """Forks, watches and ends one child at a time."""

    def __init__(self, control: socket.socket, *, scratch: str, memory_bytes: int, use_landlock: bool) -> None:
        self._control = control
        self._scratch = scratch
        limits = Limits(memory_bytes, FILE_BYTES, OPEN_FILES)
        self._jail = Jail(limits, scratch=scratch, use_landlock=use_landlock, receives_descriptors=False)
        self._program = program.Program()  # every fork has its own
        self._child: int | None = None
        self._overflowed = False

    def serve(self) -> None:
        """Do what the judge asks until it closes the control socket."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            if self._child is not None and not poll.poll(LOOK_SECONDS * 1000):
                self._look_at_child()
                continue
            request, descriptors, _, _ = socket.recv_fds(self._control, REQUEST.size, 2)
            if not request:
                return
            operation, seconds = REQUEST.unpack(request)
            if operation == SPAWN:
                self._spawn(descriptors, seconds)
            elif operation == FINISH:
                self._control.send(self._finish(seconds))
            else:
                self._finish(0.0)

    def stop(self) -> None:
        """End the child, if any, and remove the scratch folder."""
        if self._child is not None:
            self._kill()
            os.waitpid(self._child, 0)
        self._empty_scratch()
        os.rmdir(self._scratch)

    def _spawn(self, descriptors: list[int], cpu_seconds: float) -> None:
        self._jail.allow_cpu(cpu_seconds)
        child = os.fork()
        if child == 0:
            self._become_child(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._child, self._overflowed = child, False
        self._control.send(SPAWNED.pack(child))

    def _become_child(self, descriptors: list[int]) -> NoReturn:
        try:
            _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
            try:
                self._jail.enter(descriptors)
            except OSError as error:
                os.write(descriptors[1], wire.frame(f"no jail: {error}", limit=wire.MAX_MESSAGE_BYTES))
            else:
                program.serve(FIRST_CHANNEL, FIRST_CHANNEL + 1, self._program)
        finally:
            os._exit(0)

    def _finish(self, patience: float) -> bytes:
        """End the child; how it ended: by itself, at the latest within `patience` seconds, or killed."""
        assert self._child is not None
        deadline = time.monotonic() + patience
        pid, status, usage = os.wait4(self._child, os.WNOHANG)
        while pid == 0 and time.monotonic() < deadline:
            time.sleep(0.001)
            pid, status, usage = os.wait4(self._child, os.WNOHANG)
        by_itself = pid != 0
        if not by_itself:
            self._kill()
            _, status, usage = os.wait4(self._child, 0)
        self._child = None
        self._empty_scratch()
        cpu_seconds = usage.ru_utime + usage.ru_stime
        memory = usage.ru_maxrss << 10
        return ENDING.pack(by_itself, status, cpu_seconds, memory, self._overflowed)

    def _kill(self) -> None:
        assert self._child is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)  # it may not have reached its own session yet

    def _look_at_child(self) -> None:
        assert self._child is not None
        files = sum(1 for _ in self._scratch_entries())
        if files > MAX_SCRATCH_FILES or kernel.threads(self._child) > MAX_THREADS:
            self._overflowed = True
            self._kill()

    def _scratch_entries(self) -> Iterator[os.DirEntry[str]]:
        with os.scandir(self._scratch) as entries:
            yield from entries

    def _empty_scratch(self) -> None:
        for entry in self._scratch_entries():
            os.unlink(entry.path)  # only plain files can be made in it


def main() -> None:
    """The process: settings are scratch (its path), memory_bytes and use_landlock; one socket, to the judge."""
    settings, (control,) = warm.arrive()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends when its judge does, and not before it has cleaned up
    os.mkdir(settings["scratch"], 0o700)
    os.chdir(settings["scratch"])
    program.restore_site_builtins()
    program.rehearse()
    zygote = Zygote(control, **settings)
    warm.settle()
    try:
        control.send(HELLO.pack(landlock.abi(), os.getpid()))
        with contextlib.suppress(ConnectionError):  # the judge ended in the middle of a request
            zygote.serve()
    finally:
        zygote.stop()
