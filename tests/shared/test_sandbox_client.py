"""The client against a real HTTP server that misbehaves on purpose."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from components.shared.errors import InfraError
from components.shared.grading import Grader, count_outcomes, reward_of, timeout_of
from components.shared.sandbox import ITEMS_PER_REQUEST, Item, SandboxClient, SandboxUnavailable, Verdict
from tests.builders import make_problem

Script = Callable[[int, dict[str, Any]], tuple[int, dict[str, str], Any] | None]


class Server:
    """Answers the n-th request as `script(n, body)` says: (status, headers, JSON), or None to drop the connection."""

    def __init__(self, script: Script) -> None:
        self.requests: list[dict[str, Any]] = []
        outer, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    turn = len(outer.requests)
                    outer.requests.append(body)
                answer = script(turn, body)
                if answer is None:
                    self.close_connection = True
                    return
                status, headers, content = answer
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def serve() -> Iterator[Callable[[Script], Server]]:
    servers: list[Server] = []

    def start(script: Script) -> Server:
        servers.append(Server(script))
        return servers[-1]

    yield start
    for server in servers:
        server.http.shutdown()
        server.http.server_close()


def right(_: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    """Passes what says "good", fails the rest."""
    verdicts = [
        {"id": item["id"], "outcome": "passed" if item["program"].startswith("good") else "failed",
         "passed": item["program"].startswith("good"), "tests": [], "detail": "", "cpu_ms": 1, "wall_ms": 1}
        for item in body["items"]
    ]  # fmt: skip
    return 200, {}, {"verdicts": verdicts}


def item(program: str) -> Item:
    return Item(program=program, entry_point="f", setup="", tests=["assert f()"], timeout_s=1.0)


def test_batches_are_split_and_come_back_in_order(serve: Callable[[Script], Server]) -> None:
    server = serve(right)
    programs = [f"{'good' if n % 3 else 'bad'} {n}" for n in range(5 * ITEMS_PER_REQUEST + 1)]
    verdicts = SandboxClient(server.url).judge([item(program) for program in programs])
    assert [verdict.passed for verdict in verdicts] == [program.startswith("good") for program in programs]
    assert len(server.requests) == 6
    assert SandboxClient(server.url).judge([]) == []


def test_a_program_with_half_a_surrogate_pair_takes_no_neighbour_along(sandbox_url: str) -> None:
    passing = Item(program="def f():\n    return 1\n", entry_point="f", setup="", tests=["assert f()"], timeout_s=1.0)
    broken = Item(**{**vars(passing), "program": "def f():\n    return '\ud800'\n"})
    first, second, third = SandboxClient(sandbox_url).judge([passing, broken, passing])
    assert (first.passed, second.outcome, third.passed) == (True, "rejected", True)


def test_all_replicas_of_a_list_are_used(serve: Callable[[Script], Server]) -> None:
    servers = [serve(right), serve(right)]
    client = SandboxClient(f"{servers[0].url}, {servers[1].url}")
    client.judge([item("good")] * (4 * ITEMS_PER_REQUEST))
    assert [len(server.requests) for server in servers] == [2, 2]


@pytest.mark.parametrize(("count", "shares"), [(1, [1, 0]), (2, [1, 1]), (8, [4, 4]), (20, [10, 10]), (40, [20, 20])])
def test_a_batch_is_shared_by_the_replicas_however_small(
    serve: Callable[[Script], Server], count: int, shares: list[int]
) -> None:
    servers = [serve(right), serve(right)]
    client = SandboxClient(f"{servers[0].url},{servers[1].url}")
    programs = [f"{'good' if n % 3 else 'bad'} {n}" for n in range(count)]
    verdicts = client.judge([item(program) for program in programs])
    assert [verdict.passed for verdict in verdicts] == [program.startswith("good") for program in programs]
    assert [sum(len(request["items"]) for request in server.requests) for server in servers] == shares


def test_the_addresses_behind_one_name_share_a_small_batch(
    serve: Callable[[Script], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = [serve(right), serve(right)]
    monkeypatch.setattr("components.shared.replicas._addresses", lambda _: [server.url for server in servers])
    SandboxClient("http://sandbox:8080").judge([item(f"good {n}") for n in range(8)])
    assert [[len(request["items"]) for request in server.requests] for server in servers] == [[4], [4]]


def test_the_share_of_a_replica_that_is_away_goes_to_the_other(serve: Callable[[Script], Server]) -> None:
    server = serve(right)
    programs = [f"{'good' if n % 2 else 'bad'} {n}" for n in range(8)]
    for urls in (f"http://127.0.0.1:9,{server.url}", f"{server.url},http://127.0.0.1:9"):
        server.requests.clear()
        verdicts = SandboxClient(urls, retry_seconds=10).judge([item(program) for program in programs])
        assert [verdict.passed for verdict in verdicts] == [False, True] * 4
        assert sorted(len(request["items"]) for request in server.requests) == [4, 4]


@pytest.mark.parametrize(
    "trouble",
    [
        lambda turn, body: (429, {"Retry-After": "0.1"}, {"detail": "queue full"}) if turn < 3 else right(turn, body),
        lambda turn, body: (503, {"Retry-After": "0"}, {}) if turn == 0 else right(turn, body),
        lambda turn, body: None if turn < 2 else right(turn, body),
        lambda turn, body: (200, {}, b"{not json") if turn == 0 else right(turn, body),
        lambda turn, body: (200, {}, {"verdicts": []}) if turn == 0 else right(turn, body),
        lambda turn, body: (
            (200, {}, {"verdicts": [{"id": "0", "outcome": "failed", "passed": True}]})
            if turn == 0
            else right(turn, body)
        ),
    ],
    ids=["queue full", "restarting", "connection lost", "no JSON", "verdicts missing", "contradiction"],
)
def test_what_was_refused_or_lost_is_tried_again(serve: Callable[[Script], Server], trouble: Script) -> None:
    (verdict,) = SandboxClient(serve(trouble).url, retry_seconds=20).judge([item("good")])
    assert verdict.passed is True


def test_a_replica_that_is_away_is_passed_over(serve: Callable[[Script], Server]) -> None:
    client = SandboxClient(f"http://127.0.0.1:9,{serve(right).url}", retry_seconds=10)
    assert [verdict.passed for verdict in client.judge([item("good"), item("bad")])] == [True, False]


def test_a_full_queue_at_one_replica_is_taken_to_the_other_at_once(serve: Callable[[Script], Server]) -> None:
    full = serve(lambda turn, body: (429, {"Retry-After": "9"}, {"detail": "queue full"}))
    free = serve(right)
    started = time.monotonic()
    client = SandboxClient(f"{full.url},{free.url}", retry_seconds=20)
    for _ in range(4):
        assert client.judge([item("good")])[0].passed is True
    assert time.monotonic() - started < 5
    assert (len(full.requests), len(free.requests)) == (1, 4)


def test_a_service_that_keeps_failing_is_given_up_at_the_deadline(serve: Callable[[Script], Server]) -> None:
    server = serve(lambda turn, body: (500, {}, {"detail": "a bug"}))
    started = time.monotonic()
    (verdict,) = SandboxClient(server.url, retry_seconds=1.5).judge([item("good")])
    assert (verdict.outcome, verdict.passed) == ("infra", None)
    assert time.monotonic() - started < 3
    assert 2 <= len(server.requests) <= 5  # each pause is twice the last


def test_what_cannot_be_judged_is_infra_and_never_wrong(serve: Callable[[Script], Server]) -> None:
    refusing = serve(lambda turn, body: (422, {}, {"detail": "tests: too many"}))
    for url in ("http://127.0.0.1:9", refusing.url):
        (verdict,) = SandboxClient(url, retry_seconds=0.3).judge([item("good")])
        assert (verdict.outcome, verdict.passed, reward_of(verdict)) == ("infra", None, None)
        assert url in verdict.detail
    assert len(refusing.requests) == 1  # a request that is wrong stays wrong


def test_waiting_for_a_sandbox_is_not_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.shared.sandbox.QUIET_SECONDS", 0.3)
    SandboxClient("http://127.0.0.1:9", retry_seconds=2).judge([item("good")] * 2)
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 1
    assert told[0].startswith("sandbox: no verdicts from http://127.0.0.1:9 (")
    assert "trying again for" in told[0]


def test_the_version_is_an_infrastructure_failure_without_a_sandbox() -> None:
    with pytest.raises(InfraError, match=r"127\.0\.0\.1:9 is not ready"):
        SandboxClient("http://127.0.0.1:9", retry_seconds=0.2).version()


@pytest.mark.parametrize(("cpu_ms", "seconds"), [(None, 5), (1, 0.5), (100, 2), (3000, 5)])
def test_the_deadline_is_twenty_times_the_reference_within_bounds(cpu_ms: float | None, seconds: float) -> None:
    assert timeout_of(make_problem(reference_cpu_ms=cpu_ms), 5.0) == seconds


def test_equal_programs_are_judged_once(serve: Callable[[Script], Server]) -> None:
    server = serve(right)
    grader = Grader(SandboxClient(server.url), test_timeout_s=5, infra_limit=0)
    verdicts = grader.grade([(make_problem(), "good"), (make_problem(), "bad"), (make_problem(), "good")])
    assert [verdict.passed for verdict in verdicts] == [True, False, True]
    assert [len(request["items"]) for request in server.requests] == [2]
    assert count_outcomes(verdicts) == {"passed": 2, "failed": 1}


def test_the_run_stops_when_too_much_is_lost(serve: Callable[[Script], Server]) -> None:
    with pytest.raises(InfraError, match=r"1 of 1 programs could not be judged.*127\.0\.0\.1:9"):
        Grader(SandboxClient("http://127.0.0.1:9", retry_seconds=0.1), test_timeout_s=5, infra_limit=0.02).grade(
            [(make_problem(), "good")]
        )

    def losing(share: float) -> Script:
        def script(turn: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
            answer = right(turn, body)
            for row in answer[2]["verdicts"][: round(share * len(body["items"]))]:
                row.update(outcome="infra", passed=None)
            return answer

        return script

    pairs = [(make_problem(), f"good {n}") for n in range(100)]
    tolerant = Grader(SandboxClient(serve(losing(0.1)).url), test_timeout_s=5, infra_limit=0.2)
    assert sum(verdict.passed is None for verdict in tolerant.grade(pairs)) > 0
    strict = Grader(SandboxClient(serve(losing(0.1)).url), test_timeout_s=5, infra_limit=0.02)
    with pytest.raises(InfraError, match=r"more than infra_limit 0\.02 allows"):
        strict.grade(pairs)


def broken(turn: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    """A service that answers, and can judge nothing."""
    answer = right(turn, body)
    for row in answer[2]["verdicts"]:
        row.update(outcome="infra", passed=None, detail="no worker could be started")
    return answer


@pytest.mark.parametrize("judged", [0, 49, 1_000, 100_000])
@pytest.mark.parametrize("answers", [False, True])
def test_a_batch_of_which_nothing_could_be_judged_stops_the_run_however_late(
    serve: Callable[[Script], Server], judged: int, answers: bool
) -> None:
    url = serve(broken).url if answers else "http://127.0.0.1:9"
    reason = "no worker could be started" if answers else r"127\.0\.0\.1:9"
    kind = InfraError if answers else SandboxUnavailable
    pairs = [(make_problem(), f"good {n}") for n in range(8)]

    def grader(infra_limit: float) -> Grader:
        made = Grader(SandboxClient(url, retry_seconds=0.1), test_timeout_s=5, infra_limit=infra_limit)
        made.judged = judged
        return made

    for limit in (0.0, 0.02, 0.5, 0.99):
        with pytest.raises(InfraError, match=rf"8 (of \d+ )?programs could not be judged.*{reason}") as stopped:
            grader(limit).grade(pairs)
        assert type(stopped.value) is kind
        within = limit * (judged + 8) >= 8
        assert ("All of the last 8 programs" in str(stopped.value)) == within  # what it says of infra_limit is true
        assert ("more than infra_limit" in str(stopped.value)) != within
    assert {verdict.passed for verdict in grader(1.0).grade(pairs)} == {None}


def test_one_program_alone_that_takes_its_worker_along_is_a_part_of_the_share(
    serve: Callable[[Script], Server],
) -> None:
    grader = Grader(SandboxClient(serve(broken).url), test_timeout_s=5, infra_limit=0.02)
    grader.judged = 1_000
    same = [(make_problem(), "good")] * 4
    for _ in range(5):
        assert {verdict.passed for verdict in grader.grade(same)} == {None}
    with pytest.raises(InfraError, match=r"24 of 1024 programs could not be judged, more than infra_limit 0\.02"):
        grader.grade(same)
    grader.client = SandboxClient("http://127.0.0.1:9", retry_seconds=0.1)
    grader.judged = 100_000
    with pytest.raises(SandboxUnavailable, match=r"All of the last 1 programs could not be judged"):
        grader.grade(same[:1])


def test_a_verdict_names_its_failing_test() -> None:
    rows = [{"index": 0, "outcome": "passed"}, {"index": 1, "outcome": "failed"}, {"index": 2, "outcome": "not_run"}]
    verdict = Verdict.model_validate({"id": "0", "outcome": "failed", "passed": False, "tests": rows})
    assert verdict.failing_test == 1
