"""References that could not be judged are never called wrong, and too many of them stop the step."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from components.prepare.hidden import HiddenTests
from components.prepare.references import References
from components.shared.errors import InfraError
from components.shared.grading import Grader
from components.shared.problem import Problem
from components.shared.sandbox import SandboxClient


def problem(task_id: int, reference: str) -> Problem:
    return Problem(
        task_id=str(task_id),
        source="own",
        split="train",
        prompt="Return x.\n\ndef f(x):",
        entry_point="f",
        prelude="",
        setup="",
        tests=["assert f(1) == 'one'", "assert f(2) == 'two'"],  # which no constant passes
        hidden_tests=[],
        reference=reference,
        reference_cpu_ms=None,
    )


def references_at(url: str, infra_limit: float) -> References:
    client = SandboxClient(url, retry_seconds=0.0)
    grader = Grader(client, test_timeout_s=1.0, infra_limit=infra_limit)
    return References(grader, HiddenTests(grader, 0, 1))


@pytest.fixture
def losing_service() -> Iterator[str]:
    """A service that passes every program but those that say LOST, which it fails to judge."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            verdicts = [
                {"id": item["id"], "outcome": "infra", "passed": None, "detail": "a worker was lost"}
                if "LOST" in item["program"]
                else {"id": item["id"], "outcome": "passed", "passed": True, "cpu_ms": 2.0}
                for item in asked["items"]
            ]
            body = json.dumps({"verdicts": verdicts}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_one_without_a_verdict_is_left_out_counted_and_not_called_wrong(losing_service: str) -> None:
    references = references_at(losing_service, infra_limit=0.02)
    pool = [problem(n, "LOST" if n == 3 else f"# {n}") for n in range(60)]
    taken = references.take(pool, 55, task="checking", keep_weak=False)
    assert [p.task_id for p in taken] == [str(n) for n in range(60) if n != 3][:55]
    assert references.without_verdict == 1
    (row,) = references.quarantined
    assert (row["task_id"], row["reason"]) == ("3", "its reference could not be judged: a worker was lost")


def test_too_many_without_a_verdict_stop_the_step(losing_service: str) -> None:
    references = references_at(losing_service, infra_limit=0.02)
    with pytest.raises(InfraError, match=r"2 of 60 programs could not be judged, more than infra_limit 0\.02"):
        references.take(
            [problem(n, "LOST" if n < 2 else f"# {n}") for n in range(60)], 60, task="checking", keep_weak=False
        )


def test_a_sandbox_that_does_not_answer_stops_the_step() -> None:
    with pytest.raises(InfraError, match=r"could not be judged.*127\.0\.0\.1:9"):
        references_at("http://127.0.0.1:9", infra_limit=0.5).take(
            [problem(1, "#")], 1, task="checking", keep_weak=False
        )
