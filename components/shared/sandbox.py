"""The client of the sandbox service: programs in, verdicts out, or what they return.

It splits a batch, spreads it over all replicas, retries what was refused or lost, and never invents a verdict:
what could not be judged comes back as `infra` with `passed` None, and is nobody's wrong answer.
"""

import concurrent.futures
import itertools
import json
import math
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import urllib3
from pydantic import BaseModel, ConfigDict, ValidationError

from components.shared.errors import InfraError
from components.shared.progress import SECONDS_BETWEEN_LINES, duration, say
from components.shared.replicas import Replicas

ITEMS_PER_REQUEST = 16  # at most: what is judged again where a replica is lost
QUIET_SECONDS = 2.0  # a replica that restarts or a full queue is nothing to talk about
RETRY_SECONDS = 120.0  # how long one request is tried again before its items are given up as infra
CONNECT_SECONDS = 5.0
WRONG_REQUEST = (400, 401, 403, 404, 411, 413, 422)  # statuses that trying again cannot better
# A machine that has vanished sends nothing: asked after 10 s of silence, it is given up 15 s later.
KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]
URL_VARIABLE, TOKEN_VARIABLE = "GRPO_SANDBOX_URL", "GRPO_SANDBOX_TOKEN"


@dataclass(frozen=True)
class Item:
    """One program to judge. timeout_s is CPU time for the whole item, in seconds."""

    program: str
    entry_point: str
    setup: str
    tests: list[str]
    timeout_s: float


class TestVerdict(BaseModel):
    """The outcome of one test; `not_run` after the first that did not pass."""

    __test__ = False  # not a test class, whatever pytest thinks of its name
    model_config = ConfigDict(frozen=True)
    index: int
    outcome: str
    detail: str = ""


class Verdict(BaseModel):
    """What the sandbox says of one item. passed is None exactly when outcome is `infra`."""

    model_config = ConfigDict(frozen=True)
    id: str
    outcome: str
    passed: bool | None
    tests: list[TestVerdict] = []
    detail: str = ""
    cpu_ms: float = 0.0
    wall_ms: float = 0.0

    @property
    def failing_test(self) -> int | None:
        """Index of the first test that did not pass, or None."""
        return next((test.index for test in self.tests if test.outcome not in ("passed", "not_run")), None)


@dataclass(frozen=True)
class CallsItem:
    """One program and the calls whose values are wanted, each a Python expression. timeout_s as in Item."""

    program: str
    entry_point: str
    setup: str
    calls: list[str]
    timeout_s: float


class CallOutput(BaseModel):
    """What came of one call: `returned` with its value as a literal, or why there is none.

    outcome is `returned`, `raised`, `opaque` (no plain data, not equal to itself, too large), `not_run`, or what ended
    the whole item.
    """

    model_config = ConfigDict(frozen=True)
    index: int
    outcome: str
    value: str | None = None
    detail: str = ""


class Outputs(BaseModel):
    """What came of one item; outcome is `passed` when all its calls came to an end by themselves."""

    model_config = ConfigDict(frozen=True)
    id: str
    outcome: str
    calls: list[CallOutput] = []
    detail: str = ""
    cpu_ms: float = 0.0


class Asked(Protocol):
    """What any item has."""

    @property
    def timeout_s(self) -> float: ...


SomeItem = TypeVar("SomeItem", bound=Asked)
Answer = TypeVar("Answer")


class SandboxUnavailable(InfraError):
    """No replica of the sandbox could be had, for as long as the client was told to try."""


class SandboxClient:
    """Judges batches at the service's replicas: every address behind one name, or a comma list of URLs."""

    def __init__(self, url: str, *, retry_seconds: float = RETRY_SECONDS) -> None:
        """retry_seconds: the deadline by which a request that was refused or lost is tried again, at any replica."""
        self.replicas = Replicas(url)
        self.retry_seconds = retry_seconds
        self.answered = 0  # requests that a replica dealt with, if only by calling them wrong
        self.lock, self.next_line = threading.Lock(), 0.0
        name = re.sub("[^!-~]", "_", f"{socket.gethostname()}:{os.getpid()}")[:100]
        self.headers = {"Content-Type": "application/json", "X-Client-Id": name}
        token = os.environ.get(TOKEN_VARIABLE)
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        options = [*urllib3.connection.HTTPConnection.default_socket_options, *KEEP_ALIVE]
        self.http = urllib3.PoolManager(maxsize=16, retries=False, headers=self.headers, socket_options=options)

    @classmethod
    def from_setting(cls, sandbox_url: str) -> "SandboxClient":
        """The client for parameter sandbox_url, unless the local runner has started a sandbox of its own."""
        return cls(os.environ.get(URL_VARIABLE) or sandbox_url)

    def judge(self, items: list[Item]) -> list[Verdict]:
        """Verdicts in the order of the items; waits for a full queue, and marks as `infra` what stays unanswered."""
        return self._in_chunks(items, self._judge_chunk)

    def outputs(self, items: list[CallsItem]) -> list[Outputs]:
        """What the calls of each item return, in the order of the items; otherwise like `judge`."""
        return self._in_chunks(items, self._outputs_chunk)

    def _in_chunks(self, items: list[SomeItem], ask: Callable[[list[SomeItem], int], list[Answer]]) -> list[Answer]:
        if not items:
            return []
        replicas = len(self.replicas.all())
        size = _items_per_request(len(items), replicas)
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        most = min(16, len(chunks), 4 * replicas)
        with concurrent.futures.ThreadPoolExecutor(max_workers=most) as pool:
            answers = pool.map(ask, chunks, range(len(chunks)))
            return [part for answer in answers for part in answer]

    def version(self) -> str:
        """The judge's version, part of every cache key that depends on verdicts; SandboxUnavailable if not ready."""
        deadline = time.monotonic() + self.retry_seconds
        while True:
            url, wait = self.replicas.choose(0)
            time.sleep(min(wait, max(0.0, deadline - time.monotonic())))
            try:
                answer = self.http.request("GET", url + "/readyz", timeout=10.0)
                if answer.status == 200:
                    self.replicas.answered(url)
                    return str(answer.json().get("version", ""))
                reason = f"HTTP {answer.status}: {answer.data[:300].decode(errors='replace')}"
            except (urllib3.exceptions.HTTPError, ValueError) as error:
                reason = describe(error)
            self.replicas.lost(url)
            if time.monotonic() >= deadline:
                raise SandboxUnavailable(f"The sandbox at {url} is not ready ({reason}).")

    def _judge_chunk(self, items: list[Item], turn: int) -> list[Verdict]:
        verdicts, reason = self._ask("/v1/verdicts", items, turn, _read_verdicts)
        if verdicts is None:
            return [Verdict(id=str(i), outcome="infra", passed=None, detail=reason) for i in range(len(items))]
        return verdicts

    def _outputs_chunk(self, items: list[CallsItem], turn: int) -> list[Outputs]:
        outputs, reason = self._ask("/v1/outputs", items, turn, lambda answer, _: _read_outputs(answer, items))
        if outputs is None:
            return [Outputs(id=str(i), outcome="infra", detail=reason) for i in range(len(items))]
        return outputs

    def _ask(
        self, path: str, items: Sequence[Asked], turn: int, read: Callable[[Any, int], list[Answer]]
    ) -> tuple[list[Answer] | None, str]:
        """The answer to one request, or None and why there is none. read: makes records of it, or ValueError."""
        # ASCII JSON: a program may hold half a surrogate pair, which has no UTF-8 and would take its neighbours along.
        body = json.dumps({"items": [{"id": str(index), **vars(item)} for index, item in enumerate(items)]}).encode()
        # Twice the wall limit of every item one after the other: longer than that is a service that hangs.
        patience = urllib3.Timeout(connect=CONNECT_SECONDS, read=30.0 + 6.0 * sum(item.timeout_s for item in items))
        deadline = time.monotonic() + self.retry_seconds
        for attempt in itertools.count(1):
            url, _ = self.replicas.choose(turn + attempt - 1)
            try:
                answer = self.http.request("POST", url + path, body=body, timeout=patience)
                if answer.status == 200:
                    answers = read(answer.json(), len(items))
                    self._note_answer(url)
                    return answers, ""
                reason = f"HTTP {answer.status}: {answer.data[:300].decode(errors='replace')}"
                if answer.status in WRONG_REQUEST:
                    self._note_answer(url)
                    break
                if answer.status in (429, 503):
                    self.replicas.busy(url, _seconds(answer.headers.get("Retry-After")))
                else:
                    self.replicas.lost(url)
            except (urllib3.exceptions.HTTPError, ValueError, ValidationError) as error:
                reason = describe(error)
                self.replicas.lost(url)
            _, wait = self.replicas.choose(turn + attempt)
            if time.monotonic() + wait > deadline:
                break
            if wait:
                self._say_that_it_waits(url, reason, deadline)
                time.sleep(wait)
        return None, f"the sandbox gave no verdict in {attempt} tries, last at {url}: {reason}"

    def _note_answer(self, url: str) -> None:
        self.replicas.answered(url)
        with self.lock:
            self.answered += 1

    def _say_that_it_waits(self, url: str, reason: str, deadline: float) -> None:
        """A line every ten seconds at most, so that nobody watches a silent step."""
        now = time.monotonic()
        waited = now - (deadline - self.retry_seconds)
        with self.lock:
            if waited < QUIET_SECONDS or now < self.next_line:
                return
            self.next_line = now + SECONDS_BETWEEN_LINES
        say("sandbox", f"no verdicts from {url} ({reason}); trying again for {duration(deadline - now)}")


def _items_per_request(items: int, replicas: int) -> int:
    """The size that gives each replica the same share, in as few requests as ITEMS_PER_REQUEST allows."""
    requests = replicas * math.ceil(items / (replicas * ITEMS_PER_REQUEST))
    return math.ceil(items / requests)


def _read_verdicts(answer: Any, expected: int) -> list[Verdict]:
    """Check that every item has its verdict, in order; ValueError otherwise (and the request is tried again)."""
    verdicts = [Verdict.model_validate(row) for row in answer["verdicts"]]
    if [verdict.id for verdict in verdicts] != [str(index) for index in range(expected)]:
        raise ValueError("the answer's ids are not the request's")
    for verdict in verdicts:
        if (verdict.passed is None) != (verdict.outcome == "infra"):
            raise ValueError(f"verdict {verdict.id} contradicts itself: {verdict.outcome}, passed {verdict.passed}")
        if verdict.passed is not (verdict.outcome == "passed") and verdict.passed is not None:
            raise ValueError(f"verdict {verdict.id} contradicts itself: {verdict.outcome}, passed {verdict.passed}")
    return verdicts


def _read_outputs(answer: Any, items: Sequence[CallsItem]) -> list[Outputs]:
    """Check that every item has its calls, in order; ValueError otherwise (and the request is tried again)."""
    outputs = [Outputs.model_validate(row) for row in answer["outputs"]]
    if [(each.id, len(each.calls)) for each in outputs] != [(str(i), len(item.calls)) for i, item in enumerate(items)]:
        raise ValueError("the answer's ids or calls are not the request's")
    return outputs


def _seconds(retry_after: str | None) -> float:
    """A Retry-After header; one second where there is none (or a date, which the sandbox never sends)."""
    try:
        return float(retry_after or 1.0)
    except ValueError:
        return 1.0


def describe(error: Exception) -> str:
    """An HTTP error's innermost reason in a few words, without object addresses."""
    reason = getattr(error, "reason", None)
    text = str(reason if reason is not None else error)
    return f"{type(error).__name__}: {text.split(': ', 1)[-1]}"
