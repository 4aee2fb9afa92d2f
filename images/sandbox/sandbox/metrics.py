"""What an operator can watch: verdicts by outcome, times, the queue, workers and their canaries, leftovers."""

import collections
import os
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sandbox.reaper import lasting_zombies

if TYPE_CHECKING:
    from sandbox.pool import Pool

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)


class Metrics:
    """The service's metrics, in a registry of their own. Observes a pool (see pool.Observer)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.verdicts = Counter("sandbox_verdicts", "Verdicts given", ["outcome"], registry=self.registry)
        self.requests = Counter("sandbox_requests", "Requests for verdicts", ["status"], registry=self.registry)
        self.refused = Counter("sandbox_requests_refused", "Requests refused by a full queue", registry=self.registry)
        self.replaced = Counter(
            "sandbox_workers_replaced", "Workers lost or damaged, and replaced", registry=self.registry
        )
        self.canaries = Counter("sandbox_canaries", "Runs of the canaries", ["result"], registry=self.registry)
        self.shared = Counter(
            "sandbox_items_shared", "Items answered with the verdict of the same item in flight", registry=self.registry
        )
        self.cpu = self._histogram("sandbox_cpu_seconds", "CPU time of programs")
        self.wall = self._histogram("sandbox_wall_seconds", "Wall time of judging one item")
        self.latency = self._histogram("sandbox_item_seconds", "From queueing an item to its verdict")
        self.answering = self._histogram("sandbox_request_seconds", "From a request to its answer")
        for result in ("sound", "damaged"):
            self.canaries.labels(result)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, buckets=_SECONDS, registry=self.registry)

    def watch(self, pool: "Pool") -> None:
        """Read the pool's state at every scrape."""
        for name, text, read in (
            ("sandbox_items_unfinished", "Items that wait or are being judged", lambda: pool.unfinished),
            ("sandbox_queue_depth", "Different items that wait for a worker", lambda: pool.waiting),
            ("sandbox_workers_live", "Workers that are up", lambda: pool.live_workers),
            (
                "sandbox_zombies",
                "Ended processes that nobody reaps",
                lambda: lasting_zombies([os.getpid(), *pool.pids()]),
            ),
        ):
            Gauge(name, text, registry=self.registry).set_function(read)

    def worker_replaced(self) -> None:
        """A worker was ended because it was lost or damaged."""
        self.replaced.inc()

    def canary_run(self, *, sound: bool) -> None:
        """A worker's canaries have been judged."""
        self.canaries.labels("sound" if sound else "damaged").inc()

    def item_shared(self) -> None:
        """An item is not judged, because the same is in flight."""
        self.shared.inc()

    def item_judged(self, verdict: dict[str, Any], seconds: float) -> None:
        """A worker gave a verdict, so many seconds after the item was queued."""
        self.cpu.observe(verdict["cpu_ms"] / 1000)
        self.wall.observe(verdict["wall_ms"] / 1000)
        self.latency.observe(seconds)

    def answered(self, status: int, verdicts: list[dict[str, Any]], seconds: float) -> None:
        """A request has its answer."""
        self.requests.labels(str(status)).inc()
        self.answering.observe(seconds)
        for outcome, count in collections.Counter(verdict["outcome"] for verdict in verdicts).items():
            self.verdicts.labels(outcome).inc(count)
