"""The pool: a bounded, fair queue of items and the threads that carry them to workers, one worker a thread.

Waiting in the queue costs an item nothing. Items that are the same but for their id are judged once while one of them
waits or runs: a verdict depends on its item alone.
"""

import logging
import threading
import time
from collections import Counter
from concurrent.futures import Future
from typing import Any, Protocol

from sandbox import keeper
from sandbox.fairness import FairQueue, Job, Verdict, Waiter
from sandbox.reaper import Reaper
from sandbox.verdict import OUTPUTS
from sandbox.worker import Settings

log = logging.getLogger("sandbox")

RESTART_PAUSE_SECONDS = 1.0
LARGEST_SHARE = 0.75  # of the queue that one client may fill
LARGEST_REQUEST = 256  # items; a share is never less
JUDGED_ON = ("program", "entry_point", "setup", "timeout_s")  # with the tests: what a verdict depends on


class Full(Exception):
    """The queue has no room for the whole request; the text says whose share or whose queue is full."""


class Observer(keeper.Observer, Protocol):
    """Who counts what happens in the pool."""

    def item_shared(self) -> None:
        """An item need not be judged: the same is in flight."""

    def item_judged(self, verdict: Verdict, seconds: float) -> None:
        """A worker gave a verdict, so many seconds after the item was queued."""


class Pool:
    """A fixed number of workers behind one queue."""

    def __init__(
        self, settings: Settings, *, workers: int, capacity: int, canary_seconds: float, observer: Observer
    ) -> None:
        """capacity: items that may be unfinished; canary_seconds: between two checks of an undisturbed worker."""
        self.settings = settings
        self.capacity = capacity
        self.workers = workers
        self._observer = observer
        self._queue = FairQueue()
        self._lock = threading.RLock()
        self._in_flight: dict[tuple[Any, ...], Job] = {}
        self._unfinished: Counter[str] = Counter()  # by client
        self._reaper = Reaper(self.pids)
        self._keepers = [
            keeper.Keeper(
                f"worker {slot}",
                settings,
                canary_seconds=canary_seconds,
                observer=observer,
                on_ended=self._reaper.wake,
            )
            for slot in range(workers)
        ]
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(place,), name=f"worker-{slot}", daemon=True)
            for slot, place in enumerate(self._keepers)
        ]

    def start(self) -> None:
        """Start the threads; each starts its own worker."""
        self._reaper.start()
        for thread in self._threads:
            thread.start()

    @property
    def unfinished(self) -> int:
        """Items that wait or are being judged."""
        with self._lock:
            return self._unfinished.total()

    @property
    def waiting(self) -> int:
        """Different items that no worker has begun with."""
        return self._queue.depth

    @property
    def live_workers(self) -> int:
        """Workers that are up."""
        return sum(place.is_up for place in self._keepers)

    def pids(self) -> list[int]:
        """Processes of all live workers."""
        return [pid for place in self._keepers for pid in place.pids]

    def submit(self, client: str, items: list[dict[str, Any]]) -> "list[Future[Verdict]]":
        """Queue all items of a client's request, or none: raises Full."""
        with self._lock:
            self._admit(client, len(items))
            self._unfinished[client] += len(items)
            return [self._enqueue(client, item) for item in items]

    def _admit(self, client: str, count: int) -> None:
        total, own = self.unfinished, self._unfinished[client]
        share = max(LARGEST_REQUEST, int(LARGEST_SHARE * self.capacity))
        if total and total + count > self.capacity:
            raise Full(f"The queue is full ({total} of {self.capacity} items)")
        if own and own + count > share:
            raise Full(f"This client's share of the queue is full ({own} of {share} items)")

    def _enqueue(self, client: str, item: dict[str, Any]) -> "Future[Verdict]":
        key = _key(item)
        job = self._in_flight.get(key)
        if job is None:
            job = self._in_flight[key] = Job(item)
        else:
            self._observer.item_shared()
        waiter = Waiter(client, item["id"], Future())
        job.waiters.append(waiter)
        self._queue.put(client, job)
        return waiter.future

    def stop(self) -> None:
        """End all workers. What is still queued gets no verdict."""
        self._stopping.set()
        self._queue.close()
        for place in self._keepers:
            place.interrupt()
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                thread.join()
        self._reaper.stop()

    def _run(self, place: keeper.Keeper) -> None:
        try:
            while not self._stopping.is_set():
                pause = place.seconds_to_canary() if place.ensure() else RESTART_PAUSE_SECONDS
                taken = self._queue.take(pause)
                if taken is not None:
                    client, job = taken
                    self._finish(job, place)
                    self._queue.done(client, job)
        finally:
            place.stop()

    def _finish(self, job: Job, place: keeper.Keeper) -> None:
        if self._is_wanted(job):
            result: Verdict | Exception
            try:
                result = place.judge(job.item)
                self._observer.item_judged(result, time.monotonic() - job.queued_at)
            except Exception as error:  # a bug of ours: the request fails, this thread goes on
                log.exception("a worker's thread failed")
                result = error
            with self._lock:
                del self._in_flight[_key(job.item)]  # from here on nobody joins
            for waiter in job.waiters:
                _give(waiter, result)
        with self._lock:
            self._unfinished -= Counter(waiter.client for waiter in job.waiters)

    def _is_wanted(self, job: Job) -> bool:
        """Whether anyone still waits for a job; nobody can join one that nobody waits for."""
        with self._lock:
            wanted = not all(waiter.future.cancelled() for waiter in job.waiters)
            if not wanted:
                del self._in_flight[_key(job.item)]
            return wanted


def _give(waiter: Waiter, result: Verdict | Exception) -> None:
    if not waiter.future.set_running_or_notify_cancel():
        return
    if isinstance(result, Exception):
        waiter.future.set_exception(result)
    else:
        waiter.future.set_result({**result, "id": waiter.identifier})


def _key(item: dict[str, Any]) -> tuple[Any, ...]:
    return (item.get(OUTPUTS, False), *(item[name] for name in JUDGED_ON), *item["tests"])
