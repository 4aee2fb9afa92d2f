"""The judge: a warm process that gets items from the service and answers each with a verdict.

It runs nothing foreign itself. For each item it has the zygote fork the jailed program, forks a jailed examiner for
the tests, and watches both from outside: CPU time, wall time, and whether anything happens at all. The verdict is put
together here, from the examiner's record of every test and from how the two processes ended.
"""

import json
import os
import select
import signal
import socket
import time
from dataclasses import dataclass, field
from typing import Any, NoReturn

from sandbox import examiner, kernel, verdict, warm, wire, zygote
from sandbox.jail import FIRST_CHANNEL, Jail, Limits
from sandbox.verdict import Ending

# Imported before the fork, for what most tests and replies need; an examiner may import the rest of the library.
import array, datetime, decimal, fractions, math  # noqa: E401,F401  isort: skip

WALL_FACTOR = 3  # wall time allowed, in CPU time allowed
BUSY_SHARE = 0.05  # less CPU than this share of the time that passes is sleeping
EXAMINER_SPARE_SECONDS = 1.0  # CPU time of the tests themselves, on top of the program's
TICK_SECONDS = 0.02
PATIENCE_SECONDS = 0.5  # for a program that broke its connection off to finish ending
EXAMINER_FILES = 16
MAX_RECORDS_BYTES = 1 << 22


class ZygoteLink:
    """The judge's end of the zygote."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    def hello(self) -> int:
        """Wait until the zygote is warm; the kernel's Landlock ABI. Raises EOFError."""
        return int(self._receive(16))

    def spawn(self, connection: socket.socket, cpu_seconds: float) -> int:
        """Fork a jailed program at the other end of `connection`; its pid."""
        request = zygote.REQUEST.pack(zygote.SPAWN, cpu_seconds)
        socket.send_fds(self._control, [request], [connection.fileno()])
        return int(zygote.SPAWNED.unpack(self._receive(zygote.SPAWNED.size))[0])

    def finish(self, patience: float) -> Ending:
        """End the program, waiting `patience` seconds for it to end by itself."""
        self._control.send(zygote.REQUEST.pack(zygote.FINISH, patience))
        return Ending(*zygote.ENDING.unpack(self._receive(zygote.ENDING.size)))

    def _receive(self, size: int) -> bytes:
        data = self._control.recv(size)
        if not data:
            raise EOFError("the zygote is gone")
        return data


@dataclass
class Run:
    """One item being judged: the two processes and what has been recorded of them so far."""

    timeout_s: float
    program_pid: int
    examiner_pid: int
    records: int
    started: float
    tests: list[dict[str, Any]] = field(default_factory=list)
    program_loading: bool = False  # from here on, what happens is the program's doing
    trouble: str = ""  # with the jail, before anything foreign ran
    cut: str = ""  # why it was cut off
    _pending: bytes = b""

    def read_records(self) -> bool:
        """Take in what the examiner has written; False at its end."""
        data = os.read(self.records, 1 << 16)
        *lines, self._pending = (self._pending + data).split(b"\n")
        for record in map(json.loads, lines):
            if "loading" in record:
                self.program_loading = True
            elif "jail" in record:
                self.trouble = record["jail"]
            elif record["index"] == len(self.tests):
                self.tests.append(record)
        return bool(data) and len(self._pending) < MAX_RECORDS_BYTES


class Watch:
    """The clocks of a run: says when it must be cut off, and why."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._busy_at = run.started
        self._busy_cpu = 0.0

    def reason_to_cut(self) -> str:
        """Why to cut the run off now, "" to let it go on."""
        run, now = self._run, time.monotonic()
        program = kernel.cpu_seconds(run.program_pid) or 0.0
        tests = kernel.cpu_seconds(run.examiner_pid) or 0.0
        if program > run.timeout_s:
            return f"more than {run.timeout_s:g} s of CPU time"
        if tests > run.timeout_s + EXAMINER_SPARE_SECONDS:
            return f"the tests took more than {run.timeout_s + EXAMINER_SPARE_SECONDS:g} s of CPU time"
        if now - run.started > WALL_FACTOR * run.timeout_s:
            return f"more than {WALL_FACTOR * run.timeout_s:g} s of wall time"
        if program + tests - self._busy_cpu > BUSY_SHARE * (now - self._busy_at):
            self._busy_at, self._busy_cpu = now, program + tests
        elif now - self._busy_at > run.timeout_s:
            return f"asleep for {run.timeout_s:g} s"
        return ""


class Judge:
    """Judges one item after the other."""

    def __init__(self, service: socket.socket, zygote_link: ZygoteLink, jail: Jail, memory_bytes: int) -> None:
        self._service = service
        self._zygote = zygote_link
        self._jail = jail
        self._memory_bytes = memory_bytes

    def serve(self) -> None:
        """Answer items until the service closes its end."""
        reader = wire.Reader(self._service, limit=wire.MAX_ITEM_BYTES)
        while True:
            try:
                item = reader.read()
            except EOFError:
                return
            self._service.sendall(wire.frame(self.judge(item), limit=wire.MAX_ITEM_BYTES))

    def judge(self, item: dict[str, Any]) -> dict[str, Any]:
        """The verdict on one item of the request (see models.Item)."""
        started = time.monotonic()
        refusal = verdict.refuse(item["program"])
        if refusal:
            return verdict.make(item, [{"outcome": "rejected", "detail": refusal}], 0.0, started)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            program_pid = self._zygote.spawn(theirs, item["timeout_s"])
            theirs.close()
            run = self._start_examiner(item, ours, program_pid)
        self._watch(run)
        os.close(run.records)
        _kill(run.examiner_pid)
        _, status = os.waitpid(run.examiner_pid, 0)
        gone = bool(run.tests) and run.tests[-1]["outcome"] == "gone"
        ending = self._zygote.finish(PATIENCE_SECONDS if gone else 0.0)
        verdict.complete(
            run.tests,
            expected=len(item["tests"]),
            timeout_s=run.timeout_s,
            trouble=run.trouble,
            cut=run.cut,
            program_loading=run.program_loading,
            examiner_status=status,
            ending=ending,
        )
        return verdict.make(item, run.tests, ending.cpu_seconds, started)

    def _start_examiner(self, item: dict[str, Any], connection: socket.socket, program_pid: int) -> Run:
        reading, writing = os.pipe()
        started = time.monotonic()
        pid = os.fork()
        if pid == 0:
            self._become_examiner(item, connection, writing)
        os.close(writing)
        return Run(item["timeout_s"], program_pid, pid, reading, started)

    def _become_examiner(self, item: dict[str, Any], connection: socket.socket, records: int) -> NoReturn:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            cpu_seconds = item["timeout_s"] + EXAMINER_SPARE_SECONDS
            limits = Limits(cpu_seconds, self._memory_bytes, 0, EXAMINER_FILES)
            self._jail.enter(limits, [connection.detach(), records])
            examiner.examine(item, socket.socket(fileno=FIRST_CHANNEL), FIRST_CHANNEL + 1)
            os._exit(0)
        finally:
            os._exit(1)

    def _watch(self, run: Run) -> None:
        """Take in records until the examiner has ended or the run must be cut off."""
        poll = select.poll()
        poll.register(run.records, select.POLLIN)
        poll.register(self._service, 0)  # only its hanging up: the service is gone, and so is who would read the verdict
        watch = Watch(run)
        while not run.cut:
            for descriptor, _ in poll.poll(TICK_SECONDS * 1000):
                if descriptor != run.records:
                    raise SystemExit
                try:
                    if not run.read_records():
                        return
                except (ValueError, KeyError, TypeError):
                    return  # a test wrote into the records itself: what is missing from them has not passed
            run.cut = watch.reason_to_cut()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def main() -> None:
    """The process: settings are memory_bytes and use_landlock; two sockets, to the service and to the zygote."""
    settings, (service, control) = warm.arrive()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    zygote_link = ZygoteLink(control)
    abi = zygote_link.hello()
    jail = Jail(scratch=None, use_landlock=settings["use_landlock"])
    judge = Judge(service, zygote_link, jail, settings["memory_bytes"])
    warm.settle()
    service.sendall(wire.frame({"landlock_abi": abi}, limit=wire.MAX_ITEM_BYTES))
    judge.serve()
