"""An answer leaves as soon as it is there."""

import socket

from sandbox.__main__ import listen


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """Without the option, the second packet of an answer waits up to 40 ms for the client to acknowledge the first."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
