"""Fixtures of the sandbox's tests: a client as thin as can be, so that what is tested is the service."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from typing import Any

import pytest

Judge = Callable[..., dict[str, Any]]


def post(
    url: str, body: Any, headers: dict[str, str] | None = None, *, path: str = "/v1/verdicts"
) -> tuple[int, Any, dict[str, str]]:
    """POST `body` as JSON (or as it is, when bytes) to `path`: status, decoded answer, headers (lower case)."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer), lower(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error), lower(error.headers)


def lower(headers: Message) -> dict[str, str]:
    """Headers by their names in lower case."""
    return {name.lower(): value for name, value in headers.items()}


def get(url: str) -> tuple[int, bytes]:
    """GET: status and body."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def make_item(program: str, tests: list[str], **changes: Any) -> dict[str, Any]:
    """One item of a request; entry_point f, no setup, 2 s, unless `changes` says otherwise."""
    return {
        "id": "item",
        "program": program,
        "entry_point": "f",
        "setup": "",
        "tests": tests,
        "timeout_s": 2.0,
    } | changes


@pytest.fixture
def judge(sandbox_url: str) -> Judge:
    """Judge one program at the session's sandbox."""

    def judge_one(program: str, tests: list[str], **changes: Any) -> dict[str, Any]:
        status, answer, _ = post(sandbox_url, {"items": [make_item(program, tests, **changes)]})
        assert status == 200, answer
        verdict: dict[str, Any] = answer["verdicts"][0]
        return verdict

    return judge_one


@pytest.fixture
def unused_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
