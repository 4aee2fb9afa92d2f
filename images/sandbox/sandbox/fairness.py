"""Whose turn it is: jobs of several clients in one queue, so that no client's batch holds up another's.

Workers go to the client that has had the least of their *time*, not of their turns: one that sends endless loops pays
for each with its deadline, and another's small batch then goes first until it has had as much. A client that comes
(again) starts level with the one that has had least, so waiting earns nothing. This is start-time fair queueing (Goyal,
Vin, Cheng: SIGCOMM 1996) with measured instead of announced service.
"""

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

Verdict = dict[str, Any]


@dataclass(frozen=True)
class Waiter:
    """One item of one request: who sent it, its id there, and where its verdict goes."""

    client: str
    identifier: str
    future: "Future[Verdict]"


@dataclass(eq=False)
class Job:
    """Something to judge, for everyone who has asked for just this while it waits or runs."""

    item: dict[str, Any]
    waiters: list[Waiter] = field(default_factory=list)
    queued_for: set[str] = field(default_factory=set)  # clients in whose queue it stands
    started_at: float | None = None
    queued_at: float = field(default_factory=time.monotonic)


@dataclass
class _Account:
    """What one client has waiting and running, and the seconds of worker time that it has had."""

    seconds: float
    turn: int  # when it was last served: ties go round
    waiting: deque[Job] = field(default_factory=deque)
    running: list[Job] = field(default_factory=list)

    def cost(self, now: float) -> tuple[float, int]:
        return self.seconds + sum(now - (job.started_at or now) for job in self.running), self.turn


class FairQueue:
    """Jobs by client; a job that several clients wait for stands in the queue of each and is taken once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._accounts: dict[str, _Account] = {}
        self._level = 0.0  # seconds that a newcomer counts as having had
        self._turns = 0
        self._depth = 0
        self._closed = False

    @property
    def depth(self) -> int:
        """Jobs that nobody has taken yet."""
        return self._depth

    def put(self, client: str, job: Job) -> None:
        """Queue a job for a client; nothing happens when it stands in that client's queue already, or has started."""
        with self._changed:
            if job.started_at is not None or client in job.queued_for:
                return
            self._depth += not job.queued_for
            job.queued_for.add(client)
            account = self._accounts.get(client)
            if account is None:
                had = [other.seconds for other in self._accounts.values()]
                self._level = max(self._level, min(had, default=0.0))
                account = self._accounts[client] = _Account(self._level, self._turns)
            account.waiting.append(job)
            self._changed.notify()

    def take(self, timeout: float | None) -> tuple[str, Job] | None:
        """The next job and whose turn it counts as; None after `timeout` seconds, or once closed."""
        with self._changed:
            found = self._next()
            if found is None and not self._closed:
                self._changed.wait(timeout)
                found = self._next()
            return found

    def _next(self) -> tuple[str, Job] | None:
        now = time.monotonic()
        for client, account in sorted(self._accounts.items(), key=lambda pair: pair[1].cost(now)):
            while account.waiting and not self._closed:
                job = account.waiting.popleft()
                if job.started_at is None:
                    job.started_at = now
                    self._turns += 1
                    self._depth -= 1
                    account.turn = self._turns
                    account.running.append(job)
                    return client, job
            self._forget(client)
        return None

    def done(self, client: str, job: Job) -> None:
        """Charge a client for the worker's time that its job took."""
        with self._changed:
            account = self._accounts[client]
            account.running.remove(job)
            account.seconds += time.monotonic() - (job.started_at or 0.0)
            self._forget(client)

    def _forget(self, client: str) -> None:
        """Close the account of a client that has nothing here, remembering the level it leaves behind."""
        account = self._accounts[client]
        if not account.waiting and not account.running:
            del self._accounts[client]
            if not self._accounts:
                self._level = max(self._level, account.seconds)

    def close(self) -> None:
        """Give out nothing any more, and let everyone who waits go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
