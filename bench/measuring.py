"""How the sandbox's benchmark measures: throughput and CPU time of one contestant at a time, in turns.

Contestants take turns on the same programs, so that what else the machine does meets all of them; ratios are taken
within a turn, and their median is reported. CPU time is of all the contestant's processes, and steadier than wall time.
"""

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.contestants import Answer, Contestant
from bench.processes import MemoryPeak, busy_seconds, cpu_seconds
from bench.programs import Sample

BATCH = 64


@dataclass(frozen=True)
class Turn:
    """One contestant's pass over all programs.

    others_cores: cores that anything but the contestant and the benchmark kept busy meanwhile.
    """

    contestant: str
    workers: int
    programs: int
    verdicts_per_s: float
    cpu_ms: float
    memory_mib: float | None
    others_cores: float


def batches_of(samples: Sequence[Sample]) -> list[Sequence[Sample]]:
    """The programs in batches of 64; an id occurs once in a batch."""
    return [samples[start : start + BATCH] for start in range(0, len(samples), BATCH)]


def take_turn(contestant: Contestant, samples: Sequence[Sample]) -> tuple[Turn, list[Answer]]:
    """Judge all programs once: the figures, and whether each passed."""
    with MemoryPeak(contestant.pid) as memory:
        busy, own, cpu, start = busy_seconds(), time.process_time(), cpu_seconds(contestant.pid), time.monotonic()
        answers = [answer for batch in contestant.judge(batches_of(samples)) for answer in batch]
        seconds, cpu = time.monotonic() - start, cpu_seconds(contestant.pid) - cpu
        others = busy_seconds() - busy - (time.process_time() - own) - cpu
    turn = Turn(
        contestant.name,
        contestant.workers,
        len(samples),
        len(samples) / seconds,
        1000 * cpu / len(samples),
        None if memory.bytes is None else memory.bytes / (1 << 20),
        max(0.0, others / seconds),
    )
    return turn, answers


def wait_alone(contestant: Contestant, samples: Sequence[Sample]) -> list[float]:
    """Milliseconds that each program takes when it is sent alone, to its answer."""
    waits = []
    for sample in samples:
        start = time.monotonic()
        contestant.judge([[sample]])
        waits.append(1000 * (time.monotonic() - start))
    return waits


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies, by the nearest rank."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def medians(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """One row for each contestant and number of workers: the median of its turns."""
    rows = []
    for key in dict.fromkeys((turn.contestant, turn.workers) for turn in turns):
        group = [asdict(turn) for turn in turns if (turn.contestant, turn.workers) == key]
        row: dict[str, Any] = {"contestant": key[0], "workers": key[1], "turns": len(group)}
        for field in ("programs", "verdicts_per_s", "cpu_ms", "memory_mib", "others_cores"):
            known = [one[field] for one in group if one[field] is not None]
            row[field] = statistics.median(known) if known else None
        rows.append(row)
    return rows


def ratio(turns: Sequence[Turn], field: str, above: tuple[str, int], below: tuple[str, int]) -> float | None:
    """Median over the rounds of the quotient of two contestants' figures; None where one of them did not run."""
    first, second = (
        [getattr(turn, field) for turn in turns if (turn.contestant, turn.workers) == key] for key in (above, below)
    )
    quotients = [one / other for one, other in zip(first, second, strict=False) if other]
    return statistics.median(quotients) if quotients else None


def machine() -> str:
    """The machine in words."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    kernel = os.uname()
    return f"{model or kernel.machine}, {len(os.sched_getaffinity(0))} cores, Linux {kernel.release}"
