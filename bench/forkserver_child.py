"""The bare fork server's warm process: for each item a fork, the sandbox's own jail, and one `exec` of everything.

What the field calls fast: program and tests share a process, and its exit code is the verdict, which any program can
forge. It measures what the sandbox's two-process judging costs on top. Started by `forkserver`, as the sandbox starts
its own warm processes: without site, with the standard library alone on sys.path.
"""

import contextlib
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

from sandbox import landlock, program, verdict, warm, wire, zygote
from sandbox.jail import FILE_BYTES, Jail, Limits

EXIT_CODES = {0: "passed", 1: "failed", 2: "error", 3: "syntax"}


def run(item: dict[str, Any], jail: Jail) -> NoReturn:
    """In the fork: shut the jail, run program, setup and tests as one text, and leave by the exit code."""
    code = 2
    try:
        jail.enter([])
        exec("\n".join([item["program"], item["setup"], *item["tests"]]), {"__name__": program.MODULE_NAME})
        code = 0
    except AssertionError:
        code = 1
    except SyntaxError:
        code = 3
    finally:
        os._exit(code)


def judge(item: dict[str, Any], jail: Jail) -> dict[str, Any]:
    """The verdict, in the service's shape: wall time is cut at `timeout_s`."""
    started = time.monotonic()
    jail.allow_cpu(item["timeout_s"])
    pid = os.fork()
    if pid == 0:
        run(item, jail)
    watched = os.pidfd_open(pid)
    late = not select.select([watched], [], [], item["timeout_s"])[0]
    if late:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os.close(watched)
    _, status, usage = os.wait4(pid, 0)
    outcome = EXIT_CODES.get(os.waitstatus_to_exitcode(status), "error")
    record = {"outcome": "timeout" if late else outcome, "detail": ""}
    records = [record] * (len(item["tests"]) if outcome == "passed" else 1)
    return verdict.make(item, records, usage.ru_utime + usage.ru_stime, started)


def main() -> None:
    """The process: settings are scratch, memory_bytes and use_landlock; one socket, to the service."""
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    settings, (service,) = warm.arrive()
    scratch = settings["scratch"]
    limits = Limits(settings["memory_bytes"], FILE_BYTES, zygote.OPEN_FILES)
    os.mkdir(scratch, 0o700)
    os.chdir(scratch)
    program.restore_site_builtins()
    jail = Jail(limits, scratch=scratch, use_landlock=settings["use_landlock"], receives_descriptors=False)
    reader = wire.Reader(service, limit=wire.MAX_ITEM_BYTES)
    warm.settle()
    answer: dict[str, Any] = {"landlock_abi": landlock.abi(), "forked": []}
    with contextlib.suppress(EOFError):
        while True:
            service.sendall(wire.frame(answer, limit=wire.MAX_ITEM_BYTES))
            answer = judge(reader.read(), jail)
            for entry in os.scandir(scratch):
                os.unlink(entry.path)
