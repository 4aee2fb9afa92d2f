"""What a training has left in the store, and how that of two runs is compared."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

MEANS_OVER_PIECES = ("kl", "entropy")
FILLS_MEMORY = ["dd", "if=/dev/zero", "of=/dev/shm/fill", "bs=1M"]  # in a step's container, until the kernel kills


@dataclass(frozen=True)
class Left:
    """A row a step, a row a completion, and the adapter."""

    metrics: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    adapter: bytes


def rows_of(content: bytes) -> list[dict[str, Any]]:
    """The rows of a journal without what the clock decides."""
    read = [json.loads(line) for line in content.splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in read]


def left_in(read: Callable[[str], bytes]) -> Left:
    """What a run has left. read: the content of a file in its folder, by name."""
    metrics, samples = (rows_of(read(f"train/{name}.jsonl")) for name in ("metrics", "samples"))
    return Left(metrics, samples, read("train/adapter/adapter_model.safetensors"))


def assert_equal_but_for_rounding(left: Left, undisturbed: Left) -> None:
    """The same completions and verdicts; sums over smaller pieces of a batch are rounded otherwise."""
    assert left.samples == undisturbed.samples
    assert numbers(left.metrics) == pytest.approx(numbers(undisturbed.metrics), rel=1e-3, abs=1e-5)


def numbers(rows: Any) -> list[float]:
    """All numbers in rows of metrics, in order, without those that are means over the pieces of a batch."""
    if isinstance(rows, dict):
        rows = [each for name, each in rows.items() if name not in MEANS_OVER_PIECES]
    if isinstance(rows, list):
        return [number for each in rows for number in numbers(each)]
    return [float(rows)] if rows is not None else []
