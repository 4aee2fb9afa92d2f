"""Putting a verdict together: from the records of the tests, and from how the processes behind them ended."""

import os
import signal
import time
from typing import Any, NamedTuple

MAX_PROGRAM = 256 * 1024  # characters of a program
MAX_SCRATCH_FILES = 64  # that a program may have at a time
MAX_THREADS = 256  # likewise: with small stacks its address space has room for so many that others could not fork
LARGE_MEMORY_BYTES = 256 << 20  # a program that held this much is itself why the kernel killed it
OUTPUTS = "outputs"  # key of an item that asks for outputs
OUTPUT = "output"  # key of a record that says what a call returned (see calls)
RETRY = "retry"  # key of a verdict that another try might better; never leaves the service


class Ending(NamedTuple):
    """How a jailed program ended; only of one that went away by itself is more known than its CPU time."""

    by_itself: bool = False
    status: int = 0
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    overflowed: bool = False


def refuse(program: str) -> str:
    """Why a program is not even compiled, "" if it is."""
    if len(program) > MAX_PROGRAM:
        return f"the program has {len(program)} characters, above the limit of {MAX_PROGRAM}"
    if "\0" in program:
        return "the program contains a null character"
    try:
        program.encode()
    except UnicodeEncodeError:
        return "the program contains half a surrogate pair, which is no text"
    return ""


def complete(
    tests: list[dict[str, Any]],
    *,
    expected: int,
    timeout_s: float,
    trouble: str,
    cut: str,
    program_loading: bool,
    examiner_status: int,
    ending: Ending,
) -> None:
    """Complete the records of a run in place: what became of the test that has none, or whose program went away.

    Args:
        tests: one record a test, in order, as far as the examiner came.
        expected: number of tests of the item.
        timeout_s: CPU time it was allowed, in seconds.
        trouble: what went wrong with the jail before anything foreign ran, "" if nothing.
        cut: why the run was cut off, "" if it was not.
        program_loading: whether it had come as far as the program: before that, the data set is to blame.
        examiner_status: wait status of the tests' process.
        ending: of the program's process.
    """
    if tests and tests[-1]["outcome"] == "gone":
        tests[-1].update(explain_ending(ending, timeout_s))
    if len(tests) == expected or (tests and tests[-1]["outcome"] != "passed"):
        return
    if trouble:
        outcome = _infra(trouble)
    elif cut and program_loading:
        outcome = {"outcome": "timeout", "detail": cut}
    elif cut:
        outcome = {
            "outcome": "infra",
            "detail": f"the data set is at fault: without the program it took {cut}",
        }
    else:
        outcome = explain_examiner(program_loading, examiner_status)
    tests.append({"index": len(tests), **outcome})


def explain_ending(ending: Ending, timeout_s: float) -> dict[str, Any]:
    """Outcome and detail of a program whose process went away."""
    if ending.overflowed:
        detail = f"the program made more than {MAX_SCRATCH_FILES} files or {MAX_THREADS} threads"
        return {"outcome": "error", "detail": detail}
    if not ending.by_itself:
        return {"outcome": "error", "detail": "the program closed its connection to the judge"}
    if os.WIFEXITED(ending.status):
        code = os.WEXITSTATUS(ending.status)
        return {"outcome": "error", "detail": f"the program ended its process (exit code {code})"}
    number = os.WTERMSIG(ending.status)
    if ending.cpu_seconds > timeout_s and number in (signal.SIGXCPU, signal.SIGKILL):
        return {"outcome": "timeout", "detail": f"more than {timeout_s:g} s of CPU time"}
    if number == signal.SIGKILL and ending.memory_bytes > LARGE_MEMORY_BYTES:
        return {"outcome": "memory", "detail": "the machine ran out of memory, and the program had much of it"}
    if number == signal.SIGKILL:  # not ours, and a jailed program cannot send it
        return _infra("the program's process was killed from outside")
    return {"outcome": "error", "detail": f"the program was killed by {_signal_name(number)}"}


def explain_examiner(program_loading: bool, status: int) -> dict[str, Any]:
    """Outcome and detail when the tests' process ended without a record."""
    if not os.WIFSIGNALED(status):
        code = os.WEXITSTATUS(status)
        return {"outcome": "infra", "detail": f"the tests ended their own process (exit code {code})"}
    number = os.WTERMSIG(status)
    if number == signal.SIGKILL or not program_loading:
        return _infra(f"the tests were killed by {_signal_name(number)}")
    if number == signal.SIGXCPU:
        return {"outcome": "timeout", "detail": "the tests ran out of CPU time on what the program returned"}
    return {"outcome": "error", "detail": f"the tests crashed on what the program returned ({_signal_name(number)})"}


def make(item: dict[str, Any], records: list[dict[str, Any]], cpu_seconds: float, started: float) -> dict[str, Any]:
    """The verdict in the response's shape; tests without a record have not run. RETRY marks what may be retried."""
    tests = [
        {"index": index, "outcome": record["outcome"], "detail": _text(record["detail"])}
        # A hostile test may write an output too.
        | ({OUTPUT: [_text(part) for part in record[OUTPUT]]} if OUTPUT in record and item.get(OUTPUTS) else {})
        for index, record in enumerate(records)
    ]
    decisive = next((test for test in tests if test["outcome"] != "passed"), tests[-1])
    outcome = decisive["outcome"]
    tests += [{"index": index, "outcome": "not_run", "detail": ""} for index in range(len(tests), len(item["tests"]))]
    verdict = {
        "id": item["id"],
        "outcome": outcome,
        "passed": None if outcome == "infra" else outcome == "passed",
        "tests": tests,
        "detail": decisive["detail"],
        "cpu_ms": round(cpu_seconds * 1000, 3),
        "wall_ms": round((time.monotonic() - started) * 1000, 3),
    }
    if any(RETRY in record for record in records):
        verdict[RETRY] = True
    return verdict


def _infra(detail: str) -> dict[str, Any]:
    return {"outcome": "infra", "detail": detail, RETRY: True}


def _text(text: str) -> str:
    """A text that any encoder can write."""
    return text.encode("utf-8", "backslashreplace").decode()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
