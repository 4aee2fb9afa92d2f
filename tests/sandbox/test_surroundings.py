"""What must not be reached: nothing is judged while it can be, and everything is again once it cannot."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sandbox import surroundings

from tests.sandbox.test_self_test import MEMORY, Settings, judge_one, service


@pytest.fixture
def listener() -> socket.socket:
    """Something that answers on a loopback port."""
    return socket.create_server(("127.0.0.1", 0))


def address(listener: socket.socket) -> tuple[str, int]:
    host, port = listener.getsockname()
    return host, port


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_what_can_be_reached_is_named_until_it_cannot(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "OPEN_SECONDS", 0.02)
    monkeypatch.setattr(surroundings, "CLOSED_SECONDS", 0.02)
    place = address(listener)
    watch = surroundings.Surroundings((place,))
    assert watch.reason == "it has not been tried yet what can be reached from here"
    watch.start()
    try:
        assert eventually(lambda: f"port {place[1]} can be reached from here" in str(watch.reason))
        listener.close()
        assert eventually(lambda: watch.reason is None)
        with socket.create_server(place):
            assert eventually(lambda: watch.reason is not None)
    finally:
        watch.stop()


def test_a_service_without_such_addresses_does_not_try() -> None:
    watch = surroundings.Surroundings(())
    watch.start()
    assert watch.reason is None


def test_nothing_is_judged_while_it_can_be_reached(listener: socket.socket, tmp_path: Path) -> None:
    running = service.Service(
        service.Configuration(
            settings=Settings(MEMORY, True, str(tmp_path)),
            workers=1,
            capacity=256,
            token=None,
            runtime="bare",
            optional_layers=frozenset(),
            canary_seconds=60.0,
            log_programs=False,
            must_not_reach=(address(listener),),
        )
    )
    try:
        running.start()
        assert eventually(lambda: "can be reached from here" in str(running.readiness().reason))
        assert not running.readiness().ready
        refusal = judge_one(running)
        assert refusal.status_code == 503
        assert "no network policy holds this pod" in refusal.detail
        listener.close()
        assert eventually(lambda: running.readiness().ready)
    finally:
        running.stop()


def self_test(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sandbox", "--self-test", "--workers", "1", "--runtime", "bare", *options]
    folder = Path(surroundings.__file__).parent.parent
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_the_self_test_tries_it_too(listener: socket.socket) -> None:
    done = self_test("--must-not-reach", ":".join(map(str, address(listener))))
    assert done.returncode == 1
    assert "can be reached from here" in json.loads(done.stdout)["reason"]
    listener.close()


@pytest.mark.parametrize("text", ["nowhere", ":80", "host:", "host:0", "host:65536", "host:http", "[]:1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    done = self_test("--must-not-reach", text)
    assert done.returncode == 2
    assert text in done.stderr


def test_addresses_of_both_kinds_are_understood() -> None:
    assert surroundings.parse_address("10.96.0.1:443") == ("10.96.0.1", 443)
    assert surroundings.parse_address("[fd00::1]:443") == ("fd00::1", 443)
