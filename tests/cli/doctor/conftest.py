"""What several tests of the doctor use."""

import socket

import pytest


@pytest.fixture
def free_port() -> int:
    """A loopback port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
