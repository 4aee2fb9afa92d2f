"""How much is held in memory at a time, and less of it after an attempt that ran out.

Neither number changes what is learnt: a batch is only cut into smaller pieces, whose gradients add up to the same.
"""

import errno
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.shared.errors import InfraError
from components.shared.store import Store

ATTEMPT = "attempt.json"  # below runs/<run>/train/: how the newest attempt at this run is doing, or how it ended
CGROUP = Path("/sys/fs/cgroup")
NEARLY_ALL = 0.9  # share of the memory limit from which on a process that vanished is taken for one killed for it
ALMOST_NO_BYTES = 1_000_000


@dataclass(frozen=True)
class Pieces:
    """micro_batch_size: completions per forward and backward pass; rows: most completions that are drawn at once."""

    micro_batch_size: int
    rows: int

    def __str__(self) -> str:
        """In words, for what does not change with them."""
        return f"micro_batch_size is {self.micro_batch_size} now, at most {self.rows} completions are drawn at once"

    def halved(self, batch_size: int) -> "Pieces | None":
        """At most half of both, the micro batch still a divisor of batch_size; None when there is no less."""
        if self.micro_batch_size == 1 and self.rows == 1:
            return None
        most = max(1, self.micro_batch_size // 2)
        micro = max(size for size in range(1, most + 1) if batch_size % size == 0)
        return Pieces(micro, max(1, min(self.rows, batch_size) // 2))


def disk_error(error: BaseException, folder: Path) -> InfraError | None:
    """The sentence for a disk that is full, in whatever words a writer said so; None for another error."""
    number = getattr(error, "errno", None)
    full = number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
    if not full and shutil.disk_usage(folder).free > ALMOST_NO_BYTES:
        return None
    return InfraError(
        f"The disk that holds {folder} is full: a checkpoint needs room there for the trained weights and the "
        "optimiser's state, three times the weights; make room, or point TMPDIR elsewhere."
    )


def memory_share(cgroup: Path = CGROUP) -> float | None:
    """Used memory as a share of the container's limit, what can be dropped at once left out; None without a limit."""
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
        facts = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        return None if limit == "max" else (used - int(facts["inactive_file"])) / int(limit)
    except (OSError, ValueError, KeyError):
        return None


class AttemptRecord:
    """What this attempt tells the next one, should it be killed: the pieces, and the most memory that was seen."""

    def __init__(self, store: Store, prefix: str) -> None:
        self.key = f"{prefix}/{ATTEMPT}"
        self.before = _read(store, self.key)
        self.ran_out = bool(self.before.get("ran_out"))
        self.memory = 0.0

    def pieces(self, wanted: Pieces, batch_size: int) -> tuple[Pieces, str]:
        """The pieces for this attempt and why they are smaller than wanted; the reason is empty when they are not."""
        if not self.before:
            return wanted, ""
        then = Pieces(self.before["micro_batch_size"], self.before["rows"])
        if not self.before["ended"] and self.before["memory_share"] >= NEARLY_ALL:
            self.ran_out = True
            smaller = then.halved(batch_size) or then
            return (
                smaller,
                f"the attempt before was killed while it used {self.before['memory_share']:.0%} of its memory",
            )
        if not self.ran_out:
            return wanted, ""
        fitted = Pieces(min(then.micro_batch_size, wanted.micro_batch_size), min(then.rows, wanted.rows))
        return fitted, "" if fitted == wanted else "an attempt before ran out of memory with more"

    def objects(self, pieces: Pieces, *, ended: str = "") -> dict[str, bytes]:
        """The record as it is now, by its key in the store; ended is empty while the attempt goes on."""
        self.memory = max(self.memory, memory_share() or 0.0)
        facts = {**asdict(pieces), "ran_out": self.ran_out, "memory_share": round(self.memory, 3), "ended": ended}
        return {self.key: (json.dumps(facts) + "\n").encode()}


def _read(store: Store, key: str) -> dict[str, Any]:
    try:
        return dict(json.loads(store.read(key)))
    except (KeyError, ValueError):
        return {}
