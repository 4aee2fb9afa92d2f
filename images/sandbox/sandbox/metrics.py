"""What an operator can watch: verdicts by outcome, their CPU and wall time, the queue, the workers."""

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from sandbox.pool import Pool

_SECONDS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0)


class Metrics:
    """The service's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.verdicts = Counter("sandbox_verdicts", "Verdicts given", ["outcome"], registry=self.registry)
        self.refused = Counter("sandbox_requests_refused", "Requests refused by a full queue", registry=self.registry)
        self.workers_replaced = Counter("sandbox_workers_replaced", "Workers lost and replaced", registry=self.registry)
        self.cpu = Histogram("sandbox_cpu_seconds", "CPU time of programs", buckets=_SECONDS, registry=self.registry)
        self.wall = Histogram("sandbox_wall_seconds", "Wall time of items", buckets=_SECONDS, registry=self.registry)

    def watch(self, pool: "Pool") -> None:
        """Read the pool's state at every scrape."""
        for name, text, read in (
            ("sandbox_items_unfinished", "Items that wait or are being judged", lambda: pool.unfinished),
            ("sandbox_workers_live", "Workers that are up", lambda: pool.live_workers),
        ):
            Gauge(name, text, registry=self.registry).set_function(read)

    def count(self, verdict: dict[str, Any]) -> None:
        """Take one verdict in."""
        self.verdicts.labels(verdict["outcome"]).inc()
        self.cpu.observe(verdict["cpu_ms"] / 1000)
        self.wall.observe(verdict["wall_ms"] / 1000)
