"""How near this process is to the memory limit of its container, by cgroup v2 or v1.

The kernel kills what passes the limit with no word of warning, so what the next attempt should know of it has to be
written down before.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from components.shared.errors import InfraError, UserError

ROOT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
# Files of limit, use and details, and the details' name for what can be dropped at once, in v2 and in v1.
VERSIONS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
NO_LIMIT = 2**60  # v1 has a number for it, about 2^63
NEARLY_ALL = 0.9  # share of the limit from which on a process that vanished is taken for one killed for it
# Seconds between two looks; the last tenth of a small limit is gone within a fraction of a second.
FAR, NEAR, HALF = 0.2, 0.01, 0.5


def memory_share(folder: Path | None = None) -> float | None:
    """Used memory as a share of the limit, what can be dropped at once left out; None without a limit.

    folder: a cgroup's; by default that of this process and those around it, of which the fullest counts.
    """
    folders = [folder] if folder else memory_groups(OWN, ROOT)
    return max((share for one in folders for share in _shares(one)), default=None)


def memory_groups(own: Path, root: Path) -> list[Path]:
    """The cgroup folders that may limit this process's memory: its own and those above, as far as they can be seen.

    own: /proc/self/cgroup, lines of hierarchy:controllers:path. A container may see its own folder as the root.
    """
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return []
    version_1 = [(root / "memory", path) for _, controllers, path in lines if "memory" in controllers.split(",")]
    version_2 = [(root, path) for _, controllers, path in lines if not controllers]
    found = []
    for base, path in version_1 or version_2:
        group = base / path.lstrip("/")
        found += [group, *(parent for parent in group.parents if parent.is_relative_to(base))]
    return found


def _shares(group: Path) -> Iterator[float]:
    for limit_file, used_file, droppable in VERSIONS:
        with contextlib.suppress(OSError, ValueError, KeyError):
            limit = int((group / limit_file).read_text())  # `max` is no number
            used = int((group / used_file).read_text())
            facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            if limit < NO_LIMIT:
                yield (used - int(facts[droppable])) / limit


@contextlib.contextmanager
def watching_memory(note: Callable[[float], None], almost_full: Callable[[], None]) -> Iterator[None]:
    """Look at the memory as it fills: note(share) of each look, almost_full() once when NEARLY_ALL is in use."""
    ended = threading.Event()

    def look() -> None:
        told, share = False, memory_share()
        while share is not None and not ended.wait(NEAR if share >= HALF and not told else FAR):
            share = memory_share() or 0.0
            note(share)
            if share >= NEARLY_ALL and not told:
                told = True
                with contextlib.suppress(UserError, InfraError):  # a store that is away is the uploads' to tell
                    almost_full()

    thread = threading.Thread(target=look, name="memory", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
