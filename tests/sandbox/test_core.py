"""A worker's processes stay on one core while they take turns, and are free of it while one of them works."""

import os
import threading

import pytest
from sandbox import kernel
from sandbox.core import Core

from tests.sandbox.conftest import make_item, post
from tests.sandbox.running import command_of, service, wait_until

ALL = os.sched_getaffinity(0)
SQUARE = "def f(n):\n    return n * n"
several_cores = pytest.mark.skipif(len(ALL) < 2, reason="there is one core only")


def test_the_judge_is_followed_and_let_go() -> None:
    """In a fork: it is this process that moves."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            core = Core()
            other = os.fork()
            if other == 0:
                threading.Event().wait(30)
                os._exit(0)
            core.gather([other])
            assert os.sched_getaffinity(0) == os.sched_getaffinity(other) == {kernel.current_core()}
            core.free([other])
            assert os.sched_getaffinity(other) == ALL
            core.rest()  # too early
            assert len(os.sched_getaffinity(0)) == 1
            threading.Event().wait(0.06)
            core.rest()
            assert os.sched_getaffinity(0) == ALL
            core.gather([2**22])  # there is no such process
            os.kill(other, 9)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.slow
@several_cores
def test_a_program_that_works_is_not_held_to_a_core() -> None:
    loop = make_item("def f(n):\n    while True: pass", ["assert f(1) == 1"], timeout_s=1.5)
    with service("--workers", "1") as running:
        post(running.url, {"items": [make_item(SQUARE, ["assert f(3) == 9"])]})
        warm = [pid for pid in running.family() if "zygote" in command_of(pid)]
        assert len(warm) == 1
        assert len(os.sched_getaffinity(warm[0])) == 1
        thread = threading.Thread(target=post, args=(running.url, {"items": [loop]}))
        thread.start()

        def programs() -> list[int]:
            return [pid for pid in running.family() if "zygote" in command_of(pid) and pid not in warm]

        assert wait_until(lambda: programs() and all(os.sched_getaffinity(pid) == ALL for pid in programs()), 1.2)
        thread.join()
