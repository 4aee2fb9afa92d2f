"""What a process and all its descendants use: CPU time and memory, read from /proc.

CPU time of descendants that have ended is counted where their parents have waited for them, as all contestants do.
"""

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PARENT, FIRST_TIME, LAST_TIME = 1, 11, 14  # places in /proc/<pid>/stat, counted from the state behind the name
SAMPLE_SECONDS = 0.25


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on; OSError once the process is gone."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def family(pid: int) -> set[int]:
    """A process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(int(_stat_fields(int(entry))[PARENT]), []).append(int(entry))
    found, news = set(), [pid]
    while news:
        member = news.pop()
        found.add(member)
        news += children.get(member, [])
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time so far, in seconds, of a process and its descendants, ended ones included."""
    ticks = 0
    for member in family(pid):
        with contextlib.suppress(OSError):
            ticks += sum(map(int, _stat_fields(member)[FIRST_TIME : LAST_TIME + 1]))
    return ticks / TICKS_PER_SECOND


def memory_bytes(pid: int) -> int | None:
    """Resident memory of a process and its descendants, shared pages counted once (PSS); None where it is secret."""
    total = 0
    for member in family(pid):
        try:
            text = Path(f"/proc/{member}/smaps_rollup").read_text()
        except PermissionError:
            return None
        except OSError:
            continue  # it has just ended
        total += sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def busy_seconds() -> float:
    """CPU time that the whole machine has spent on anything but idling, in seconds."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:8])
    return (user + nice + system + irq + softirq) / TICKS_PER_SECOND


class MemoryPeak:
    """Samples the memory of a process and its descendants while it is entered; `bytes` is the largest sum seen."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.bytes: int | None = 0

    def __enter__(self) -> "MemoryPeak":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            now = memory_bytes(self._pid)
            self.bytes = None if now is None or self.bytes is None else max(self.bytes, now)
            if self._done.wait(SAMPLE_SECONDS):
                return
