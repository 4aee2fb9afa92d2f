"""A model hub that serves data sets and models from directories, as far as the hub's own libraries ask."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True)
class Repository:
    """One repository of the hub. kind: `datasets` or `models`; wrong_digest: what is said of the weights instead."""

    name: str
    folder: Path
    kind: str = "datasets"
    wrong_digest: str = ""


class HubHandler(BaseHTTPRequestHandler):
    """Answers for its repositories; every other one is unknown."""

    repositories: tuple[Repository, ...]

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        for one in self.repositories:
            below = f"/{one.kind}" if one.kind == "datasets" else ""
            for start, answer in (
                (f"{below}/{one.name}/resolve/", self.file),
                (f"/api/{one.kind}/{one.name}/tree/", self.tree),
                (f"/api/{one.kind}/{one.name}/revision/", self.info),
            ):
                if path.startswith(start):
                    answer(one, path.removeprefix(start).partition("/")[2])
                    return
        self.answer(404, b"", {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET

    def file(self, one: Repository, name: str) -> None:
        if not (one.folder / name).is_file():
            self.answer(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
            return
        content = (one.folder / name).read_bytes()
        self.answer(200, content, {"ETag": hashlib.sha1(content).hexdigest(), "X-Repo-Commit": COMMIT})

    def tree(self, one: Repository, name: str) -> None:
        if not (one.folder / name).is_dir():
            self.answer(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
            return
        entries = [
            {
                "type": "directory" if path.is_dir() else "file",
                "oid": hashlib.sha1(path.name.encode()).hexdigest(),
                "path": path.relative_to(one.folder).as_posix(),
                "size": path.stat().st_size,
            }
            for path in sorted((one.folder / name).iterdir())
        ]
        self.answer(200, json.dumps(entries).encode(), {"Content-Type": "application/json"})

    def info(self, one: Repository, _: str) -> None:
        files = sorted(path for path in one.folder.rglob("*") if path.is_file()) if one.kind == "models" else []
        siblings = [self.sibling(one, path) for path in files]
        body = json.dumps({"id": one.name, "sha": COMMIT, "siblings": siblings}).encode()
        self.answer(200, body, {"Content-Type": "application/json"})

    def sibling(self, one: Repository, path: Path) -> dict[str, Any]:
        """A file as the hub lists it; large files, here the weights, come with their digest."""
        name, size = path.relative_to(one.folder).as_posix(), path.stat().st_size
        entry: dict[str, Any] = {"rfilename": name, "size": size, "blobId": hashlib.sha1(name.encode()).hexdigest()}
        if name.endswith(".safetensors"):
            digest = one.wrong_digest or hashlib.sha256(path.read_bytes()).hexdigest()
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


def small_hub(name: str, folder: Path, kind: str = "datasets", wrong_digest: str = "") -> AbstractContextManager[str]:
    """The address of a hub with this one repository."""
    return hub_of(Repository(name, folder, kind, wrong_digest))


@contextmanager
def hub_of(*repositories: Repository) -> Iterator[str]:
    """The address of a hub with these repositories, each at COMMIT whatever revision is asked for."""
    handler = type("Handler", (HubHandler,), {"repositories": repositories})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
