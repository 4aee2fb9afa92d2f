"""A model hub that serves one data set or one model from a directory, as far as the hub's own libraries ask."""

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
    """Answers for one repository; every other one is unknown. kind: `datasets` or `models`."""

    name: str
    kind: str
    folder: Path
    wrong_digest: str = ""

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        below = f"/{self.kind}" if self.kind == "datasets" else ""
        for start, answer in (
            (f"{below}/{self.name}/resolve/", self.file),
            (f"/api/{self.kind}/{self.name}/tree/", self.tree),
            (f"/api/{self.kind}/{self.name}/revision/", self.info),
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
        files = sorted(path for path in self.folder.rglob("*") if path.is_file()) if self.kind == "models" else []
        siblings = [self.sibling(path) for path in files]
        body = json.dumps({"id": self.name, "sha": COMMIT, "siblings": siblings}).encode()
        self.answer(200, body, {"Content-Type": "application/json"})

    def sibling(self, path: Path) -> dict[str, Any]:
        """A file as the hub lists it; large files, here the weights, come with their digest."""
        name, size = path.relative_to(self.folder).as_posix(), path.stat().st_size
        entry: dict[str, Any] = {"rfilename": name, "size": size, "blobId": hashlib.sha1(name.encode()).hexdigest()}
        if name.endswith(".safetensors"):
            digest = self.wrong_digest or hashlib.sha256(path.read_bytes()).hexdigest()
            entry["lfs"] = {"sha256": digest, "size": size, "pointerSize": 134}
        return entry

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
def small_hub(name: str, folder: Path, kind: str = "datasets", wrong_digest: str = "") -> Iterator[str]:
    """The address of a hub on which `name` has the files of `folder`, at COMMIT whatever revision is asked for.

    wrong_digest is what it says of the weights instead of the truth.
    """
    more = {"name": name, "folder": folder, "kind": kind, "wrong_digest": wrong_digest}
    handler = type("Handler", (HubHandler,), more)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
