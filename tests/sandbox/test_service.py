"""The service as a process: options, refusals, lost workers, a full queue, and what is left when it ends."""

import functools
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.conftest import get, make_item, post
from tests.sandbox.running import FOLDER, command_of, is_alive, is_dead, readiness, run, service, wait_until

SQUARE = "def f(n):\n    return n * n\n"
SLEEP = "import time\ntime.sleep({})\n" + SQUARE
TEST = ["assert f(3) == 9"]


def post_in_background(url: str, items: list[dict[str, Any]]) -> tuple[threading.Thread, list[Any]]:
    answers: list[Any] = []

    def send() -> None:
        try:
            answers.append(post(url, {"items": items}))
        except OSError as error:
            answers.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    return thread, answers


def processes(family: set[int], module: str) -> list[int]:
    """The warm parent that runs `module`, without its forks, which share its command line: the lowest pid."""
    return sorted(pid for pid in family if f"import {module};" in command_of(pid))[:1]


@pytest.mark.parametrize("victim", ["judge", "zygote"])
def test_item_of_a_lost_worker_is_judged_by_another(victim: str) -> None:
    with service("--workers", "1") as running:
        item = make_item(SLEEP.format(1.0), TEST, timeout_s=5.0)
        thread, answers = post_in_background(running.url, [item])
        assert wait_until(lambda: len(running.family()) >= 5)  # judge, zygote, nursery, a fork of each
        (pid,) = processes(running.family(), victim)
        os.kill(pid, signal.SIGKILL)
        thread.join()
        status, answer, _ = answers[0]
        assert status == 200
        assert answer["verdicts"][0]["outcome"] == "passed", answer
        assert pid not in running.family()
        assert readiness(get(running.url + "/readyz")[1])["ready"] is True
        # What the lost one had forked was adopted, and reaped.
        assert wait_until(lambda: all(map(is_alive, running.family())))


def test_items_are_judged_though_the_nursery_is_lost() -> None:
    with service("--workers", "1") as running:
        assert post(running.url, {"items": [make_item(SQUARE, TEST)]})[0] == 200
        judge, nursery, *_ = sorted(pid for pid in running.family() if "import judge;" in command_of(pid))
        os.kill(nursery, signal.SIGKILL)
        items = [make_item(SQUARE, TEST, setup="x = 1"), make_item(SQUARE, TEST, id="other")]
        _, answer, _ = post(running.url, {"items": items})
        assert [verdict["outcome"] for verdict in answer["verdicts"]] == ["passed", "passed"]
        assert wait_until(lambda: all(map(is_alive, running.family())))
        assert not {judge, nursery} & running.family()


def test_item_whose_every_worker_is_lost_is_infra() -> None:
    with service("--workers", "1") as running:
        thread, answers = post_in_background(running.url, [make_item(SLEEP.format(2.0), TEST, timeout_s=5.0)])
        seen: set[int] = set()
        for _ in range(2):
            assert wait_until(lambda: processes(running.family() - seen, "judge"))  # noqa: B023
            (pid,) = processes(running.family() - seen, "judge")
            seen |= running.family()
            os.kill(pid, signal.SIGKILL)
            assert wait_until(functools.partial(is_dead, pid))
        thread.join()
        verdict = answers[0][1]["verdicts"][0]
        assert (verdict["outcome"], verdict["passed"]) == ("infra", None)
        assert "tried 2 times" in verdict["detail"]
        status, answer, _ = post(running.url, {"items": [make_item(SQUARE, TEST)]})
        assert (status, answer["verdicts"][0]["passed"]) == (200, True)


def test_program_killed_from_outside_is_judged_again() -> None:
    with service("--workers", "1") as running:
        thread, answers = post_in_background(running.url, [make_item(SLEEP.format(1.0), TEST, timeout_s=5.0)])

        def zygotes() -> list[int]:
            return sorted(pid for pid in running.family() if "import zygote;" in command_of(pid))

        assert wait_until(lambda: len(zygotes()) == 2)
        os.kill(zygotes()[1], signal.SIGKILL)  # the zygote's fork: the program
        thread.join()
        assert answers[0][1]["verdicts"][0]["outcome"] == "passed"


def test_full_queue_refuses_the_whole_request() -> None:
    with service("--workers", "1", "--queue", "256") as running:
        slow = [make_item(SLEEP.format(0.05), TEST, id=str(index), timeout_s=2 + index) for index in range(30)]
        thread, answers = post_in_background(running.url, slow)
        assert wait_until(lambda: readiness(get(running.url + "/readyz")[1])["unfinished"] >= 20)
        many = [make_item(SQUARE, TEST, id=str(index)) for index in range(250)]
        status, answer, headers = post(running.url, {"items": many})
        assert status == 429
        assert 1 <= int(headers["retry-after"]) <= 30
        assert "full" in answer["detail"]
        thread.join()
        assert [verdict["passed"] for verdict in answers[0][1]["verdicts"]] == [True] * 30


@pytest.mark.slow
def test_waiting_in_the_queue_costs_an_item_nothing() -> None:
    with service("--workers", "1") as running:
        items = [make_item(f"{SLEEP.format(0.2)}# {index}", TEST, id=str(index), timeout_s=0.3) for index in range(10)]
        status, answer, _ = post(running.url, {"items": items})
        assert status == 200
        assert [verdict["outcome"] for verdict in answer["verdicts"]] == ["passed"] * 10


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_it_ends(how: signal.Signals, tmp_path: Path) -> None:
    with service("--workers", "2", "--grace", "0.3", "--scratch", str(tmp_path)) as running:
        busy = [make_item("while True: pass", TEST, id=str(index), timeout_s=30.0 + index) for index in range(4)]
        thread, answers = post_in_background(running.url, busy)
        assert wait_until(lambda: len(running.family()) >= 10)
        family = running.family()
        assert len(list(tmp_path.iterdir())) == 2
        running.process.send_signal(how)
        assert running.process.wait(20) is not None
        assert wait_until(lambda: not any(map(is_alive, family)))
        assert wait_until(lambda: not list(tmp_path.iterdir()))
        thread.join()
        if how != signal.SIGKILL:
            status, answer, headers = answers[0]
            assert (status, headers["retry-after"]) == (503, "1")
            assert "stopping" in answer["detail"]


def test_what_is_running_is_finished_when_told_to_stop() -> None:
    with service("--workers", "1", "--grace", "10") as running:
        items = [make_item(f"{SLEEP.format(0.4)}# {index}", TEST, id=str(index)) for index in range(3)]
        thread, answers = post_in_background(running.url, items)
        assert wait_until(lambda: readiness(get(running.url + "/readyz")[1])["unfinished"] == 3)
        running.process.terminate()
        thread.join()
        status, answer, _ = answers[0]
        assert status == 200
        assert [verdict["passed"] for verdict in answer["verdicts"]] == [True] * 3
        with pytest.raises(OSError):  # nobody new is let in
            get(running.url + "/healthz")


def test_it_ends_with_its_parent() -> None:
    with service("--workers", "1", "--exit-with-parent") as running:
        assert running.process.stdin is not None
        running.process.stdin.close()
        assert running.process.wait(20) == 0


def test_it_stays_when_its_parent_says_nothing() -> None:
    with service("--workers", "1") as running:
        assert running.process.stdin is not None
        running.process.stdin.close()
        assert post(running.url, {"items": [make_item(SQUARE, TEST)]})[0] == 200
        assert running.process.poll() is None


def test_token_is_asked_for_where_one_is_set() -> None:
    with service("--workers", "1", environment={"SANDBOX_TOKEN": "secret"}) as running:
        body = {"items": [make_item("import os\ndef f(n):\n    return dict(os.environ)", ["assert f(3) == {}"])]}
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
            status, answer, _ = post(running.url, body, headers)
            assert status == 401
            assert "token" in answer["detail"]
        status, answer, _ = post(running.url, body, {"Authorization": "Bearer secret"})
        assert (status, answer["verdicts"][0]["passed"]) == (200, True)
        assert get(running.url + "/readyz")[0] == get(running.url + "/healthz")[0] == 200


def test_metrics_have_a_port_of_their_own(unused_port: int) -> None:
    with service("--workers", "1", "--metrics-port", str(unused_port)) as running:
        assert get(running.url + "/metrics")[0] == 404
        post(running.url, {"items": [make_item(SQUARE, TEST)]})
        status, body = get(f"http://127.0.0.1:{unused_port}/metrics")
        assert status == 200
        assert b'sandbox_verdicts_total{outcome="passed"} 1.0' in body
        assert b"sandbox_workers_live 1.0" in body
        assert b"sandbox_queue_depth 0.0" in body
        assert b"sandbox_zombies 0.0" in body
        assert b'sandbox_requests_total{status="200"} 1.0' in body
        assert b"sandbox_request_seconds_count 1.0" in body


def test_without_landlock_it_judges_writes_nothing_and_says_so() -> None:
    with service("--workers", "1", "--without-landlock") as running:
        layers = readiness(get(running.url + "/readyz")[1])["layers"]
        for name in ("reading", "tests: reading"):
            assert (layers[name]["state"], layers.pop(name)["required"]) == ("absent", False)
        assert {layer["state"] for layer in layers.values()} == {"holds"}
        items = [
            make_item(SQUARE, TEST, id="right"),
            make_item("def f(n):\n    return 0", TEST, id="wrong"),
            make_item("open('x', 'w')\n" + SQUARE, TEST, id="writes"),
            make_item("import os\nopen(f'/proc/{os.getppid()}/mem', 'rb')\n" + SQUARE, TEST, id="looks"),
        ]
        _, answer, _ = post(running.url, {"items": items})
        assert [verdict["outcome"] for verdict in answer["verdicts"]] == ["passed", "failed", "error", "error"]


def test_self_test_prints_what_readyz_says() -> None:
    ending = run("--self-test", "--workers", "1")
    assert ending.returncode == 0, ending.stderr
    answer = readiness(ending.stdout.encode())
    assert answer["ready"] is True
    assert {"network", "processes", "reading", "writing", "memory", "CPU time"} <= set(answer["layers"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--workers", "0"], "--workers is 0"),
        (["--queue", "10"], "--queue is 10"),
        (["--memory-mib", "1"], "--memory-mib is 1"),
        (["--scratch", "/nowhere"], "--scratch is /nowhere"),
        (["--port", "x"], "--port"),
        (["--nonsense"], "--nonsense"),
        (["--canary-seconds", "0"], "--canary-seconds is 0"),
        (["--runtime", "docker"], "--runtime"),
        (["--optional-layer", "verdicts"], "--optional-layer"),
        (["--exit-with-parent"], "needs a pipe"),
        (["--host", "999.0.0.1", "--port", "0"], "cannot listen on 999.0.0.1"),
        (["--port", "99999"], "port must be 0-65535"),
        (["--port", "0", "--metrics-port", "99999"], "cannot serve metrics"),
    ],
)
def test_mistakes_in_options_are_one_sentence(options: list[str], words: str) -> None:
    ending = run(*options)
    assert ending.returncode == 2
    assert words in ending.stderr.splitlines()[-1]
    assert "Traceback" not in ending.stderr


def test_a_taken_port_is_one_sentence(sandbox_url: str) -> None:
    ending = run("--port", sandbox_url.rsplit(":", 1)[1])
    assert ending.returncode == 2
    assert "cannot listen" in ending.stderr
    assert "Traceback" not in ending.stderr


def test_the_readme_lists_the_options_that_there_are() -> None:
    offered = set(re.findall(r"--[a-z-]+", run("--help").stdout)) - {"--help"}
    listed = set(re.findall(r"`(--[a-z-]+)`", (FOLDER / "README.md").read_text()))
    assert offered == listed


def test_the_readme_lists_the_metrics_that_there_are(unused_port: int) -> None:
    listed = set(re.findall(r"`(sandbox_[a-z_]+)`", (FOLDER / "README.md").read_text()))
    with service("--workers", "1", "--metrics-port", str(unused_port)):
        text = get(f"http://127.0.0.1:{unused_port}/metrics")[1].decode()
    names = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    assert listed == {name for name in names if not name.endswith("_created")}
