"""A real kill by the kernel for lack of memory: the next attempt takes less at a time, and ends the run."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.train.container import ROOT
from tests.train.conftest import parameters, rows
from tests.train.dying import Attempt, main

PROCESSES = multiprocessing.get_context("forkserver")
# Bytes beyond what the parent has loaded. Measured: a quarter of the batch at a time takes 320 MiB, half of it 390 to
# 440, so that all of it is never survived, and a quarter always is.
LIMIT = 360 * 2**20


@pytest.fixture
def group() -> Iterator[Path]:
    """A memory cgroup with a limit, of whichever version this machine has; its processes can be killed for it."""
    version_1 = (ROOT / "memory/memory.limit_in_bytes").exists()
    folder = ROOT / ("memory" if version_1 else "") / f"grpo-test-{os.getpid()}"
    limit = folder / ("memory.limit_in_bytes" if version_1 else "memory.max")
    try:
        folder.mkdir()
        limit.write_text(str(LIMIT))
    except OSError as error:
        if folder.exists():
            folder.rmdir()
        pytest.skip(f"no memory cgroup can be made here, which takes root and a writable {ROOT} ({error})")
    yield folder
    folder.rmdir()


@pytest.mark.slow
def test_the_attempt_after_a_kill_for_memory_takes_less_at_a_time(
    group: Path, problem_set: Path, tmp_path: Path, store_root: Path, sandbox_url: str
) -> None:
    PROCESSES.set_forkserver_preload(["components.train.training"])
    wide = {"batch_size": 96, "num_generations": 16, "micro_batch_size": 96, "max_completion_length": 128}
    given = {"run_id": "run", **parameters(**wide)}
    log, environment = tmp_path / "log.txt", {"GRPO_STORE": str(store_root), "GRPO_SANDBOX_URL": sandbox_url}
    attempt = Attempt(problem_set, tmp_path / "run/model", log, environment, given, group=group)
    codes = []
    for _ in range(4):
        process = PROCESSES.Process(target=main, args=(attempt,))
        process.start()
        process.join(120)
        codes.append(process.exitcode)
        if process.exitcode == 0:
            break
    told = log.read_text()
    assert codes[0] == -signal.SIGKILL, told
    assert set(codes[:-1]) == {-signal.SIGKILL}, told
    assert codes[-1] == 0, told
    assert "the attempt before was killed while it used 9" in told
    assert "micro_batch_size is 48 now" in told
    assert "batch_size stays 96" in told
    assert [row["step"] for row in rows(store_root, "run")] == list(range(1, 5))
