"""Plain execution: program, setup and tests in one namespace of one process, a fork for each program.

What the sandbox's verdicts are compared with. Run as a script it reads items, in the service's shape, as JSON on
standard input and writes their outcomes. Only for programs that mean no harm: nothing here is confined.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import types
from typing import Any

MEMORY_BYTES = 1 << 30
WALL_FACTOR = 3


def outcomes(items: list[dict[str, Any]], folder: str) -> list[str]:
    """Each item's outcome: passed, failed, error, memory, syntax or timeout; `folder` is where they run."""
    command = [sys.executable, "-I", __file__]
    answer = subprocess.run(command, input=json.dumps(items), capture_output=True, text=True, cwd=folder, check=True)
    judged: list[str] = json.loads(answer.stdout)
    return judged


def _run(item: dict[str, Any]) -> str:
    try:
        program = compile(item["program"], "<program>", "exec")
    except (SyntaxError, ValueError):
        return "syntax"
    module = types.ModuleType("program")
    sys.modules["program"] = module
    running = "the program"
    try:
        exec(program, module.__dict__)
        for running in ("setup", *item["tests"]):
            exec(compile(item["setup"] if running == "setup" else running, "<test>", "exec"), module.__dict__)
    except MemoryError:
        return "memory"
    except AssertionError as error:  # the test's own if its traceback ends there
        frames = error.__traceback__
        while frames and frames.tb_next:
            frames = frames.tb_next
        return "failed" if frames and frames.tb_frame.f_code.co_filename == "<test>" else "error"
    except BaseException:
        return "error"
    return "passed"


def _child(item: dict[str, Any], report: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, item["timeout_s"])  # CPU time; its signal ends the process
    signal.setitimer(signal.ITIMER_REAL, WALL_FACTOR * item["timeout_s"])
    os.write(report, _run(item).encode())


def _judge(item: dict[str, Any]) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _child(item, writer)
        finally:
            os._exit(0)
    os.close(writer)
    said = os.read(reader, 100).decode()
    os.close(reader)
    _, status = os.waitpid(child, 0)
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return said or ("timeout" if ended_by in (signal.SIGPROF, signal.SIGALRM) else "error")


if __name__ == "__main__":
    print(json.dumps([_judge(item) for item in json.load(sys.stdin)]))
