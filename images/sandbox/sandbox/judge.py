"""The judge: a warm process that gets items from the service and answers each with a verdict.

It runs nothing foreign itself. For each item it has the zygote fork the jailed program, hands the tests to a jailed
examiner, and watches both from outside: CPU time, wall time, and whether anything happens at all. The verdict is put
together from the examiner's record of every test and from how the two processes ended.
"""

import os
import signal
import socket
import time
from typing import Any

from sandbox import kernel, verdict, warm, wire
from sandbox.core import Core
from sandbox.nursery import Nursery
from sandbox.supervise import Examiner, Run, Watch, ZygoteLink

# Imported before any fork, for what most tests and replies need; an examiner may import the rest of the library.
import array, datetime, decimal, fractions, math  # noqa: E401,F401  isort: skip

PATIENCE_SECONDS = 0.5  # for a program that broke its connection off to finish ending


class Judge:
    """Judges one item after the other."""

    def __init__(self, service: socket.socket, zygote_link: ZygoteLink, nursery: Nursery) -> None:
        self._service = service
        self._zygote = zygote_link
        self._nursery = nursery
        self._examiner: Examiner | None = None
        self._core = Core()

    def serve(self) -> None:
        """Answer items until the service closes its end."""
        reader = wire.Reader(self._service, limit=wire.MAX_ITEM_BYTES)
        while True:
            if self._examiner is None:
                self._examiner = Examiner(self._nursery, lasting=True)
            try:
                item = reader.read()
            except EOFError:
                return
            self._service.sendall(wire.frame(self.judge(self._examiner, item), limit=wire.MAX_ITEM_BYTES))
            self._core.rest()

    def judge(self, examiner: Examiner, item: dict[str, Any]) -> dict[str, Any]:
        """The verdict on one item of the request (see models.Item)."""
        started = time.monotonic()
        refusal = verdict.refuse(item["program"])
        if refusal:
            return verdict.make(item, [{"outcome": "rejected", "detail": refusal}], 0.0, started)
        run, ending = self._examine(examiner, item)
        verdict.complete(
            run.tests,
            expected=len(item["tests"]),
            timeout_s=run.timeout_s,
            trouble=run.trouble,
            cut=run.cut,
            program_loading=run.program_loading,
            examiner_status=run.examiner_status,
            ending=ending,
        )
        return verdict.make(item, run.tests, ending.cpu_seconds, started)

    def _examine(self, examiner: Examiner, item: dict[str, Any]) -> tuple[Run, verdict.Ending]:
        self._core.gather([self._zygote.pid, self._nursery.pid, examiner.pid])
        ours, theirs = socket.socketpair()
        quiet, their_quiet = os.pipe()
        with ours, theirs, os.fdopen(quiet, "rb", buffering=0):
            self._zygote.spawn(theirs, their_quiet, item["timeout_s"])
            theirs.close()
            os.close(their_quiet)
            run = self._run(examiner, item, [ours.fileno(), quiet])
            # With `ours` still open: a program that sees its connection end would spend time on that before it dies.
            if run.tests and run.tests[-1]["outcome"] == "gone":
                return run, self._zygote.finish(PATIENCE_SECONDS)
            return run, verdict.Ending(cpu_seconds=self._zygote.end())

    def _run(self, examiner: Examiner, item: dict[str, Any], channels: list[int]) -> Run:
        """Run the item's tests, in an examiner of their own if the one that lasts declines them."""
        run, watch = Run(item["timeout_s"], len(item["tests"])), Watch(item["timeout_s"], self._zygote, self._core)
        taken = examiner.run(item, channels, run, watch, self._service)
        if run.spent:
            self._examiner = None
        if not taken:
            own = Examiner(self._nursery, lasting=False)
            self._core.gather([own.pid])
            own.run(item, channels, run, watch, self._service)
        return run


def main() -> None:
    """The process: settings are memory_bytes and use_landlock; two sockets, to the service and to the zygote."""
    settings, (service, control) = warm.arrive()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # the zygote sees this process end, and cleans up
    zygote_link = ZygoteLink(control)
    abi = zygote_link.hello()
    warm.settle()
    nursery = Nursery(settings["memory_bytes"], [service, control], use_landlock=settings["use_landlock"])
    judge = Judge(service, zygote_link, nursery)
    service.sendall(wire.frame({"landlock_abi": abi, "forked": [nursery.pid]}, limit=wire.MAX_ITEM_BYTES))
    judge.serve()
