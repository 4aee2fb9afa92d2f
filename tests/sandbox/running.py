"""Starting services of a test's own, and looking at processes."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "images/sandbox"


@dataclass
class Service:
    """A running service: its process, address and the workers it started."""

    process: subprocess.Popen[str]
    url: str

    def family(self) -> set[int]:
        """Pids of all descendants."""
        return descendants(self.process.pid)


@contextlib.contextmanager
def service(*options: str, environment: dict[str, str] | None = None) -> Iterator[Service]:
    """A service with these options, ready to answer; ended afterwards if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbox", "--port", "0", *options],
        cwd=FOLDER,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    with process.stdout, process.stdin:
        try:
            line = process.stdout.readline()
            assert line.startswith("sandbox: listening on http://"), line
            yield Service(process, line.split()[-1])
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(30)


def run(*options: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """The service's command line, run to its end."""
    command = [sys.executable, "-m", "sandbox", *options]
    return subprocess.run(
        command, cwd=FOLDER, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False
    )


def descendants(pid: int) -> set[int]:
    """Pids of all living descendants of a process."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                parents[int(entry.name)] = int(fields[1])
    found: set[int] = set()
    news = {pid}
    while news:
        news = {child for child, parent in parents.items() if parent in news} - found
        found |= news
    return found


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], Any], seconds: float = 20.0) -> bool:
    """Whether `condition` comes true within that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def command_of(pid: int) -> str:
    """A process's command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def readiness(body: bytes) -> dict[str, Any]:
    """The decoded answer of /readyz."""
    answer: dict[str, Any] = json.loads(body)
    return answer


def is_dead(pid: int) -> bool:
    """Whether a process is gone, or a zombie."""
    return not is_alive(pid)
