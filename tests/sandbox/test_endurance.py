"""Ten thousand verdicts in a row leave nothing behind: no zombie, no file, no memory."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.conftest import make_item, post
from tests.sandbox.running import Service, command_of, is_alive, service
from tests.sandbox.test_canary import value

VERDICTS, WARMING_UP, BATCH = 10_000, 1_000, 64
GROWTH = 1.10
TEST = ["assert f(3) == 9"]
TESTS_WITH_TRACES = ["import math\nassert math.isclose(f(3), 9)"]  # which cost the examiner its life
KINDS: list[tuple[str, str]] = [
    ("def f(n):\n    return n * n", "passed"),
    ("def f(n):\n    return n", "failed"),
    ("def f(n):\n    raise KeyError(n)", "error"),
    ("def f(n):\n    with open('x', 'w') as x: x.write('x' * 1000)\n    return n * n", "passed"),
    ("import os\ndef f(n):\n    os._exit(0)", "error"),
    ("def f(n:\n    return n", "syntax"),
    ("def f(n):\n    return len(bytearray(8 << 30))", "memory"),
    ("import threading\ndef f(n):\n    threading.Thread(target=print).start()\n    return n * n", "passed"),
    ("def f(n):\n    return [f] * n", "failed"),
    ("def f(n):\n    print('x' * 100_000)\n    return n * n", "passed"),
]


def batch(start: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Items that differ from all others, and what they must come to."""
    items, outcomes = [], []
    for number in range(start, start + BATCH):
        program, outcome = KINDS[number % len(KINDS)]
        tests = TEST if number % 16 else TESTS_WITH_TRACES
        items.append(make_item(f"{program}\n# {number}", tests, id=str(number)))
        outcomes.append("error" if tests is TESTS_WITH_TRACES and "[f]" in program else outcome)
    return items, outcomes


def judge_until(running: Service, start: int, end: int) -> int:
    for number in range(start, end, BATCH):
        items, outcomes = batch(number)
        verdicts = post(running.url, {"items": items})[1]["verdicts"]
        assert [verdict["outcome"] for verdict in verdicts] == outcomes
        start = number + BATCH
    return start


def memory(running: Service) -> dict[str, int]:
    """Resident memory, in KiB, of the service and of its warm processes (without their forks)."""
    found = {"service": resident(running.process.pid)}
    for module in ("judge", "zygote"):
        pids = sorted(pid for pid in running.family() if f"import {module};" in command_of(pid))
        parents = [pid for pid in pids if parent_of(pid) == running.process.pid]
        found |= {f"{module} {number}": resident(pid) for number, pid in enumerate(parents)}
    return found


def status(pid: int, name: str) -> int:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(row for row in rows if row.startswith(name)).split()[1])


def resident(pid: int) -> int:
    return status(pid, "VmRSS:")


def parent_of(pid: int) -> int:
    return status(pid, "PPid:")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_thousand_verdicts_leave_nothing(tmp_path: Path, unused_port: int) -> None:
    options = ("--workers", "2", "--metrics-port", str(unused_port), "--scratch", str(tmp_path))
    with service(*options) as running:
        descriptors = len(os.listdir(f"/proc/{running.process.pid}/fd"))
        done = judge_until(running, 0, WARMING_UP)
        before = memory(running)
        judge_until(running, done, done + VERDICTS)
        after = memory(running)
        print(f"resident KiB before {before}, after {after}")
        assert after.keys() == before.keys()
        assert sum(after.values()) <= GROWTH * sum(before.values())
        assert all(after[name] <= GROWTH * before[name] for name in before), (before, after)
        family = running.family()
        assert all(map(is_alive, family))
        assert len(family) <= 2 * 4  # judge, zygote, nursery and an examiner for each worker
        metrics_url = f"http://127.0.0.1:{unused_port}/metrics"
        assert value(metrics_url, "sandbox_zombies") == 0
        assert value(metrics_url, "sandbox_workers_replaced_total") == 0
        folders = list(tmp_path.iterdir())
        assert len(folders) == 2
        assert [list(folder.iterdir()) for folder in folders] == [[], []]
        assert abs(len(os.listdir(f"/proc/{running.process.pid}/fd")) - descriptors) <= 3  # connections come and go
    assert list(tmp_path.iterdir()) == []
