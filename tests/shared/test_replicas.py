"""The client against replicas that die: two real services and one real judge, killed in mid-batch; and who is asked."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from components.shared import replicas
from components.shared.errors import InfraError, UserError
from components.shared.grading import Grader
from components.shared.replicas import Replicas
from components.shared.sandbox import ITEMS_PER_REQUEST, Item, SandboxClient, SandboxUnavailable, Verdict
from tests.builders import make_problem
from tests.sandbox.running import Service, command_of, is_dead, service, wait_until

SLOW = "import time\ntime.sleep(0.08)\ndef f(n):\n    return n * {factor}  # {mark}\n"
BATCH = 3 * ITEMS_PER_REQUEST


def slow_items() -> list[Item]:
    """Every third is wrong; all differ."""
    programs = [SLOW.format(factor="n" if mark % 3 else "2", mark=mark) for mark in range(BATCH)]
    return [Item(program, "f", "", ["assert f(3) == 9"], 3.0) for program in programs]


def judge_meanwhile(client: SandboxClient) -> tuple[threading.Thread, list[Verdict]]:
    verdicts: list[Verdict] = []
    thread = threading.Thread(target=lambda: verdicts.extend(client.judge(slow_items())))
    thread.start()
    return thread, verdicts


def programs_of(running: Service) -> list[int]:
    """The forks of the zygote."""
    return sorted(pid for pid in running.family() if "import zygote;" in command_of(pid))[1:]


@pytest.fixture
def two_services() -> Iterator[tuple[Service, Service]]:
    with service("--workers", "1") as first, service("--workers", "1") as second:
        yield first, second


@pytest.mark.slow
def test_a_replica_killed_in_mid_batch_costs_no_verdict(two_services: tuple[Service, Service]) -> None:
    first, second = two_services
    client = SandboxClient(f"{first.url},{second.url}", retry_seconds=60)
    thread, verdicts = judge_meanwhile(client)
    assert wait_until(lambda: programs_of(first) and programs_of(second))
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    thread.join()
    assert [verdict.passed for verdict in verdicts] == [mark % 3 != 0 for mark in range(BATCH)]


def test_a_judge_killed_in_mid_batch_costs_no_verdict() -> None:
    with service("--workers", "2") as running:
        thread, verdicts = judge_meanwhile(SandboxClient(running.url, retry_seconds=60))
        assert wait_until(lambda: programs_of(running))
        judges = sorted(pid for pid in running.family() if "import judge;" in command_of(pid))
        os.kill(judges[0], signal.SIGKILL)
        assert wait_until(lambda: is_dead(judges[0]))
        thread.join()
        assert [verdict.passed for verdict in verdicts] == [mark % 3 != 0 for mark in range(BATCH)]


def test_without_any_replica_the_sandbox_is_unavailable() -> None:
    client = SandboxClient("http://127.0.0.1:9,http://127.0.0.2:9", retry_seconds=0.2)
    with pytest.raises(SandboxUnavailable, match=r"127\.0\.0\.[12]:9 is not ready"):
        client.version()
    with pytest.raises(SandboxUnavailable, match="1 of 1 programs could not be judged"):
        Grader(client, test_timeout_s=5, infra_limit=0.02).grade([(make_problem(), "pass")])
    assert issubclass(SandboxUnavailable, InfraError)


def test_the_version_comes_from_whichever_replica_is_up(sandbox_url: str) -> None:
    version = SandboxClient(f"http://127.0.0.1:9,{sandbox_url}", retry_seconds=10).version()
    assert version == SandboxClient(sandbox_url, retry_seconds=10).version() != ""


def test_a_lost_replica_is_asked_again_only_after_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "FIRST_REST_SECONDS", 0.2)
    both = Replicas("http://127.0.0.1:1,http://127.0.0.1:2")
    first, second = both.urls
    assert [both.choose(turn) for turn in range(3)] == [(first, 0.0), (second, 0.0), (first, 0.0)]
    both.lost(first)
    both.lost(first)  # by another request at the same time: counts once
    assert {both.choose(turn) for turn in range(9)} == {(second, 0.0)}
    time.sleep(0.3)
    assert both.choose(0) == (first, 0.0)
    both.lost(first)
    time.sleep(0.3)
    assert {both.choose(turn) for turn in range(9)} == {(second, 0.0)}  # the second rest is longer
    both.answered(first)
    assert both.choose(0) == (first, 0.0)


def test_when_all_rest_the_first_to_wake_is_waited_for() -> None:
    both = Replicas("http://127.0.0.1:1,http://127.0.0.1:2")
    first, second = both.urls
    both.busy(first, 20.0)
    both.busy(second, 5.0)
    waits = {wait for url, wait in (both.choose(turn) for turn in range(20)) if url == second}
    assert len(waits) == 20  # spread by chance
    assert all(4.9 < wait < 5.0 * 1.25**2 for wait in waits)


def test_an_address_that_is_none_is_refused() -> None:
    for url in ("", "localhost:8080", "ftp://x", " , "):
        with pytest.raises(UserError, match="sandbox_url"):
            Replicas(url)
