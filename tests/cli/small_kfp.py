"""A server that speaks the few endpoints of Kubeflow Pipelines which submitting needs, and keeps what it is sent.

It decides nothing: what a backend makes of a request is tried on a real one (tests marked `kfp`).
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

API = "/apis/v2beta1"


class SmallKfp:
    """Its address, the bodies that it was sent by path, the answers that it gives, and the tokens that it saw."""

    def __init__(self) -> None:
        self.url = ""
        self.sent: list[tuple[str, str, Any]] = []
        self.tokens: set[str] = set()
        self.health: dict[str, Any] = {"tag_name": "2.17.0", "multi_user": False}
        self.runs: dict[str, Any] = {}
        self.schedules: list[dict[str, Any]] = []
        self.refuse: tuple[int, str] | None = None

    def bodies(self, path: str) -> list[Any]:
        return [body for method, sent_to, body in self.sent if method == "POST" and sent_to == API + path]

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        path = path.removeprefix(API)
        if path == "/healthz":
            return 200, self.health
        if self.refuse:
            return self.refuse[0], {"error": "refused", "message": self.refuse[1], "code": 3}
        if path == "/experiments":
            return 200, {"experiment_id": "e1", **(body or {})} if method == "POST" else {}
        if path == "/runs":
            return 200, {"run_id": "r1", **body}
        if path.startswith("/runs/"):
            run = self.runs.get(path.rpartition("/")[2])
            return (200, run) if run else (404, {"message": "Run not found", "code": 5})
        if path == "/recurringruns":
            return 200, {"recurring_run_id": "s1", **body} if method == "POST" else {"recurringRuns": self.schedules}
        return 200, {}


@contextmanager
def small_kfp() -> Iterator[SmallKfp]:
    """A running server on a free loopback port."""
    kfp = SmallKfp()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            path = self.path.split("?")[0]
            kfp.tokens.add(self.headers.get("Authorization") or "")
            kfp.sent.append((self.command, path, body))
            status, answer = kfp.answer(self.command, path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    kfp.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield kfp
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
