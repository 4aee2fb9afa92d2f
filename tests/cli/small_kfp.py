"""A server that speaks the few endpoints of Kubeflow Pipelines which submitting needs, and keeps what it is sent.

It decides nothing: what a backend makes of a request is tried on a real one (tests marked `kfp`).
"""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

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
        self.pipelines: dict[str, str] = {}  # display name: id
        self.of_profile: dict[str, dict[str, str]] = {"": self.pipelines}  # the same by namespace, empty: shared by all
        self.namespaces: dict[str, str] = {}  # of experiments
        self.versions: list[dict[str, str]] = []
        self.states: list[str] = []  # those that a run that was started will be in, one a question; then the last
        self.refuse: tuple[int, str] | None = None

    def bodies(self, path: str) -> list[Any]:
        return [body for method, sent_to, body in self.sent if method == "POST" and sent_to == API + path]

    def answer(self, method: str, path: str, body: Any, namespace: str = "") -> tuple[int, Any]:
        """namespace: that of the query, by which pipelines are listed."""
        path = path.removeprefix(API)
        if path == "/healthz":
            return 200, self.health
        if self.refuse:
            return self.refuse[0], {"error": "refused", "message": self.refuse[1], "code": 3}
        if path == "/experiments":
            return 200, {"experiment_id": "e1", **(body or {})} if method == "POST" else {}
        if path == "/runs" and method == "GET":
            return 200, {"runs": list(self.runs.values())}
        if path == "/runs":
            self.runs["r1"] = {"run_id": "r1", "state": "PENDING", **body}
            return 200, self.runs["r1"]
        if path.startswith("/experiments/"):
            experiment = path.rpartition("/")[2]
            return 200, {"experiment_id": experiment, "namespace": self.namespaces.get(experiment, "")}
        if path.startswith("/pipelines"):
            return self.of_pipelines(method, path, body, namespace)
        if path.startswith("/runs/"):
            run = self.runs.get(path.rpartition("/")[2])
            if run and self.states:
                run["state"] = self.states.pop(0)
            return (200, run) if run else (404, {"message": "Run not found", "code": 5})
        if path == "/recurringruns":
            return 200, {"recurring_run_id": "s1", **body} if method == "POST" else {"recurringRuns": self.schedules}
        return 200, {}

    def of_pipelines(self, method: str, path: str, body: Any, namespace: str) -> tuple[int, Any]:
        """Pipelines are made by name, one in a namespace; a version is a file that is uploaded under a name."""
        if path == "/pipelines" and method == "POST":
            known = self.of_profile.setdefault(body.get("namespace") or "", {})
            if body["display_name"] in known:
                return 409, {"message": f"The name {body['display_name']} already exist", "code": 6}
            known[body["display_name"]] = f"p{sum(map(len, self.of_profile.values())) + 1}"
            return 200, {"pipeline_id": known[body["display_name"]]}
        if path == "/pipelines":
            known = self.of_profile.get(namespace, {})
            return 200, {"pipelines": [{"pipeline_id": i, "display_name": n} for n, i in known.items()]}
        if path == "/pipelines/upload_version":
            version = {"pipeline_version_id": f"v{len(self.versions) + 1}", "display_name": body["name"]}
            self.versions.append({**version, "pipeline_id": body["pipelineid"]})
            return 200, version
        mine = [version for version in self.versions if f"/{version['pipeline_id']}/" in path]
        return 200, {"pipeline_versions": mine}


@contextmanager
def small_kfp(tls: ssl.SSLContext | None = None) -> Iterator[SmallKfp]:
    """A running server on a free loopback port; over TLS where it is given a certificate."""
    kfp = SmallKfp()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(length)
            path, _, query = self.path.partition("?")
            if path.endswith("/upload_version"):  # a file, whose name stands in the address
                body: Any = {name: values[0] for name, values in parse_qs(query).items()}
            else:
                body = json.loads(data) if length else None
            kfp.tokens.add(self.headers.get("Authorization") or "")
            kfp.sent.append((self.command, path, body))
            status, answer = kfp.answer(self.command, path, body, parse_qs(query).get("namespace", [""])[0])
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
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    kfp.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    try:
        yield kfp
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
