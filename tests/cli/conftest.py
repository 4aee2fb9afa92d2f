"""A Kubernetes API server as far as the command line asks: it answers what it was told, and keeps what it was sent."""

import json
import os
import shlex
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cli.main import main
from tests.cli.small_kfp import small_kfp


def kubeconfig(server: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "secret-token"}}],
            "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("here", "there")],
            "current-context": "here",
        }
    )


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Writes a kubeconfig for a server's address, and makes it the one in use."""

    def write(server: str) -> None:
        file = tmp_path / "kubeconfig"
        file.write_text(kubeconfig(server))
        monkeypatch.setenv("KUBECONFIG", str(file))

    return write


@pytest.fixture
def answering(configured):
    """A server that gives every request the answer (status, JSON) that it was told last; what it was sent is kept."""
    sent, answer = [], {}

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            sent.append((self.command, self.path, dict(self.headers)))
            body = json.dumps(answer["body"]).encode()
            self.send_response(answer["status"])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = do

        def log_message(self, *args: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        configured(f"http://127.0.0.1:{server.server_port}")

        def tell(status: int, body: dict) -> list:
            answer.update(status=status, body=body)
            return sent

        yield tell
        server.shutdown()


@pytest.fixture
def refused(capsys, tmp_path, monkeypatch):
    """Runs a command line that must fail as a user's mistake; returns its one sentence."""
    monkeypatch.setenv("GRPO_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in [name for name in os.environ if name.startswith(("KFP_", "S3_"))]:
        monkeypatch.delenv(name)

    def run(line: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(line))
        shown = capsys.readouterr()
        assert ended.value.code == 2
        assert shown.out == ""
        assert shown.err.count("\n") == 1, "one sentence, no traceback, no usage dump"
        assert not (tmp_path / "store").exists(), "nothing half-written"
        return shown.err.strip()

    return run


@pytest.fixture
def verb(capsys, monkeypatch):
    """Runs a verb, in the 80 columns that there are off a terminal: (exit code, what it said)."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        output = capsys.readouterr()
        return ended.value.code, output.out + output.err

    return run


@pytest.fixture
def kfp(monkeypatch):
    """The small Kubeflow Pipelines that answers over HTTP, and nothing else that the environment might name."""
    for name in ("KFP_TOKEN", "KFP_NAMESPACE", "S3_ENDPOINT", "REGISTRY", "TAG", "GRPO_STORE"):
        monkeypatch.delenv(name, raising=False)
    with small_kfp() as server:
        monkeypatch.setenv("KFP_ENDPOINT", server.url)
        yield server


@pytest.fixture
def call(capsys):
    """Runs a line of the command line: (exit code, standard output, standard error)."""

    def run(line, *more):
        with pytest.raises(SystemExit) as ended:
            main([*line.split(), *more])
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run
