"""How much is held in memory at a time, and less of it after an attempt that ran out.

Neither number changes what is learnt: a batch is only cut into smaller pieces, whose gradients add up to the same.
"""

import errno
import json
import secrets
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.shared.errors import InfraError
from components.shared.store import Store
from components.train.container import NEARLY_ALL

ATTEMPT = "attempt.json"  # below runs/<run>/train/: how the newest attempt at this run is doing, or how it ended
ALMOST_NO_BYTES = 1_000_000
LESS_MEMORY = "lower max_completion_length or lora_r, use method lora or qlora, or a smaller model_name"


@dataclass(frozen=True)
class Pieces:
    """micro_batch_size: completions per forward and backward pass; rows: most completions that are drawn at once."""

    micro_batch_size: int
    rows: int

    def __str__(self) -> str:
        """In words, for what does not change with them."""
        return f"micro_batch_size is {self.micro_batch_size} now, at most {self.rows} completions are drawn at once"

    def halved(self, share: int) -> "Pieces | None":
        """At most half of both, the micro batch still a divisor of `share`; None when there is no less.

        share: completions of a step that one process works on, batch_size where there is no other.
        """
        if self.micro_batch_size == 1 and self.rows == 1:
            return None
        most = max(1, self.micro_batch_size // 2)
        micro = max(size for size in range(1, most + 1) if share % size == 0)
        return Pieces(micro, max(1, min(self.rows, share) // 2))


class Superseded(InfraError):
    """A newer attempt at this run is at work."""


class MemoryRanOut(InfraError):
    """One of several processes had too little memory, which ends them all."""


def memory_ran_out(processes: int, pieces: Pieces) -> MemoryRanOut:
    """The sentence for one of several processes that had too little memory."""
    at = f"micro_batch_size {pieces.micro_batch_size}"
    return MemoryRanOut(f"Memory ran out in one of {processes} processes at {at}: {LESS_MEMORY}.")


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


class AttemptRecord:
    """What this attempt tells the next one, should it be killed: the pieces, and the most memory that was seen.

    Its id says whose the run is: a pod that was given up for lost may still be at work when the next one begins.
    steps: of the whole run; that and the attempt's start are for those who watch.
    """

    def __init__(self, store: Store, prefix: str, *, steps: int) -> None:
        self.steps, self.started = steps, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.store, self.key, self.id = store, f"{prefix}/{ATTEMPT}", secrets.token_hex(8)
        self.before = _read(store, self.key)
        self.ran_out = bool(self.before.get("ran_out"))
        self.memory = 0.0

    def refuse_if_superseded(self) -> None:
        """Superseded when an attempt that began after this one has taken the run over."""
        now = _read(self.store, self.key).get("id")
        if now not in (None, self.id, self.before.get("id")):
            raise Superseded(
                "Another attempt at this run has begun, so this one ends and writes nothing more: see to it that only "
                "one is at work."
            )

    def pieces(self, wanted: Pieces, share: int) -> tuple[Pieces, str]:
        """The pieces for this attempt and why they are smaller than wanted; the reason is empty when they are not.

        They are never larger: whoever wants less, be it this attempt after it ran out of memory itself, gets that.
        """
        if not self.before:
            return wanted, ""
        most = Pieces(self.before["micro_batch_size"], self.before["rows"])
        why = "an attempt before ran out of memory with more"
        if not self.before["ended"] and self.before["memory_share"] >= NEARLY_ALL:
            self.ran_out = True
            most = most.halved(share) or most
            why = f"the attempt before was killed while it used {self.before['memory_share']:.0%} of its memory"
        if not self.ran_out:
            return wanted, ""
        fitted = Pieces(min(most.micro_batch_size, wanted.micro_batch_size), min(most.rows, wanted.rows))
        return fitted, "" if fitted == wanted else why

    def note(self, share: float) -> None:
        """Remember the most memory that was in use."""
        self.memory = max(self.memory, share)

    def objects(self, pieces: Pieces, *, ended: str = "") -> dict[str, bytes]:
        """The record as it is now, by its key in the store; ended is empty while the attempt goes on."""
        course = {"id": self.id, "steps": self.steps, "started": self.started, "ended": ended}
        facts = {**asdict(pieces), "ran_out": self.ran_out, "memory_share": round(self.memory, 3), **course}
        return {self.key: (json.dumps(facts) + "\n").encode()}


def note_memory_ran_out(store: Store, prefix: str, share: int) -> bool:
    """Have the next attempt take half of what ran out of memory in this one; False when there is no less."""
    record = _read(store, f"{prefix}/{ATTEMPT}")
    smaller = Pieces(record["micro_batch_size"], record["rows"]).halved(share) if record else None
    if smaller is None:
        return False
    facts = {**record, **asdict(smaller), "ran_out": True, "ended": "failed"}
    store.write(f"{prefix}/{ATTEMPT}", (json.dumps(facts) + "\n").encode())
    return True


def _read(store: Store, key: str) -> dict[str, Any]:
    """The record in the store; empty when there is none, or none that can be used."""
    try:
        found = json.loads(store.read(key))
    except (KeyError, ValueError):
        return {}
    wanted = {"micro_batch_size", "rows", "memory_share", "ended"}
    return found if isinstance(found, dict) and wanted <= set(found) else {}
