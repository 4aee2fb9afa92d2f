"""One place for a worker, and keeping a sound worker in it.

A worker that dies, hangs or fails its canaries is replaced, and what it was judging is judged again by the next. The
canaries run when the worker starts, at intervals, and before a verdict is believed that a damaged worker might give to
any program.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from sandbox import canary, verdict
from sandbox.worker import Settings, Worker, WorkerLost

log = logging.getLogger("sandbox")

TRIES = 2
SUSPICIOUS = ("memory", "timeout")  # what a damaged worker would say of honest programs; dear enough to check


class Observer(Protocol):
    """Who counts what happens to workers."""

    def worker_replaced(self) -> None:
        """A worker was ended because it was lost or damaged."""

    def canary_run(self, *, sound: bool) -> None:
        """A worker's canaries have been judged."""


class Keeper:
    """Keeps one worker. All methods but `interrupt` and `pids` belong to one thread, which must outlive the worker."""

    def __init__(
        self, name: str, settings: Settings, *, canary_seconds: float, observer: Observer, on_ended: Callable[[], None]
    ) -> None:
        """canary_seconds: between two runs while all is well; on_ended: called when a worker's processes have ended."""
        self._name = name
        self._settings = settings
        self._canary_seconds = canary_seconds
        self._observer = observer
        self._on_ended = on_ended
        self._worker: Worker | None = None
        self._canary_due = 0.0
        self._stopping = False

    @property
    def is_up(self) -> bool:
        """Whether there is a worker, which was sound when last seen."""
        return self._worker is not None

    @property
    def pids(self) -> list[int]:
        """Processes of the worker."""
        worker = self._worker
        return worker.pids if worker else []

    def seconds_to_canary(self) -> float:
        """How long until the canaries are due."""
        return max(0.0, self._canary_due - time.monotonic())

    def ensure(self) -> bool:
        """Start a worker if there is none, or run the canaries if they are due; whether a sound worker is there."""
        if self._worker is None:
            return self._start()
        return self.seconds_to_canary() > 0 or self._is_sound()

    def judge(self, item: dict[str, Any]) -> dict[str, Any]:
        """The verdict on one item; `infra` when the second try is lost too."""
        started = time.monotonic()
        reason = "no worker could be started"
        for _ in range(TRIES):
            if self._worker is None and not self._start():
                continue
            assert self._worker is not None
            try:
                answer = self._worker.judge(item)
            except WorkerLost as error:
                if self._stopping:
                    break
                reason = f"the judge was lost ({error})"
                self._replace(reason)
                continue
            retry = answer.pop(verdict.RETRY, False)
            suspicious = retry or answer["outcome"] in SUSPICIOUS or self.seconds_to_canary() == 0
            if suspicious and not self._is_sound():
                reason = "the worker was damaged"
                continue
            if not retry:
                return answer
            reason = answer["detail"]
        record = {"outcome": "infra", "detail": f"tried {TRIES} times, last: {reason}"}
        return verdict.make(item, [record], 0.0, started)

    def interrupt(self) -> None:
        """From another thread: stop whatever the worker is doing, for good."""
        self._stopping = True
        worker = self._worker
        if worker is not None:
            worker.interrupt()

    def stop(self) -> None:
        """End the worker."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()
            self._on_ended()

    def _start(self) -> bool:
        try:
            self._worker = Worker(self._settings)
        except (WorkerLost, OSError) as error:
            log.error("%s could not be started: %s", self._name, error)
            self._on_ended()
            return False
        return self._is_sound()

    def _is_sound(self) -> bool:
        """Run the canaries; a worker that fails them is ended."""
        assert self._worker is not None
        harm = canary.damage(self._worker)
        if self._stopping:
            return not harm
        self._observer.canary_run(sound=not harm)
        self._canary_due = time.monotonic() + self._canary_seconds
        if harm:
            self._replace(f"it is damaged: {harm}")
        return not harm

    def _replace(self, reason: str) -> None:
        log.warning("%s: %s; it is replaced", self._name, reason)
        self.stop()
        self._observer.worker_replaced()
