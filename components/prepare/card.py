"""The data card: one page that says what a run trains on and is measured on, and what was left out and why."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.prepare.counts import ENOUGH_HIDDEN
from components.prepare.references import DUPLICATE
from components.prepare.selection import Selection, described
from components.shared.pages import clip, number, percent, render
from components.shared.problem import GENERATED, Problem

PROBLEMS_SHOWN = 6  # of each kind
HIDDEN_SHOWN = 4  # tests of each problem
QUARANTINED_SHOWN = 100
PAIRS_SHOWN, REPEATS_SHOWN = 50, 20


@dataclass(frozen=True)
class Sample:
    """One piece of code on a problem's card, as the page's macro wants it."""

    label: str
    code: str
    passed: bool | None = None
    note: str = ""


def card_page(
    selection: Selection,
    regression: Sequence[Problem],
    quarantined: Sequence[Mapping[str, Any]],
    counts: Mapping[str, Any],
) -> str:
    """The page as HTML. counts is prepare/counts.json, quarantined the rows of quarantined.jsonl."""
    others = [row for row in quarantined if row["kind"] != DUPLICATE]
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
            (row["task_id"], row["split"], row["kind"], clip(str(row["reason"]))) for row in others[:QUARANTINED_SHOWN]
        ],
        quarantined_more=max(0, len(others) - QUARANTINED_SHOWN),
        lengths=_lengths(selection, regression),
        hidden_rows=_hidden_rows(counts),
        enough=ENOUGH_HIDDEN,
        duplicate_rows=[(pair.problem.task_id, pair.problem.split, described(pair)) for pair in selection.dropped][
            :PAIRS_SHOWN
        ],
        repeat_rows=_repeat_rows(selection),
        weak_rows=list(counts["weak"].items()),
        slowest=_slowest(selection.all),
        median_cpu=milliseconds(counts["reference_cpu_ms"]["median"]),
        problems=[
            (kind, [_problem_card(problem) for problem in chosen[:PROBLEMS_SHOWN]])
            for kind, chosen in (
                ("Training", selection.candidates),
                ("Held-out", selection.heldout),
                ("Regression", regression),
            )
            if chosen
        ],
    )


def _stats(counts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    asked = counts["asked"]
    hidden = counts["hidden_tests"]["held-out"]
    return [
        ("Training problems", number(counts["candidates"]), f"of {asked['candidates']} asked for"),
        ("Held-out problems", number(counts["heldout"]), f"of {asked['heldout']} asked for"),
        ("Validation problems", number(counts["validation"]), ""),
        *([("Regression problems", number(counts["regression"]), "")] if counts["regression"] else []),
        (
            "Held-out hidden tests",
            number(hidden["tests"]),
            f"{percent(hidden['share_with_enough'], 0)} of problems have {ENOUGH_HIDDEN} or more",
        ),
        ("Quarantined", number(counts["quarantined"]), f"of {counts['rows']} rows read"),
    ]


def _lists(selection: Selection, regression: Sequence[Problem]) -> list[tuple[str, list[Problem]]]:
    lists = [("training", selection.candidates), ("held-out", selection.heldout), ("validation", selection.validation)]
    return [(name, chosen) for name, chosen in [*lists, ("regression", list(regression))] if chosen]


def _lengths(selection: Selection, regression: Sequence[Problem]) -> list[tuple[str, ...]]:
    """A row for each list: median and largest of what models read and write, and of the visible tests."""
    measures: tuple[Callable[[Problem], int], ...] = (
        lambda problem: len(problem.prompt),
        lambda problem: len(problem.reference.splitlines()),
        lambda problem: len(problem.tests),
    )
    return [
        (name, *(_median_and_largest([measure(problem) for problem in chosen]) for measure in measures))
        for name, chosen in _lists(selection, regression)
    ]


def _median_and_largest(values: Sequence[int]) -> str:
    return f"{number(statistics.median(values))} · {number(max(values))}"


def _hidden_rows(counts: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            name,
            number(row["tests"]),
            number(row["generated"]),
            f"{number(row['median'])} · {number(row['smallest'])}",
            percent(row["share_with_enough"]),
        )
        for name, row in counts["hidden_tests"].items()
    ]


def _repeat_rows(selection: Selection) -> list[tuple[str, str, str, str]]:
    return [
        (name, pair.problem.task_id, pair.other.task_id, pair.why)
        for name, pairs in selection.repeats.items()
        for pair in pairs
    ][:REPEATS_SHOWN]


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
        generated = problem.hidden_tests_from.count(GENERATED)
        facts.append(f"{len(problem.hidden_tests)} hidden tests, {generated} of them generated")
    start = "\n\n".join(part for part in (problem.prelude, problem.signature) if part)
    samples = [
        Sample("The model goes on from", start),
        Sample("Tests", "\n".join([problem.setup, *problem.tests]).strip()),
        Sample("Reference", problem.reference),
    ]
    if problem.hidden_tests:
        shown = problem.hidden_tests[:: max(1, len(problem.hidden_tests) // HIDDEN_SHOWN)][:HIDDEN_SHOWN]
        samples.append(Sample("Some of the hidden tests, never shown to the model", "\n".join(shown)))
    text = problem.prompt.removesuffix(start).strip()
    return {"name": f"Problem {problem.task_id}", "text": text, "facts": facts, "samples": samples}
