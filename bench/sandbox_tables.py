"""The figures of the sandbox's benchmark as Markdown, as the README shows them."""

from collections.abc import Sequence
from typing import Any


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def number(value: float | None, digits: int = 0) -> str:
    """A figure, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def speed_rows(rows: Sequence[dict[str, Any]], last: str) -> list[list[str]]:
    """Rows of the two tables about speed; `last` is the key of their last column."""
    return [
        [
            row["contestant"],
            str(row["workers"]),
            number(row["verdicts_per_s"]),
            number(row["cpu_ms"], 2),
            number(row["memory_mib"]),
            number(row["others_cores"], 1),
            str(row[last]),
        ]
        for row in rows
    ]


SPEED = ("", "workers", "verdicts/s", "CPU ms a verdict", "memory, MiB", "cores others used")


def ratio_rows(found: dict[str, Any]) -> list[list[str]]:
    """Each ratio, and what it must reach."""
    rows = []
    for name, value in found["ratios"].items():
        target = found["targets"].get(name)
        verdict = "" if target is None or value is None else ("reached" if value >= target else "missed")
        rows.append([name, number(value, 2), "" if target is None else f"≥ {target:g}", verdict])
    return rows


def markdown(found: dict[str, Any]) -> str:
    """All tables, with machine and date."""
    judged = found["programs"]
    left_out = ", ".join(f"{len(ids)} {why}" for why, ids in judged.items() if isinstance(ids, list) and ids)
    alone = [[row["contestant"], number(row["p50"], 1), number(row["p99"], 1)] for row in found["alone"]]
    attacks = [
        [row["contestant"], str(row["tried"]), str(row["accepted"]), str(row["broken"])] for row in found["attacks"]
    ]
    parts = [
        f"{found['machine']}; {found['date']}; load {' to '.join(f'{one:.1f}' for one in found['load'])}",
        f"References: {judged['judged']} of {judged['problems']} problems (left out: {left_out or 'none'})",
        table((*SPEED, "wrong"), speed_rows(found["references"]["rows"], "wrong")),
        "One program alone",
        table(("", "p50, ms", "p99, ms"), alone),
        "The mix: 30 % failing, 3 % looping, deadlines scaled by the reference",
        table((*SPEED, "unlike plain execution"), speed_rows(found["mix"]["rows"], "differs")),
        f"Same verdicts at scaled and fixed deadlines: {found['mix']['same_verdicts_at_both_deadlines']}",
        "Attacks",
        table(("", "tried", "accepted", "broke the judge"), attacks),
        "Ratios",
        table(("", "measured", "target", ""), ratio_rows(found)),
    ]
    return "\n\n".join(parts)
