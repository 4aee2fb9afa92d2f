"""`report`: a run's pages from the store, for this machine's browser; they reload themselves while the run goes on."""

import mimetypes
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from components.shared.errors import InfraError, UserError
from components.shared.pages import render
from components.shared.run import folder_of
from components.shared.status import PAGE, REPORTS
from components.shared.store import Store

HOST = "127.0.0.1"
PAGES = {PAGE: "The end: what became of the run, and how to go on", **REPORTS}
REFRESH_SECONDS = 10


class Pages(BaseHTTPRequestHandler):
    """Answers GET for the files of one run, and with a list of its pages for `/`."""

    store: Store
    run: str

    def do_GET(self) -> None:
        name = unquote(urlsplit(self.path).path).strip("/")
        if not self._is_for_this_machine():
            self._answer(403, b"only for this machine\n", "text/plain")
            return
        try:
            if not name:
                self._answer(200, index_page(self.store, self.run).encode(), "text/html; charset=utf-8")
                return
            data = self.store.read(f"{folder_of(self.run)}/{name}")
            self._answer(200, data, content_type(name))
        except (KeyError, ValueError):
            self._answer(404, f"{name} is not there (yet)\n".encode(), "text/plain; charset=utf-8")
        except (InfraError, UserError) as error:
            self._answer(502, f"{error}\n".encode(), "text/plain; charset=utf-8")

    do_HEAD = do_GET

    def _is_for_this_machine(self) -> bool:
        """Whether the page was asked for under this machine's own name: a foreign one is a web page's doing."""
        return urlsplit(f"//{self.headers.get('Host', '')}").hostname in (HOST, "localhost")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        for header, value in headers.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a page that reloads itself would fill the terminal."""


def index_page(store: Store, run: str) -> str:
    """The list of the run's pages, those that are not there yet included."""
    pages = [(name, text, store.exists(f"{folder_of(run)}/{name}")) for name, text in PAGES.items()]
    ended = next(there for name, _, there in pages if name == PAGE)
    return render(
        "run.html",
        title=f"Run {run} · grpo-code",
        refresh_seconds=None if ended else REFRESH_SECONDS,
        run=run,
        pages=pages,
        store=store.uri(folder_of(run)),
    )


def content_type(name: str) -> str:
    """The type of a file in a run's folder; what people read is text."""
    if name.endswith((".jsonl", ".txt", ".md")):
        return "text/plain; charset=utf-8"
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") or kind == "application/json" else kind


def check_run_is_there(store: Store, run: str) -> None:
    """UserError when the store holds nothing of this run."""
    if not store.keys(f"{folder_of(run)}/"):
        raise UserError(
            f"The store holds nothing of run {run} ({store.uri(folder_of(run))}): set GRPO_STORE and S3_* to the run's "
            "store, or wait for its first step."
        )


@contextmanager
def serving(store: Store, run: str, port: int) -> Iterator[ThreadingHTTPServer]:
    """A server for the run's pages on a loopback port (0: any free one); UserError when the run or port is none."""
    check_run_is_there(store, run)
    handler = type("RunPages", (Pages,), {"store": store, "run": run})
    try:
        server = ThreadingHTTPServer((HOST, port), handler)
    except OSError as error:
        raise UserError(f"Port {port} cannot be used ({error.strerror}): name another with --port.") from None
    try:
        yield server
    finally:
        server.server_close()
