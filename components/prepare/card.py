"""The data card: one page that says what a run trains on and is measured on, and what was left out and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.prepare.selection import Selection
from components.shared.pages import clip, number, render
from components.shared.problem import Problem

PROBLEMS_SHOWN = 6  # of each kind
QUARANTINED_SHOWN = 100


@dataclass(frozen=True)
class Sample:
    """One piece of code on a problem's card, as the page's macro wants it."""

    label: str
    code: str
    passed: bool | None = None
    note: str = ""


def card_page(selection: Selection, quarantined: Sequence[Mapping[str, Any]], counts: Mapping[str, Any]) -> str:
    """The page as HTML. counts is prepare/counts.json, quarantined the rows of quarantined.jsonl."""
    names = list(dict.fromkeys([*counts["splits"], *counts["candidate_splits"]]))
    heldout_splits = {"test": counts["heldout"]}
    split_rows = [
        (name, counts["splits"].get(name, 0), counts["candidate_splits"].get(name, 0), heldout_splits.get(name, 0))
        for name in names
    ]
    return render(
        "data_card.html",
        title=f"Data card: {counts['dataset']}",
        refresh_seconds=None,
        counts=counts,
        stats=_stats(counts),
        split_rows=split_rows,
        quarantined_rows=[
            (row["task_id"], row["split"], clip(str(row["reason"]))) for row in quarantined[:QUARANTINED_SHOWN]
        ],
        quarantined_more=max(0, len(quarantined) - QUARANTINED_SHOWN),
        slowest=_slowest([*selection.candidates, *selection.heldout, *selection.validation]),
        problems=[
            (kind, [_problem_card(problem) for problem in chosen[:PROBLEMS_SHOWN]])
            for kind, chosen in (("Training", selection.candidates), ("Held-out", selection.heldout))
        ],
    )


def _stats(counts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    asked = counts["asked"]
    cpu_ms = counts["reference_cpu_ms"]
    return [
        ("Training problems", number(counts["candidates"]), f"of {asked['candidates']} asked for"),
        ("Held-out problems", number(counts["heldout"]), f"of {asked['heldout']} asked for"),
        ("Validation problems", number(counts["validation"]), ""),
        ("Quarantined", number(counts["quarantined"]), f"of {counts['rows']} rows read"),
        ("Reference CPU time", milliseconds(cpu_ms["median"]), f"median; longest {milliseconds(cpu_ms['largest'])}"),
    ]


def _slowest(problems: Sequence[Problem]) -> list[tuple[str, str, str]]:
    """The five problems whose reference takes longest: task, function, CPU time."""
    timed = sorted(problems, key=lambda problem: -(problem.reference_cpu_ms or 0.0))
    return [(problem.task_id, problem.entry_point, milliseconds(problem.reference_cpu_ms)) for problem in timed[:5]]


def milliseconds(time_ms: float | None) -> str:
    """A time as `2.9 ms` or `1,798.9 ms`; None, not measured, is a dash."""
    return "–" if time_ms is None else f"{time_ms:,.1f} ms"


def _problem_card(problem: Problem) -> dict[str, Any]:
    facts = [problem.split, f"{len(problem.tests)} tests", milliseconds(problem.reference_cpu_ms)]
    if problem.hidden_tests:
        facts.append(f"{len(problem.hidden_tests)} hidden tests")
    start = "\n\n".join(part for part in (problem.prelude, problem.signature) if part)
    samples = [
        Sample("The model goes on from", start),
        Sample("Tests", "\n".join([problem.setup, *problem.tests]).strip()),
        Sample("Reference", problem.reference),
    ]
    text = problem.prompt.removesuffix(start).strip()
    return {"name": f"Problem {problem.task_id}", "text": text, "facts": facts, "samples": samples}
