"""What a program sends, as the examiner reads it: most replies quietly, the one that is waited for aloud.

Whoever waits at a socket is woken by every message, and being woken costs more than a reply does. So the program
writes a reply into a pipe, where nobody waits, while it has further requests at hand, and into the socket when it is
about to wait itself. What is in the pipe came first. Should the program be long about the next request, the pipe is
looked into meanwhile: a test whose reply is there has its outcome, whatever becomes of the calls after it.
"""

import os
import select
import socket
from typing import Any

from sandbox import wire

LOOK_MILLISECONDS = 20


class Replies:
    """The examiner's ends of one program's socket and pipe."""

    def __init__(self, connection: socket.socket, quiet: int) -> None:
        """quiet: the pipe's descriptor, which stays the caller's."""
        os.set_blocking(quiet, False)
        self._quiet = quiet
        self._quiet_ended = False
        self._written = wire.Messages(limit=wire.MAX_MESSAGE_BYTES)
        self._connection = connection
        self._said = wire.Reader(connection, limit=wire.MAX_MESSAGE_BYTES)

    def read(self, *, expected: bool = True) -> Any:
        """The next reply. Raises EOFError when the program is gone, wire.WireError, OSError.

        expected: whether it may come through the pipe; a reply to a single request does not.
        """
        if not expected:
            return self._said.read()
        while not self._look():
            if self._await():
                # Aloud, hence after all that was written.
                if self._look():
                    break
                if self._written.begun:
                    raise wire.WireError("a reply broken off")
                return self._said.read()
        return self._written.take()

    def _look(self) -> bool:
        """Whether the pipe has given a whole reply."""
        while not (self._written.ready or self._quiet_ended):
            try:
                data = os.read(self._quiet, wire.CHUNK)
            except BlockingIOError:
                return False
            self._quiet_ended = not data
            self._written.feed(data)
        return self._written.ready

    def _await(self) -> bool:
        """Wait for the socket, and after a while for the pipe as well; whether the socket has something."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        if poll.poll(LOOK_MILLISECONDS):
            return True
        if not self._quiet_ended:
            poll.register(self._quiet, select.POLLIN)
        return self._connection.fileno() in [descriptor for descriptor, _ in poll.poll()]
