"""prepare/counts.json: what was read, chosen and left out, in numbers, and what one should know before trusting it."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from components.prepare.duplicates import TEXT_LIMIT, Duplicate
from components.prepare.raw import RawData
from components.prepare.references import FLAKY, SLOW, References
from components.prepare.selection import Selection
from components.settings import NOT_COMPARABLE, SPLITS
from components.shared.problem import GENERATED, Problem

ENOUGH_HIDDEN = 20  # tests; fewer find few of the programs that only know the visible ones
MOST_PAIRS = 200  # of repeats within a list that are written down


def counts_of(
    data: RawData,
    selection: Selection,
    problems: Sequence[Problem],
    regression: Sequence[Problem],
    references: References,
    elsewhere: References,
    *,
    dataset: str,
    asked: Mapping[str, Any],
) -> dict[str, Any]:
    """The record; CPU times are in milliseconds, shares are fractions. elsewhere: the regression set's checks."""
    quarantined = references.quarantined + elsewhere.quarantined
    cpu_ms = [problem.reference_cpu_ms for problem in selection.all if problem.reference_cpu_ms is not None]
    return {
        "dataset": dataset,
        "dataset_revision": data.revision,
        "dataset_digest": data.digest,
        "rows": len(data.rows),
        "splits": by_split(problems),
        "candidates": len(selection.candidates),
        "candidate_splits": by_split(selection.candidates),
        "heldout": len(selection.heldout),
        "validation": len(selection.validation),
        "regression": len(regression),
        "quarantined": len(quarantined),
        "quarantined_by": dict(Counter(row["kind"] for row in quarantined)),
        "reference_cpu_ms": {"median": statistics.median(cpu_ms), "largest": max(cpu_ms)},
        "hidden_tests": {
            "training": hidden_counts(selection.candidates),
            "held-out": hidden_counts(selection.heldout),
            "validation": hidden_counts(selection.validation),
        },
        "weak": {**references.weak, **{f"regression {name}": what for name, what in elsewhere.weak.items()}},
        "duplicates": {
            "text_limit": TEXT_LIMIT,
            "dropped": len(selection.dropped),
            "within": {name: len(pairs) for name, pairs in selection.repeats.items()},
            "pairs_within": {
                name: [_pair(pair) for pair in pairs[:MOST_PAIRS]] for name, pairs in selection.repeats.items()
            },
        },
        "asked": dict(asked),
        "without_verdict": references.without_verdict + elsewhere.without_verdict,
        "warnings": warnings_of(selection, references, elsewhere, asked),
    }


def hidden_counts(problems: Sequence[Problem]) -> dict[str, Any]:
    """How many hidden tests a list of problems has, and the share of problems that have enough."""
    sizes = [len(problem.hidden_tests) for problem in problems]
    return {
        "tests": sum(sizes),
        "generated": sum(problem.hidden_tests_from.count(GENERATED) for problem in problems),
        "problems_with_any": sum(size > 0 for size in sizes),
        "share_with_enough": sum(size >= ENOUGH_HIDDEN for size in sizes) / len(sizes) if sizes else None,
        "smallest": min(sizes, default=0),
        "median": statistics.median(sizes) if sizes else 0,
    }


def by_split(problems: Sequence[Problem]) -> dict[str, int]:
    """How many problems of each split, those without any left out."""
    sizes = Counter(problem.split for problem in problems)
    return {split: sizes[split] for split in SPLITS if sizes[split]}


def warnings_of(
    selection: Selection, references: References, elsewhere: References, asked: Mapping[str, Any]
) -> list[str]:
    """Everything that the person who started the run should know before trusting it."""
    warnings = list(selection.warnings)
    if "test" in asked["splits"]:
        warnings.append(NOT_COMPARABLE)
    lost = references.without_verdict + elsewhere.without_verdict
    if lost:
        warnings.append(
            f"{lost} references could not be judged and were left out; they may be right, see quarantined.jsonl."
        )
    weak = [problem.task_id for problem in selection.heldout if problem.task_id in references.weak]
    if weak:
        warnings.append(
            f"{len(weak)} weak among the held-out problems: a program that does nothing of what is asked passes the "
            f"tests of {_listed(weak)}."
        )
    quarantined = references.quarantined + elsewhere.quarantined
    slow = [row["task_id"] for row in quarantined if row["kind"] == SLOW]
    if slow:
        warnings.append(
            f"{len(slow)} references take more than half of the CPU time that test_timeout_s gives a program, and were "
            f"left out, for right programs could run out of it: {_listed(slow)}."
        )
    flaky = [row["task_id"] for row in quarantined if row["kind"] == FLAKY]
    if flaky:
        warnings.append(f"{len(flaky)} references passed once and not again, and were left out: {_listed(flaky)}.")
    return warnings


def _listed(names: Sequence[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _pair(pair: Duplicate) -> dict[str, Any]:
    return {"task_id": pair.problem.task_id, "repeats": pair.other.task_id, "why": pair.why}
