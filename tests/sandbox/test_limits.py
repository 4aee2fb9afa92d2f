"""What a request may ask: every limit is refused with a sentence that names it. And what the log tells of requests."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from sandbox import models
from sandbox.service import MAX_BODY_BYTES

from tests.sandbox.conftest import make_item, post
from tests.sandbox.running import FOLDER, run

SQUARE = "def f(n):\n    return n * n\n"
TEST = ["assert f(3) == 9"]

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no items": ({"items": []}, "items: List should have at least 1 item"),
    "too many items": (
        {"items": [make_item(SQUARE, TEST, id=str(index)) for index in range(models.MAX_ITEMS + 1)]},
        "items: List should have at most 256 items",
    ),
    "ids twice": ({"items": [make_item(SQUARE, TEST)] * 2}, "ids must be unique: 'item' occurs 2 times"),
    "a long id": ({"items": [make_item(SQUARE, TEST, id="x" * 201)]}, "items.0.id: String should have at most 200"),
    "no tests": ({"items": [make_item(SQUARE, [])]}, "items.0.tests: List should have at least 1 item"),
    "too many tests": ({"items": [make_item(SQUARE, TEST * 1001)]}, "items.0.tests: List should have at most 1000"),
    "a long test": (
        {"items": [make_item(SQUARE, ["#" * (models.MAX_SOURCE + 1)])]},
        "items.0.tests.0: String should have at most 262144 characters",
    ),
    "a long setup": (
        {"items": [make_item(SQUARE, TEST, setup="#" * (models.MAX_SOURCE + 1))]},
        "items.0.setup: String should have at most 262144 characters",
    ),
    "a long entry point": (
        {"items": [make_item(SQUARE, TEST, entry_point="f" * 201)]},
        "items.0.entry_point: String should have at most 200",
    ),
    "no name": ({"items": [make_item(SQUARE, TEST, entry_point="f()")]}, "entry_point 'f()' is no Python name"),
    "no time": ({"items": [make_item(SQUARE, TEST, timeout_s=0)]}, "items.0.timeout_s: Input should be greater than 0"),
    "too much time": (
        {"items": [make_item(SQUARE, TEST, timeout_s=61)]},
        "items.0.timeout_s: Input should be less than or equal to 60",
    ),
    "time that is no number": ({"items": [make_item(SQUARE, TEST, timeout_s=float("nan"))]}, "items.0.timeout_s"),
    "an unknown field": ({"items": [make_item(SQUARE, TEST, language="c")]}, "items.0.language: Extra inputs"),
    "no object": ([], "Input should be a valid dictionary"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_beyond_a_limit_is_refused_by_its_name(sandbox_url: str, name: str) -> None:
    body, sentence = REFUSED[name]
    status, answer, _ = post(sandbox_url, body)
    assert status == 422
    assert sentence in answer["detail"]
    assert answer["detail"].endswith(".")


def test_no_json_is_refused(sandbox_url: str) -> None:
    for body in (b"", b"{", b"\xff\xfe", b"[" * 100_000):
        status, answer, _ = post(sandbox_url, body)
        assert status in (400, 422)
        assert answer["detail"]


def test_a_name_for_a_client_that_is_none_is_refused(sandbox_url: str) -> None:
    for name in ("x" * 101, "two words"):
        status, answer, _ = post(sandbox_url, {"items": [make_item(SQUARE, TEST)]}, {"X-Client-Id": name})
        assert status == 422
        assert "x-client-id" in answer["detail"]


@pytest.mark.parametrize(
    ("header", "status", "word"),
    [
        (f"Content-Length: {MAX_BODY_BYTES + 1}", 413, str(MAX_BODY_BYTES)),
        ("Transfer-Encoding: chunked", 411, "Content-Length"),
    ],
    ids=["too large", "of no known length"],
)
def test_a_body_is_refused_before_it_is_sent(sandbox_url: str, header: str, status: int, word: str) -> None:
    host, port = sandbox_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(f"POST /v1/verdicts HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"}"):
            part = connection.recv(1 << 16)
            assert part, answer
            answer += part
    assert f" {status} " in answer.decode().splitlines()[0]
    assert word in answer.decode()


@pytest.fixture
def logged() -> Iterator[Any]:
    """Start a service with options, judge some programs, end it: its log, line by line."""
    processes = []

    def log_of(*options: str, programs: list[str]) -> list[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "sandbox", "--port", "0", "--workers", "1", *options],
            cwd=FOLDER,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        items = [make_item(program, TEST, id=str(index)) for index, program in enumerate(programs)]
        assert post(url, {"items": items}, {"X-Client-Id": "me"})[0] == 200
        assert post(url, {"items": [make_item("# secret", TEST, entry_point="no name")]})[0] == 422
        process.terminate()
        return process.communicate(timeout=30)[1].splitlines()

    yield log_of
    for process in processes:
        process.kill()
        process.wait()


def test_the_log_is_json_and_holds_no_programs(logged: Any) -> None:
    lines = [
        json.loads(line) for line in logged("--log-format", "json", programs=["raise ValueError('secret')", SQUARE])
    ]
    assert all({"time", "level", "logger", "event"} <= set(line) for line in lines)
    (line,) = [line for line in lines if line["event"] == "verdicts"]
    assert line["client"] == "127.0.0.1 me"
    assert (line["status"], line["items"]) == (200, 2)
    assert line["outcomes"] == {"error": 1, "passed": 1}
    assert 0 < line["seconds"] < 30
    layers = [line["layer"] for line in lines if line["event"] == "self-test"]
    assert "network" in layers
    assert "secret" not in json.dumps(lines)


def test_the_log_holds_programs_when_asked(logged: Any) -> None:
    lines = logged("--log-programs", "--log-format", "json", programs=[SQUARE + "# \ud800\n# one\n# two"])
    (line,) = [line for line in map(json.loads, lines) if line["event"] == "verdict"]
    assert line["program"].startswith(SQUARE)
    assert line["tests"] == TEST
    assert line["verdict"]["outcome"] == "rejected"


def test_the_log_in_text_is_one_line_an_event(logged: Any) -> None:
    lines = logged("--log-programs", programs=[SQUARE])
    assert all(" sandbox: " in line for line in lines), lines
    (line,) = [line for line in lines if " sandbox: verdicts " in line]
    assert 'client="127.0.0.1 me"' in line


def test_a_taken_port_for_metrics_is_one_sentence(sandbox_url: str) -> None:
    ending = run("--port", "0", "--metrics-port", sandbox_url.rsplit(":", 1)[1])
    assert ending.returncode == 2
    assert "cannot serve metrics" in ending.stderr
    assert "Traceback" not in ending.stderr
