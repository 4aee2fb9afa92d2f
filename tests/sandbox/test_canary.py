"""Workers that are damaged for real: their limits lowered from outside, or stopped. They are found and replaced."""

import os
import re
import resource
import signal
from collections.abc import Iterator

import pytest

from tests.sandbox.conftest import get, make_item, post
from tests.sandbox.running import Service, command_of, service, wait_until

SQUARE = "def f(n):\n    return n * n\n"
HUNGRY = "def f(n):\n    room = bytearray(8 << 20)\n    return n * n\n"
TEST = ["assert f(3) == 9"]
SMALL = 1 << 20  # bytes of address space: far less than a warm interpreter has, so that whatever it forks runs out


def warm(running: Service, module: str) -> int:
    """The warm parent that runs `module`: the lowest of the pids that share its command line."""
    return min(pid for pid in running.family() if f"import {module};" in command_of(pid))


def value(metrics_url: str, name: str) -> float:
    """One sample of the metrics."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", get(metrics_url)[1].decode(), re.MULTILINE)
    assert found, name
    return float(found[1])


@pytest.fixture
def metrics_url(unused_port: int) -> str:
    return f"http://127.0.0.1:{unused_port}/metrics"


@pytest.fixture
def watchful(unused_port: int) -> Iterator[Service]:
    """One worker whose canaries run often."""
    with service("--workers", "1", "--metrics-port", str(unused_port), "--canary-seconds", "0.3") as running:
        yield running


@pytest.fixture
def careless(unused_port: int) -> Iterator[Service]:
    """One worker whose canaries do not come round."""
    with service("--workers", "1", "--metrics-port", str(unused_port), "--canary-seconds", "9999") as running:
        yield running


def starve(pid: int) -> None:
    """From outside, let a process have less memory than it uses: it lives, and everything that it forks fails."""
    resource.prlimit(pid, resource.RLIMIT_AS, (SMALL, SMALL))


def test_an_idle_worker_that_is_damaged_is_replaced(watchful: Service, metrics_url: str) -> None:
    zygote = warm(watchful, "zygote")
    starve(zygote)
    assert wait_until(lambda: value(metrics_url, 'sandbox_canaries_total{result="damaged"}') == 1)
    assert wait_until(lambda: value(metrics_url, "sandbox_workers_live") == 1)
    assert warm(watchful, "zygote") != zygote
    assert value(metrics_url, "sandbox_workers_replaced_total") == 1
    assert post(watchful.url, {"items": [make_item(SQUARE, TEST)]})[1]["verdicts"][0]["passed"] is True


def test_sound_workers_stay_although_their_canaries_run(watchful: Service, metrics_url: str) -> None:
    zygote = warm(watchful, "zygote")
    assert wait_until(lambda: value(metrics_url, 'sandbox_canaries_total{result="sound"}') >= 3)
    assert warm(watchful, "zygote") == zygote
    assert value(metrics_url, "sandbox_workers_replaced_total") == 0


def test_an_item_that_a_damaged_worker_judged_is_judged_again(careless: Service, metrics_url: str) -> None:
    starve(warm(careless, "zygote"))
    verdict = post(careless.url, {"items": [make_item(HUNGRY, TEST)]})[1]["verdicts"][0]
    assert verdict["passed"] is True, verdict
    assert value(metrics_url, 'sandbox_canaries_total{result="damaged"}') == 1
    assert value(metrics_url, "sandbox_workers_replaced_total") == 1


def test_an_honest_timeout_costs_no_worker(careless: Service, metrics_url: str) -> None:
    verdict = post(careless.url, {"items": [make_item("while True: pass", TEST, timeout_s=0.2)]})[1]["verdicts"][0]
    assert verdict["outcome"] == "timeout"
    assert value(metrics_url, "sandbox_workers_replaced_total") == 0


@pytest.mark.slow
@pytest.mark.parametrize("module", ["judge", "zygote"])
def test_a_worker_that_hangs_is_replaced(watchful: Service, metrics_url: str, module: str) -> None:
    os.kill(warm(watchful, module), signal.SIGSTOP)
    assert wait_until(lambda: value(metrics_url, "sandbox_workers_replaced_total") == 1, seconds=40)
    assert wait_until(lambda: value(metrics_url, "sandbox_workers_live") == 1)
    assert post(watchful.url, {"items": [make_item(SQUARE, TEST)]})[1]["verdicts"][0]["passed"] is True
