"""The nursery: a process that forks examiners. The judge starts it before the first item, and never shows it one.

The judge itself sees every item, and freed memory keeps what was in it: a fork of it would take that along, and a
hostile test reads whatever its process can. So examiners are forked here. This process is warm and single-threaded,
runs nothing foreign, and ends with the judge.
"""

import contextlib
import os
import signal
import socket
import struct
import sys
from typing import NoReturn

from sandbox import examiner, kernel
from sandbox.jail import FIRST_CHANNEL, Jail, Limits, clear_of_channels

BEAR, BURY = b"B", b"E"  # fork an examiner; end one
REQUEST = struct.Struct(">ci?")  # the operation; the pid to end; whether the new examiner is to last
BORN = struct.Struct(">i")  # its pid
BURIED = struct.Struct(">i")  # its wait status
LIFETIME_CPU_SECONDS = 300.0  # of an examiner
EXAMINER_FILES = 16


class Nursery:
    """The judge's end of it."""

    def __init__(self, memory_bytes: int, others: list[socket.socket], *, use_landlock: bool) -> None:
        """Fork it.

        Args:
            memory_bytes: address space of an examiner.
            others: the judge's sockets, which are none of its business.
            use_landlock: whether examiners are confined by it.
        """
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            for channel in (self._control, *others):
                channel.close()
            _serve(theirs, memory_bytes, use_landlock=use_landlock)
        theirs.close()

    def bear(self, control: socket.socket, records: int, *, lasting: bool) -> int:
        """Fork an examiner at these channels; its pid. Raises EOFError."""
        request = REQUEST.pack(BEAR, 0, lasting)
        socket.send_fds(self._control, [request], [control.fileno(), records])
        return int(BORN.unpack(self._receive(BORN.size))[0])

    def bury(self, pid: int) -> int:
        """Make sure that an examiner is dead; its wait status. Not to be called twice. Raises EOFError."""
        self._control.send(REQUEST.pack(BURY, pid, False))
        return int(BURIED.unpack(self._receive(BURIED.size))[0])

    def _receive(self, size: int) -> bytes:
        data = self._control.recv(size)
        if not data:
            raise EOFError("the nursery is gone")
        return data


def _serve(control: socket.socket, memory_bytes: int, *, use_landlock: bool) -> NoReturn:
    """The process, until the judge is gone."""
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        control = socket.socket(fileno=clear_of_channels(control.detach()))
        limits = Limits(memory_bytes, 0, EXAMINER_FILES)
        jail = Jail(limits, scratch=None, use_landlock=use_landlock, receives_descriptors=True)
        jail.allow_cpu(LIFETIME_CPU_SECONDS)
        while True:
            request, descriptors, _, _ = socket.recv_fds(control, REQUEST.size, 2)
            if not request:
                break
            operation, pid, lasting = REQUEST.unpack(request)
            if operation == BEAR:
                control.send(BORN.pack(_bear(jail, descriptors, lasting=lasting)))
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                control.send(BURIED.pack(os.waitpid(pid, 0)[1]))
    except Exception:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def _bear(jail: Jail, channels: list[int], *, lasting: bool) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            jail.enter(channels)
            examiner.serve(socket.socket(fileno=FIRST_CHANNEL), FIRST_CHANNEL + 1, lasting=lasting)
            os._exit(0)
        finally:
            os._exit(1)
    for descriptor in channels:
        os.close(descriptor)
    return pid
