"""Clients share the workers: nobody's batch holds up another's, and the same item is judged once for all."""

import threading
import time
from typing import Any

import pytest
from sandbox.fairness import FairQueue, Job
from sandbox.metrics import Metrics
from sandbox.pool import Full, Pool
from sandbox.worker import Settings

from tests.sandbox.conftest import get, make_item, post
from tests.sandbox.running import service, wait_until
from tests.sandbox.test_canary import value

SQUARE = "def f(n):\n    return n * n\n"
TEST = ["assert f(3) == 9"]
DEADLINE = 1.0
GREEDY = 100
TENTH = 10


def order_of(queue: FairQueue, seconds: dict[str, float]) -> list[str]:
    """Serve everything, each client's jobs taking so long; who was served, in order."""
    served = []
    while (taken := queue.take(0.0)) is not None:
        client, job = taken
        served.append(client)
        assert job.started_at is not None
        job.started_at -= seconds[client]  # as if that much time had passed
        queue.done(client, job)
    return served


def fill(queue: FairQueue, **counts: int) -> None:
    for client, count in counts.items():
        for _ in range(count):
            queue.put(client, Job({}))


def test_equal_clients_take_turns() -> None:
    queue = FairQueue()
    fill(queue, a=4, b=4)
    served = order_of(queue, {"a": 1.0, "b": 1.0})
    assert all(abs(served[:end].count("a") - served[:end].count("b")) <= 1 for end in range(9)), served
    assert len(served) == 8


def test_time_is_shared_and_not_turns() -> None:
    queue = FairQueue()
    fill(queue, slow=5, quick=40)
    served = order_of(queue, {"slow": 10.0, "quick": 1.0})
    assert 9 <= served[: served.index("slow", served.index("slow") + 1)].count("quick") <= 11


def test_a_newcomer_starts_level_and_is_not_favoured_for_ever() -> None:
    queue = FairQueue()
    fill(queue, old=20)
    for _ in range(10):
        client, job = queue.take(0.0) or pytest.fail("nothing to take")
        assert job.started_at is not None
        job.started_at -= 1.0
        queue.done(client, job)
    fill(queue, new=10)
    served = order_of(queue, {"old": 1.0, "new": 1.0})
    assert abs(served[:10].count("new") - 5) <= 1


def test_a_job_of_two_clients_is_taken_once_at_the_earlier_turn() -> None:
    queue = FairQueue()
    fill(queue, a=3)
    shared = Job({})
    queue.put("a", shared)
    queue.put("b", shared)
    queue.put("b", shared)
    assert queue.depth == 4
    taken = []
    while (found := queue.take(0.0)) is not None:
        taken.append(found[1])
        queue.done(*found)
    assert taken.count(shared) == 1
    assert taken.index(shared) <= 1
    assert queue.depth == 0


def test_closing_wakes_whoever_waits() -> None:
    queue = FairQueue()
    waiting = threading.Thread(target=queue.take, args=(None,))
    waiting.start()
    queue.close()
    waiting.join(5)
    assert not waiting.is_alive()
    queue.put("a", Job({}))
    assert queue.take(0.0) is None


def test_one_client_cannot_fill_the_queue() -> None:
    settings = Settings(1 << 30, True, "/nowhere")  # never started
    pool = Pool(settings, workers=1, capacity=1024, canary_seconds=60.0, observer=Metrics())
    items = [make_item(f"{SQUARE}# {index}", TEST, id=str(index)) for index in range(256)]
    for batch in range(3):
        pool.submit("greedy", [{**item, "setup": str(batch)} for item in items])
    with pytest.raises(Full, match=r"share of the queue is full \(768 of 768"):
        pool.submit("greedy", items[:1])
    pool.submit("modest", items)
    with pytest.raises(Full, match=r"queue is full \(1024 of 1024"):
        pool.submit("another", items[:1])


def honest(mark: str) -> list[dict[str, Any]]:
    return [make_item(f"{SQUARE}# {mark} {index}", TEST, id=str(index), timeout_s=DEADLINE) for index in range(8)]


def loop(mark: str) -> dict[str, Any]:
    return make_item(f"# {mark}\nwhile True: pass", TEST, id=mark, timeout_s=DEADLINE)


def seconds_for(url: str, items: list[dict[str, Any]], client: str, outcome: str) -> float:
    started = time.monotonic()
    status, answer, _ = post(url, {"items": items}, {"X-Client-Id": client})
    assert status == 200
    assert all(verdict["outcome"] == outcome for verdict in answer["verdicts"]), answer
    return time.monotonic() - started


@pytest.mark.slow
def test_a_small_batch_waits_at_most_one_deadline_behind_a_greedy_one() -> None:
    with service("--workers", "2") as running:
        alone = seconds_for(running.url, honest("alone"), "modest", "passed")
        # A deadline is CPU time: what it takes on this machine, now, with all workers looping.
        deadline = seconds_for(running.url, [loop("one"), loop("other")], "modest", "timeout")
        greedy = [
            make_item(f"{SQUARE}# {index}", TEST, id=str(index)) if index % TENTH else loop(str(index))
            for index in range(GREEDY)
        ]
        thread = threading.Thread(target=post, args=(running.url, {"items": greedy}, {"X-Client-Id": "greedy"}))
        thread.start()
        assert wait_until(lambda: b'"unfinished":0' not in get(running.url + "/readyz")[1])
        beside = [seconds_for(running.url, honest(f"beside {turn}"), "modest", "passed") for turn in range(3)]
        assert b'"unfinished":0' not in get(running.url + "/readyz")[1]  # the greedy one was there all the time
        assert max(beside) < alone + 1.5 * deadline + 0.3, (alone, deadline, beside)
        thread.join()


@pytest.mark.slow
def test_the_same_item_in_flight_is_judged_once(unused_port: int) -> None:
    metrics_url = f"http://127.0.0.1:{unused_port}/metrics"
    with service("--workers", "1", "--metrics-port", str(unused_port)) as running:
        judged_before = value(metrics_url, "sandbox_item_seconds_count")  # by the self-test
        slow = make_item("import time\ntime.sleep(0.5)\n" + SQUARE, TEST)
        batch = [{**slow, "id": str(index)} for index in range(5)]
        others = [{**slow, "timeout_s": 3.0}, {**slow, "tests": ["assert f(2) == 4"]}, {**slow, "setup": "import math"}]
        others = [{**item, "id": f"other {index}"} for index, item in enumerate(others)]
        answers: list[Any] = []

        def send(client: str) -> None:
            answers.append(post(running.url, {"items": batch + others}, {"X-Client-Id": client})[1]["verdicts"])

        threads = [threading.Thread(target=send, args=(client,)) for client in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for verdicts in answers:
            assert [verdict["id"] for verdict in verdicts] == [item["id"] for item in batch + others]
            assert all(verdict["passed"] for verdict in verdicts)
        assert value(metrics_url, "sandbox_item_seconds_count") - judged_before == 4
        assert value(metrics_url, "sandbox_items_shared_total") == 12
        assert value(metrics_url, 'sandbox_verdicts_total{outcome="passed"}') == 16
        assert value(metrics_url, "sandbox_items_unfinished") == 0
