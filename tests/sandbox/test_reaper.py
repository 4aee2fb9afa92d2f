"""Ended processes: counted only while nobody reaps them, and reaped when nobody else does."""

import errno
import os
import subprocess
import sys
import time

import pytest
from sandbox import reaper
from sandbox.reaper import Reaper

from tests.sandbox.running import wait_until


def test_a_zombie_that_lasts_is_counted() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", "import os, sys\nif os.fork() == 0: os._exit(0)\nprint(os.getpid())\nsys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        parent.stdout.readline()
        time.sleep(0.1)
        assert reaper.lasting_zombies([parent.pid]) == 1
        assert reaper.lasting_zombies([]) == 0
        parent.stdin.close()


def test_a_child_that_others_wait_for_is_left_to_them() -> None:
    """In a process of its own: this one has children that are nobody's business."""
    script = (
        "import os, subprocess, time\nfrom sandbox.reaper import Reaper, find_zombies\n"
        "own = subprocess.Popen(['true'])\nother = subprocess.Popen(['true'])\ntime.sleep(0.1)\n"
        "reaper = Reaper(lambda: [own.pid])\nreaper.start()\nreaper.wake()\ntime.sleep(0.5)\n"
        "assert find_zombies([os.getpid()]) == {own.pid}\nassert other.wait() == 0\nassert own.wait() == 0\n"
        "reaper.wake()\ntime.sleep(0.5)\nassert find_zombies([os.getpid()]) == set()\n"
    )
    folder = os.path.dirname(os.path.dirname(reaper.__file__))
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_once_stopped_it_leaves_every_child_to_others() -> None:
    script = (
        "import os, subprocess, time\nfrom sandbox.reaper import Reaper, find_zombies\n"
        "reaper = Reaper(list)\nreaper.start()\nreaper.wake()\nreaper.stop()\n"
        "child = subprocess.Popen(['false'])\nreaper.wake()\ntime.sleep(0.5)\nassert child.wait() == 1\n"
    )
    folder = os.path.dirname(os.path.dirname(reaper.__file__))
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_goes_on_when_somebody_was_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []

    def gone(parents: list[int]) -> set[int]:
        rounds.append(parents)
        return {2**22 - 1}  # above any pid that is a child of ours

    monkeypatch.setattr(reaper, "find_zombies", gone)
    monkeypatch.setattr(reaper, "LOOKS", 3)
    tried = Reaper(list)
    tried.start()
    tried.wake()
    assert wait_until(lambda: len(rounds) == 3)


def test_a_kernel_without_adoption_does_not_keep_the_service_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """gVisor answers EINVAL to this prctl (seen with release 20221219)."""

    def refuse(*arguments: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(reaper.kernel, "prctl", refuse)
    Reaper(list).start()
