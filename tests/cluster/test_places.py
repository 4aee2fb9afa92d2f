"""What the tests on a cluster believe of a place that was tried, tried here without one."""

import json
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.cluster.pods import REACHES, TCP, TRIED, UDP, asked_of

HERE = "127.0.0.1"
PROGRAM: dict[str, Any] = {}
exec(TRIED, PROGRAM)
tried = PROGRAM["tried"]


def test_a_connection_counts_and_one_that_is_refused_does_not() -> None:
    with socket.create_server((HERE, 0)) as server:
        port = server.getsockname()[1]
        assert tried(HERE, port, TCP) == "reached"
    assert tried(HERE, port, TCP) == "connect: ECONNREFUSED"


def test_one_that_hangs_does_not() -> None:
    with socket.create_server((HERE, 0), backlog=0) as server, socket.create_connection(server.getsockname()):
        assert tried(HERE, server.getsockname()[1], TCP) == "connect: timed out"


def test_over_udp_an_answer_counts() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind((HERE, 0))
        port = server.getsockname()[1]

        def answer() -> None:
            question, who = server.recvfrom(512)
            server.sendto(question, who)

        thread = threading.Thread(target=answer)
        thread.start()
        assert tried(HERE, port, UDP) == "reached"
        thread.join()
        assert tried(HERE, port, UDP) == "answer: timed out"
    assert tried(HERE, port, UDP) == "answer: ECONNREFUSED"


@pytest.mark.parametrize("expected", [True, False, (True, False)])
@pytest.mark.slow
def test_what_is_held_back_is_told_from_what_is_not(expected: bool | tuple[bool, bool]) -> None:
    """Whatever was expected."""
    with socket.create_server((HERE, 0)) as server, socket.socket() as other:
        other.bind((HERE, 0))  # and does not listen
        places = [(HERE, server.getsockname()[1]), (*other.getsockname(), TCP)]
        command = [sys.executable, "-c", REACHES, asked_of(places, expected, seconds=3)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert json.loads(done.stdout) == [True, False]
