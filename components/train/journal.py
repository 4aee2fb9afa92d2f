"""metrics.jsonl and samples.jsonl of a run, a line a step and a line a completion, under `runs/<run>/train/`.

Both are written anew every time, so that samples, which are long, must stay few: of a run of more than SAMPLED_STEPS
steps those of the newest ones are kept, and before them of every 2nd step, or every 4th, 8th ..., the longer it is.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from components.shared.progress import say
from components.shared.store import Store

METRICS, SAMPLES = "metrics.jsonl", "samples.jsonl"
SAMPLED_STEPS = 512  # most steps, spread over all of a run, that have samples
NEWEST_STEPS = 64  # which have samples in any case: the page shows those of the last, and a merge is compared on some
Row = dict[str, Any]


@dataclass
class Journal:
    """Both files in memory, as rows and as the lines that are written: a long run encodes each row once."""

    store: Store
    prefix: str
    metrics: list[Row] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)
    lines: dict[str, list[bytes]] = field(default_factory=lambda: {METRICS: [], SAMPLES: []})

    def load(self) -> None:
        """Take up what earlier attempts had written."""
        for name in (METRICS, SAMPLES):
            self._add(name, self._read(name))

    def rewind(self, step: int) -> None:
        """Forget the steps after `step`, which will be done again."""
        rows = {METRICS: self.metrics, SAMPLES: self.samples}
        self.metrics, self.samples, self.lines = [], [], {METRICS: [], SAMPLES: []}
        for name in (METRICS, SAMPLES):
            self._add(name, [row for row in rows[name] if row["step"] <= step])

    def add(self, row: Row, samples: Sequence[Row]) -> None:
        """Write down a step and its samples."""
        self._add(METRICS, [row])
        self._add(SAMPLES, samples)
        kept = [place for place, one in enumerate(self.samples) if keeps_samples(one["step"], row["step"])]
        if len(kept) < len(self.samples):
            self.samples = [self.samples[place] for place in kept]
            self.lines[SAMPLES] = [self.lines[SAMPLES][place] for place in kept]

    def objects(self) -> dict[str, bytes]:
        """What the store should hold, by key."""
        return {f"{self.prefix}/{name}": b"".join(lines) for name, lines in self.lines.items()}

    def _add(self, name: str, rows: Sequence[Row]) -> None:
        (self.metrics if name == METRICS else self.samples).extend(rows)
        self.lines[name] += [json.dumps(row).encode() + b"\n" for row in rows]

    def _read(self, name: str) -> list[Row]:
        try:
            rows, damaged = rows_of(self.store.read(f"{self.prefix}/{name}"))
        except KeyError:
            return []
        if damaged:
            say("train", f"warning: {damaged} of {len(rows) + damaged} lines of {name} are damaged and are left out")
        return rows


def keeps_samples(step: int, newest: int) -> bool:
    """Whether the samples of `step` are kept once `newest` is done.

    What is kept later was kept before, too, so that a run which goes on from an earlier step ends with the same ones.
    """
    every = 1 << ((newest - 1) // SAMPLED_STEPS).bit_length()  # 1, 2, 4, ... as the run gets longer
    return step % every == 0 or step > newest - NEWEST_STEPS


def rows_of(content: bytes) -> tuple[list[Row], int]:
    """The rows of either file, without the lines that are damaged; and how many those are."""
    rows = [_row(line) for line in content.decode(errors="replace").splitlines()]
    return [row for row in rows if row is not None], rows.count(None)


def _row(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("step"), int) else None
