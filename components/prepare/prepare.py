"""The step: read a data set, make problems of its rows, check their references, write the problem set.

It runs without torch and without a GPU. What it writes stands in components/shared/problem.py; beside that a record of
what was read and chosen, prepare/counts.json.
"""

import json
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.prepare.card import card_page
from components.prepare.raw import RawData
from components.prepare.references import References
from components.prepare.rows import Row, check_row, to_problem
from components.prepare.selection import Selection, select
from components.prepare.signature import UnusableRow
from components.prepare.sources import read_dataset
from components.prepare.splits import assign_splits, is_mbpp
from components.settings import NOT_COMPARABLE, SPLITS, split_names
from components.shared.errors import UserError
from components.shared.grading import Grader
from components.shared.problem import (
    CARD,
    HELDOUT,
    PREPARE_COUNTS,
    PROBLEMS,
    QUARANTINED,
    VALIDATION,
    Problem,
    write_problems,
)
from components.shared.progress import say
from components.shared.sandbox import SandboxClient


def run(
    folder: Path,
    card: Path,
    *,
    dataset: str,
    dataset_revision: str,
    candidate_splits: str,
    max_candidate_samples: int,
    max_eval_samples: int,
    seed: int,
    sandbox_url: str,
    test_timeout_s: float,
    infra_limit: float,
) -> None:
    """Write the problem set into `folder` and the data card, one HTML file, also to `card`; all of it or nothing.

    test_timeout_s is CPU seconds a reference, infra_limit the share of references that may stay without a verdict.
    Raises UserError for a data set that cannot be used, InfraError when hub, store or sandbox fails.
    """
    start = time.monotonic()
    client = SandboxClient.from_setting(sandbox_url)
    data = read_dataset(dataset, dataset_revision)
    problems, unusable = make_problems(data, dataset=dataset, seed=seed)
    say("prepare", f"{len(data.rows)} rows read from {dataset}, {len(problems)} problems made of them")
    references = References(Grader(client, test_timeout_s=test_timeout_s, infra_limit=infra_limit))
    splits = split_names(candidate_splits)
    selection = select(
        problems,
        references,
        dataset=dataset,
        candidate_splits=splits,
        max_candidate_samples=max_candidate_samples,
        max_eval_samples=max_eval_samples,
        seed=seed,
    )
    quarantined = unusable + references.quarantined
    counts = {
        **describe(data, selection, problems, dataset=dataset, quarantined=quarantined),
        "asked": {"candidates": max_candidate_samples, "heldout": max_eval_samples, "splits": splits, "seed": seed},
        "without_verdict": references.without_verdict,
        "warnings": warnings_of(selection, references, splits),
        "seconds": round(time.monotonic() - start, 3),
    }
    tell(counts)
    write(folder, card, selection, quarantined, counts)


def make_problems(data: RawData, *, dataset: str, seed: int) -> tuple[list[Problem], list[dict[str, Any]]]:
    """Problems in the order of the rows, and the rows that make none, each with the reason."""
    rows = [check_row(raw) for raw in data.rows]
    if not rows:
        raise UserError(f"The data set {dataset} has no rows: it needs problems with tests.")
    splits = assign_splits(rows, seed)
    source = "mbpp" if is_mbpp(rows) else data.name
    problems, unusable = [], []
    for row in rows:
        try:
            problems.append(to_problem(row, split=splits[row.task_id], source=source))
        except UnusableRow as reason:
            unusable.append(unusable_row(row, splits[row.task_id], source, str(reason)))
    if not problems:
        raise UserError(
            f"No row of the data set {dataset} makes a problem; the first, {rows[0].place}: {unusable[0]['reason']}."
        )
    return problems, unusable


def unusable_row(row: Row, split: str, source: str, reason: str) -> dict[str, Any]:
    """The record of a row that made no problem, for quarantined.jsonl."""
    return {"task_id": row.task_id, "source": source, "split": split, "place": row.place, "reason": reason}


def describe(
    data: RawData, selection: Selection, problems: Sequence[Problem], *, dataset: str, quarantined: Sequence[Any]
) -> dict[str, Any]:
    """What was read and chosen, in numbers; CPU times are in milliseconds."""
    chosen = selection.candidates + selection.heldout + selection.validation
    cpu_ms = [problem.reference_cpu_ms for problem in chosen if problem.reference_cpu_ms is not None]
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
        "quarantined": len(quarantined),
        "reference_cpu_ms": {"median": statistics.median(cpu_ms), "largest": max(cpu_ms)},
    }


def by_split(problems: Sequence[Problem]) -> dict[str, int]:
    """How many problems of each split, those without any left out."""
    sizes = Counter(problem.split for problem in problems)
    return {split: sizes[split] for split in SPLITS if sizes[split]}


def warnings_of(selection: Selection, references: References, splits: Sequence[str]) -> list[str]:
    """Everything that the person who started the run should know before trusting it."""
    warnings = list(selection.warnings)
    if "test" in splits:
        warnings.append(NOT_COMPARABLE)
    if references.without_verdict:
        warnings.append(
            f"{references.without_verdict} references could not be judged and were left out; they may be right, "
            "see quarantined.jsonl."
        )
    return warnings


def tell(counts: dict[str, Any]) -> None:
    """Say what was chosen, and every warning."""
    for warning in counts["warnings"]:
        say("prepare", f"warning: {warning}")
    say(
        "prepare",
        f"{counts['candidates']} training, {counts['heldout']} held-out and {counts['validation']} validation "
        f"problems; {counts['quarantined']} rows quarantined",
    )


def write(
    folder: Path, card: Path, selection: Selection, quarantined: Sequence[dict[str, Any]], counts: dict[str, Any]
) -> None:
    """Write everything beside its place and move it there at once, so that no half of it is ever seen."""
    page = card_page(selection, quarantined, counts)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".prepare-", dir=folder) as staging:
        staged = Path(staging)
        write_problems(staged / PROBLEMS, selection.candidates)
        write_problems(staged / HELDOUT, selection.heldout)
        write_problems(staged / VALIDATION, selection.validation)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in quarantined]
        (staged / QUARANTINED).write_text("".join(lines), encoding="utf-8")
        (staged / PREPARE_COUNTS).write_text(json.dumps(counts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (staged / CARD).write_text(page, encoding="utf-8")
        target = folder / Path(PROBLEMS).parent
        if target.exists():
            shutil.rmtree(target)
        (staged / target.name).rename(target)
    card.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / CARD, card)
