"""The judge's two counterparts: the zygote, which forks programs, and the examiner, which runs tests.

An examiner is jailed and expendable. One that lasts serves one item after the other, as long as the tests can leave
nothing behind in it, which spares most items a fork; it is replaced whenever it dies or is cut off. Items whose tests
may do more are given a new one each, which has seen nothing of any other. So no item can tell what was judged before.
"""

import json
import os
import select
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from sandbox import calls, examiner, kernel, wire, zygote
from sandbox.core import Core
from sandbox.nursery import LIFETIME_CPU_SECONDS, Nursery
from sandbox.verdict import MAX_THREADS, OUTPUT, Ending

WALL_FACTOR = 3  # wall time allowed, in CPU time allowed
BUSY_SHARE = 0.05  # less CPU than this share of the time that passes is sleeping
SPARE_CPU_SECONDS = 1.0  # CPU time of the tests themselves, on top of the program's
TICK_SECONDS = 0.02
FULL_TICK_SECONDS = 0.001  # while records come faster than the pipe can hold: their writer waits for this process
PIPE_BYTES = 1 << 16
MAX_RECORD_BYTES = 1 << 20
EXAMINED = ("passed", "failed", "error", "memory", "syntax", "infra", "gone")  # what an examiner may say of a test


class ZygoteLink:
    """The judge's end of the zygote."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self.pid = 0  # known once it has said hello
        self._child: int | None = None

    def hello(self) -> int:
        """Wait until the zygote is warm; the kernel's Landlock ABI. Raises EOFError."""
        abi, self.pid = zygote.HELLO.unpack(self._receive(zygote.HELLO.size))
        return int(abi)

    def spawn(self, connection: socket.socket, quiet: int, cpu_seconds: float) -> None:
        """Fork a jailed program at the other ends of `connection` and the pipe `quiet`, without waiting for it."""
        request = zygote.REQUEST.pack(zygote.SPAWN, cpu_seconds)
        socket.send_fds(self._control, [request], [connection.fileno(), quiet])
        self._child = None

    @property
    def child(self) -> int:
        """The pid of the program, once it has been forked. Raises EOFError."""
        if self._child is None:
            self._child = int(zygote.SPAWNED.unpack(self._receive(zygote.SPAWNED.size))[0])
        return self._child

    def end(self) -> float:
        """End the program without waiting for it; the CPU seconds that it has used."""
        used = kernel.cpu_seconds(self.child) or 0.0
        self._control.send(zygote.REQUEST.pack(zygote.END, 0.0))
        return used

    def finish(self, patience: float) -> Ending:
        """End the program, waiting `patience` seconds for it to end by itself."""
        _ = self.child  # its pid comes before its end
        self._control.send(zygote.REQUEST.pack(zygote.FINISH, patience))
        return Ending(*zygote.ENDING.unpack(self._receive(zygote.ENDING.size)))

    def _receive(self, size: int) -> bytes:
        data = self._control.recv(size)
        if not data:
            raise EOFError("the zygote is gone")
        return data


@dataclass
class Run:
    """What has been recorded of one item so far."""

    timeout_s: float
    expected: int  # number of the item's tests
    tests: list[dict[str, Any]] = field(default_factory=list)
    program_loading: bool = False  # from here on, what happens is the program's doing
    trouble: str = ""  # with the jail, before anything foreign ran
    cut: str = ""  # why it was cut off
    ended: bool = False  # the examiner says that it has no more to record
    examiner_status: int = 0  # wait status of an examiner that died
    spent: bool = False  # the examiner has been ended and serves no further item
    room: int = calls.MAX_LITERALS  # characters of outputs that may still come

    @property
    def all_passed(self) -> bool:
        """Whether every test recorded so far has passed: none is run after one that has not."""
        return not self.tests or self.tests[-1]["outcome"] == "passed"

    def take(self, line: bytes) -> None:
        """One record of the examiner. Raises ValueError, KeyError, TypeError or RecursionError for what is none.

        Whoever runs the tests writes the records: a hostile test can forge those of its own item, and no more. What is
        taken is never more than an honest examiner would write.
        """
        if line == examiner.LOADING:
            self.program_loading = True
            return
        passed = {"index": len(self.tests), "outcome": "passed", "detail": ""}
        record = passed if line == examiner.PASSED else json.loads(line)
        if "jail" in record:
            self.trouble = str(record["jail"])[: examiner.MAX_DETAIL]
        elif record["index"] == len(self.tests) < self.expected and self.all_passed:
            outcome, detail = record["outcome"], str(record["detail"])[: examiner.MAX_DETAIL]
            if outcome not in EXAMINED:
                raise KeyError(outcome)
            output = {OUTPUT: calls.taken(record[OUTPUT], self.room)} if OUTPUT in record else {}
            self.room -= sum(len(value) for _, value, _ in output.values())
            self.tests.append({"index": len(self.tests), "outcome": outcome, "detail": detail, **output})


class Watch:
    """The clocks of a run: says when it must be cut off, and why."""

    def __init__(self, timeout_s: float, zygote_link: ZygoteLink, core: Core) -> None:
        self._timeout_s = timeout_s
        self._zygote = zygote_link
        self._core = core
        self._examiner = 0  # its pid
        self._examiner_before = 0.0  # CPU seconds of its that are not this run's
        self._started = self._busy_at = time.monotonic()
        self._busy_cpu = 0.0

    def follow(self, examiner_pid: int) -> None:
        """Count the CPU time of this process as the tests' from now on, on top of what there has been."""
        before = self._of_tests() if self._examiner else 0.0
        self._examiner = examiner_pid
        self._examiner_before = (kernel.cpu_seconds(examiner_pid) or 0.0) - before

    def _of_tests(self) -> float:
        return (kernel.cpu_seconds(self._examiner) or 0.0) - self._examiner_before

    def tick(self) -> None:
        """Nothing has been heard for a tick: let both processes run on any core."""
        self._core.free([self._zygote.child, self._examiner])

    def reason_to_cut(self) -> str:
        """Why to cut the run off now, "" to let it go on."""
        now, allowed = time.monotonic(), self._timeout_s
        program = kernel.cpu_seconds(self._zygote.child) or 0.0
        tests = self._of_tests()
        if program > allowed:
            return f"more than {allowed:g} s of CPU time"
        if tests > allowed + SPARE_CPU_SECONDS:
            return f"more than {allowed + SPARE_CPU_SECONDS:g} s of CPU time in the tests"
        if kernel.threads(self._examiner) > MAX_THREADS:
            return f"more than {MAX_THREADS} threads in the tests"
        if now - self._started > WALL_FACTOR * allowed:
            return f"more than {WALL_FACTOR * allowed:g} s of wall time"
        if program + tests - self._busy_cpu > BUSY_SHARE * (now - self._busy_at):
            self._busy_at, self._busy_cpu = now, program + tests
        elif now - self._busy_at > allowed:
            return f"asleep for {allowed:g} s"
        return ""


class Examiner:
    """A jailed process that runs tests, seen from the judge.

    It writes its records into a pipe that nobody waits at, and rings at the socket once they are complete: the judge
    wakes once an item, not at each record, and looks into the pipe at every tick meanwhile.
    """

    def __init__(self, nursery: Nursery, *, lasting: bool) -> None:
        """lasting: whether it is to serve many items, and so may decline one."""
        self._nursery = nursery
        self._lasting = lasting
        self._control, theirs = socket.socketpair()
        self._records, their_records = os.pipe()
        os.set_blocking(self._records, False)
        self._pending = b""
        self._tick = TICK_SECONDS
        self._poll = select.poll()
        self._poll.register(self._control, select.POLLIN)
        try:
            self.pid = nursery.bear(theirs, their_records, lasting=lasting)
        finally:
            theirs.close()
            os.close(their_records)

    def run(self, item: dict[str, Any], channels: list[int], run: Run, watch: Watch, service: socket.socket) -> bool:
        """Have the item's tests run against the program at the other end of `channels`: a socket and a pipe.

        False, and nothing has run, if they need an examiner of their own. Afterwards this one may be dead: then
        `run.spent` is set. `service` is only watched for hanging up: then nobody would read the verdict, and this
        process ends.
        """
        watch.follow(self.pid)
        self._poll.register(service, 0)
        heard, is_dead = b"", not self._send(wire.frame(item, limit=wire.MAX_ITEM_BYTES), channels)
        while not (is_dead or run.cut or run.ended or self._declines(heard)):
            events = [descriptor for descriptor, _ in self._poll.poll(self._tick * 1000)]
            if service.fileno() in events:
                raise SystemExit
            if not events:
                watch.tick()
            heard = self._hear() if events else b""
            is_sound = self._take_records(run)  # all that were written before the marks
            is_dead = not is_sound or (not heard and bool(events))
            run.ended = examiner.ENDED in heard
            if not (is_dead or run.ended or self._declines(heard)):
                run.cut = watch.reason_to_cut()
        is_old = (kernel.cpu_seconds(self.pid) or 0.0) > LIFETIME_CPU_SECONDS / 2
        if is_dead:
            run.examiner_status, run.spent = self.end(), True
        elif run.cut or is_old or not self._lasting or examiner.SPENT in heard:
            self.end()
            run.spent = True
        return not self._declines(heard)

    def _send(self, message: bytes, channels: list[int]) -> bool:
        """Hand it an item; False when it is dead."""
        try:
            sent = socket.send_fds(self._control, [message], channels)
            if sent < len(message):
                self._control.sendall(message[sent:])
        except OSError:
            return False
        return True

    def _declines(self, marks: bytes) -> bool:
        return self._lasting and examiner.DECLINED in marks

    def _hear(self) -> bytes:
        """The examiner's marks; empty when it is dead."""
        try:
            return self._control.recv(16)
        except OSError:
            return b""

    def _take_records(self, run: Run) -> bool:
        """Take in what the examiner has written so far; False when that is what no examiner writes."""
        self._tick = TICK_SECONDS
        try:
            for _ in range(2):  # a pipe holds no more: a flood must not keep this process from its clocks
                data = os.read(self._records, PIPE_BYTES)
                if len(data) > PIPE_BYTES // 2:
                    self._tick = FULL_TICK_SECONDS
                *lines, self._pending = (self._pending + data).split(b"\n")
                for line in lines:
                    run.take(line)
                if len(self._pending) > MAX_RECORD_BYTES:
                    return False
        except BlockingIOError:
            return True
        except (ValueError, KeyError, TypeError, RecursionError):
            return False
        return True

    def end(self) -> int:
        """Make sure it is dead; its wait status. Not to be called twice."""
        self._control.close()
        os.close(self._records)
        return self._nursery.bury(self.pid)
