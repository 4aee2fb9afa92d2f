"""All checks of `doctor`, side by side and within a minute; the probes' pods and object are gone afterwards."""

import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from threading import Thread
from typing import TypeVar

from cli.doctor.finding import Finding, fail, guarded, skipped, warn
from cli.doctor.installation import (
    Installation,
    account_findings,
    capacity_findings,
    kfp_findings,
    namespace_findings,
    sandbox_findings,
    secret_findings,
)
from cli.doctor.model import model_findings
from cli.doctor.pods import ProbePods
from cli.doctor.probes import probe_findings
from components.shared.run import folder_of

PROBE_SECONDS = 42.0  # for all probes; what is deleted afterwards has its own few seconds
SECONDS = 50.0  # for everything
SEE = {
    "kfp": "kubectl get pods -n kubeflow",
    "model": "curl -sI https://huggingface.co",
}
Check = Callable[[], Iterable[Finding]]
T = TypeVar("T")


def examine(place: Installation, *, probing: bool) -> Generator[list[Finding], None, None]:
    """The findings of each check, in a fixed order, each as soon as it and those before it are done.

    Leaving the iteration early, also by an interrupt, deletes every probe pod first.
    """
    start = time.monotonic()
    pods = ProbePods(place.cluster, start + PROBE_SECONDS)
    checks: dict[str, Check] = {
        "kfp": lambda: kfp_findings(place),
        "namespace": lambda: namespace_findings(place),
        "rbac": lambda: account_findings(place),
        "secrets": lambda: secret_findings(place),
        "capacity": lambda: capacity_findings(place),
        "sandbox pods": lambda: sandbox_findings(place),
        "model": lambda: model_findings(place, probing=probing),
        "probes": lambda: _probes(place, pods, probing),
    }
    with pods.present():
        running = {name: started(partial(guarded, name, check, _see(name))) for name, check in checks.items()}
        for name, future in running.items():
            try:
                yield future.result(timeout=max(0.1, start + SECONDS - time.monotonic()))
            except TimeoutError:
                yield [fail(name, f"no answer within {SECONDS:.0f} s", _see(name))]


def started(work: Callable[[], T]) -> "Future[T]":
    """The result to come. The thread keeps nobody waiting: a service that hangs must not keep the doctor."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future


def _see(name: str) -> str:
    return SEE.get(name, "kubectl cluster-info")


def _probes(place: Installation, pods: ProbePods, probing: bool) -> Iterator[Finding]:
    if not probing:
        yield skipped("probes", "--no-probe: images, store, sandbox, hub from inside and policies were not tried")
        return
    spaces = [place.namespace, *([place.sandbox[1]] if place.sandbox else [])]
    swept = pods.sweep(spaces)
    if swept:
        yield warn("probes", f"{swept} pods of a doctor that was killed were removed")
    key = f"{folder_of('doctor')}/{secrets.token_hex(8)}"
    yield from probe_findings(place, pods, key)
