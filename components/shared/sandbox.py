"""The client of the sandbox service: programs in, verdicts out.

It splits a batch, spreads it over all replicas, retries what was refused or lost, and never invents a verdict:
what could not be judged comes back as `infra` with `passed` None, and is nobody's wrong answer.
"""

import concurrent.futures
import json
import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import urllib3
from pydantic import BaseModel, ConfigDict, ValidationError

from components.shared.errors import InfraError, UserError
from components.shared.progress import SECONDS_BETWEEN_LINES, duration, say

ITEMS_PER_REQUEST = 16  # small enough that two replicas share a training batch of 32
QUIET_SECONDS = 2.0  # a replica that restarts or a full queue is nothing to talk about
RETRY_SECONDS = 120.0  # how long one request is tried again before its items are given up as infra
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


class SandboxClient:
    """Judges batches at the service's replicas: every address behind one name, or a comma list of URLs."""

    def __init__(self, url: str, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self.urls = [part.strip().rstrip("/") for part in url.split(",") if part.strip()]
        for part in self.urls:
            if urlsplit(part).scheme not in ("http", "https") or not urlsplit(part).hostname:
                raise UserError(f"sandbox_url {part!r} is no address: write it like http://127.0.0.1:8080.")
        if not self.urls:
            raise UserError("sandbox_url is empty: write it like http://127.0.0.1:8080.")
        self.retry_seconds = retry_seconds
        self.lock, self.next_line = threading.Lock(), 0.0
        token = os.environ.get(TOKEN_VARIABLE)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = urllib3.PoolManager(maxsize=16, retries=False, headers=self.headers)

    @classmethod
    def from_setting(cls, sandbox_url: str) -> "SandboxClient":
        """The client for parameter sandbox_url, unless the local runner has started a sandbox of its own."""
        return cls(os.environ.get(URL_VARIABLE) or sandbox_url)

    def replicas(self) -> list[str]:
        """One URL per address that the names resolve to; plain addresses stay as they are."""
        found = []
        for url in self.urls:
            parts = urlsplit(url)
            try:
                rows = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
            except OSError:
                found.append(url)  # the request will fail with the reason, and be retried
                continue
            ipv4 = {str(row[4][0]) for row in rows if row[0] == socket.AF_INET}
            hosts = sorted(ipv4 or {str(row[4][0]) for row in rows})
            if len(hosts) == 1 or parts.scheme == "https":
                found.append(url)
                continue
            port = f":{parts.port}" if parts.port else ""
            found += [f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}" for host in hosts]
        return found

    def judge(self, items: list[Item]) -> list[Verdict]:
        """Verdicts in the order of the items; waits for a full queue, and marks as `infra` what stays unanswered."""
        if not items:
            return []
        replicas = self.replicas()
        chunks = [items[start : start + ITEMS_PER_REQUEST] for start in range(0, len(items), ITEMS_PER_REQUEST)]
        with concurrent.futures.ThreadPoolExecutor(max_workers=min(16, len(chunks), 4 * len(replicas))) as pool:
            answers = pool.map(lambda job: self._judge_chunk(job[1], replicas, job[0]), enumerate(chunks))
            return [verdict for answer in answers for verdict in answer]

    def version(self) -> str:
        """The judge's version, part of every cache key that depends on verdicts; InfraError when it is not ready."""
        deadline = time.monotonic() + self.retry_seconds
        while True:
            reason = ""
            try:
                answer = self.http.request("GET", self.urls[0] + "/readyz", timeout=10.0)
                if answer.status == 200:
                    return str(answer.json().get("version", ""))
                reason = f"HTTP {answer.status}: {answer.data[:300].decode(errors='replace')}"
            except (urllib3.exceptions.HTTPError, ValueError) as error:
                reason = describe(error)
            if time.monotonic() > deadline:
                raise InfraError(f"The sandbox at {self.urls[0]} is not ready ({reason}).")
            time.sleep(0.5)

    def _judge_chunk(self, items: list[Item], replicas: list[str], turn: int) -> list[Verdict]:
        # ASCII JSON: a program may hold half a surrogate pair, which has no UTF-8 and would take its neighbours along.
        body = json.dumps({"items": [{"id": str(index), **vars(item)} for index, item in enumerate(items)]}).encode()
        headers = {**self.headers, "Content-Type": "application/json"}
        # Twice the wall limit of every item one after the other: longer than that is a service that hangs.
        patience = 30.0 + 6.0 * sum(item.timeout_s for item in items)
        deadline = time.monotonic() + self.retry_seconds
        attempt, reason, pause = 0, "", 0.0
        while True:
            url = replicas[(turn + attempt) % len(replicas)]
            attempt += 1
            try:
                answer = self.http.request("POST", url + "/v1/verdicts", body=body, headers=headers, timeout=patience)
                if answer.status == 200:
                    return _read_verdicts(answer.json(), len(items))
                reason = f"HTTP {answer.status}: {answer.data[:300].decode(errors='replace')}"
                if answer.status in (400, 401, 403, 404, 413, 422):
                    break
                pause = float(answer.headers.get("Retry-After") or 1.0) if answer.status in (429, 503) else 1.0
            except (urllib3.exceptions.HTTPError, ValueError, ValidationError) as error:
                reason, pause = describe(error), min(5.0, 0.2 * 2**attempt)
            if time.monotonic() + pause > deadline:
                break
            self._say_that_it_waits(url, reason, deadline)
            time.sleep(pause)
        detail = f"the sandbox gave no verdict in {attempt} tries, last at {url}: {reason}"
        return [Verdict(id=str(index), outcome="infra", passed=None, detail=detail) for index in range(len(items))]

    def _say_that_it_waits(self, url: str, reason: str, deadline: float) -> None:
        """A line every ten seconds at most, so that nobody watches a silent step."""
        now = time.monotonic()
        waited = now - (deadline - self.retry_seconds)
        with self.lock:
            if waited < QUIET_SECONDS or now < self.next_line:
                return
            self.next_line = now + SECONDS_BETWEEN_LINES
        say("sandbox", f"no verdicts from {url} ({reason}); trying again for {duration(deadline - now)}")


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


def describe(error: Exception) -> str:
    """An HTTP error's innermost reason in a few words, without object addresses."""
    reason = getattr(error, "reason", None)
    text = str(reason if reason is not None else error)
    return f"{type(error).__name__}: {text.split(': ', 1)[-1]}"
