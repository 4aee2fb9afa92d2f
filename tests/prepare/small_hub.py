"""A model hub that serves one data set from a directory, as far as the `datasets` library asks."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubHandler(BaseHTTPRequestHandler):
    """Answers for one data set; every other repository is unknown."""

    data_set: str
    folder: Path

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        for start, answer in (
            (f"/datasets/{self.data_set}/resolve/", self.file),
            (f"/api/datasets/{self.data_set}/tree/", self.tree),
            (f"/api/datasets/{self.data_set}/revision/", self.info),
        ):
            if path.startswith(start):
                answer(path.removeprefix(start).partition("/")[2])
                return
        self.answer(404, b"", {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET

    def file(self, name: str) -> None:
        if not (self.folder / name).is_file():
            self.answer(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
            return
        content = (self.folder / name).read_bytes()
        self.answer(200, content, {"ETag": hashlib.sha1(content).hexdigest(), "X-Repo-Commit": COMMIT})

    def tree(self, name: str) -> None:
        entries = [
            {
                "type": "directory" if path.is_dir() else "file",
                "oid": hashlib.sha1(path.name.encode()).hexdigest(),
                "path": path.relative_to(self.folder).as_posix(),
                "size": path.stat().st_size,
            }
            for path in sorted((self.folder / name).iterdir())
        ]
        self.answer(200, json.dumps(entries).encode(), {"Content-Type": "application/json"})

    def info(self, _: str) -> None:
        body = json.dumps({"id": self.data_set, "sha": COMMIT, "siblings": []}).encode()
        self.answer(200, body, {"Content-Type": "application/json"})

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def small_hub(data_set: str, folder: Path) -> Iterator[str]:
    """The address of a hub on which `data_set` has the files of `folder`, at COMMIT whatever revision is asked for."""
    handler = type("Handler", (HubHandler,), {"data_set": data_set, "folder": folder})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
