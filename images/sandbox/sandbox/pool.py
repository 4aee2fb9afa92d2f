"""The pool: a bounded queue of items and the threads that carry them to workers, one worker a thread.

A worker that dies or hangs is replaced, and its item is tried once more; only then is it `infra`, which is nobody's
wrong answer. Waiting in the queue costs an item nothing.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from sandbox import verdict
from sandbox.worker import Settings, Worker, WorkerLost

log = logging.getLogger("sandbox")

TRIES = 2
RESTART_PAUSE_SECONDS = 1.0
Verdict = dict[str, Any]
Job = tuple[dict[str, Any], "Future[Verdict]"]


class Full(Exception):
    """The queue has no room for the whole request."""


class Pool:
    """A fixed number of workers behind one queue."""

    def __init__(self, settings: Settings, *, workers: int, capacity: int, on_replaced: Callable[[], None]) -> None:
        """capacity: items that may wait; on_replaced: called for every worker that had to be replaced."""
        self.settings = settings
        self.capacity = capacity
        self.workers = workers
        self.landlock_abi = 0
        self._on_replaced = on_replaced
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        self._stopping = threading.Event()
        self._live: dict[int, Worker] = {}
        self._threads = [
            threading.Thread(target=self._run, args=(slot,), name=f"worker-{slot}", daemon=True)
            for slot in range(workers)
        ]

    def start(self) -> None:
        """Start the threads; each starts its own worker."""
        for thread in self._threads:
            thread.start()

    @property
    def unfinished(self) -> int:
        """Items that wait or are being judged."""
        return self._unfinished

    @property
    def live_workers(self) -> int:
        """Workers that are up."""
        return len(self._live)

    def pids(self) -> list[int]:
        """Processes of all live workers."""
        return [pid for worker in list(self._live.values()) for pid in worker.pids]

    def submit(self, items: list[dict[str, Any]]) -> "list[Future[Verdict]]":
        """Queue all items of a request, or none: raises Full."""
        with self._lock:
            if self._unfinished and self._unfinished + len(items) > self.capacity:
                raise Full
            self._unfinished += len(items)
        futures: list[Future[Verdict]] = []
        for item in items:
            future: Future[Verdict] = Future()
            self._jobs.put((item, future))
            futures.append(future)
        return futures

    def stop(self) -> None:
        """End all workers. What is still queued gets no verdict."""
        self._stopping.set()
        for worker in list(self._live.values()):
            worker.interrupt()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                thread.join()

    def _run(self, slot: int) -> None:
        try:
            while not self._stopping.is_set():
                up = slot in self._live or self._start_worker(slot)
                try:
                    job = self._jobs.get(timeout=None if up else RESTART_PAUSE_SECONDS)
                except queue.Empty:
                    continue
                if job is not None:
                    self._finish(job, slot)
        finally:
            worker = self._live.pop(slot, None)
            if worker is not None:
                worker.stop()

    def _finish(self, job: Job, slot: int) -> None:
        item, future = job
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(self._judge(item, slot))
            except Exception as error:  # a bug of ours: the request fails, this thread goes on
                log.exception("worker %d failed", slot)
                future.set_exception(error)
        with self._lock:
            self._unfinished -= 1

    def _judge(self, item: dict[str, Any], slot: int) -> Verdict:
        started = time.monotonic()
        reason = "no worker could be started"
        for _ in range(TRIES):
            if slot not in self._live and not self._start_worker(slot):
                continue
            try:
                answer = self._live[slot].judge(item)
            except WorkerLost as error:
                self._live.pop(slot, None)
                if self._stopping.is_set():
                    break
                reason = f"the judge was lost ({error})"
                log.warning("worker %d: %s; it is replaced", slot, reason)
                self._on_replaced()
                continue
            if not answer.pop(verdict.RETRY, False):
                return answer
            reason = answer["detail"]
        record = {"outcome": "infra", "detail": f"tried {TRIES} times, last: {reason}"}
        return verdict.make(item, [record], 0.0, started)

    def _start_worker(self, slot: int) -> bool:
        try:
            worker = Worker(self.settings)
        except (WorkerLost, OSError) as error:
            log.error("worker %d could not be started: %s", slot, error)
            return False
        self.landlock_abi = worker.landlock_abi
        self._live[slot] = worker
        return True
