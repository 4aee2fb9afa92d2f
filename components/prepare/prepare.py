"""The step: read a data set, make problems of its rows, have them check themselves, write the problem set.

It runs without torch and without a GPU. What it writes stands in components/shared/problem.py; beside that a record of
what was read and chosen, prepare/counts.json.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.prepare.card import card_page
from components.prepare.counts import counts_of
from components.prepare.hidden import HiddenTests
from components.prepare.raw import RawData
from components.prepare.references import References
from components.prepare.regression import answered, regression_problems
from components.prepare.rows import check_row, to_problem, unusable_row
from components.prepare.selection import Selection, select
from components.prepare.signature import UnusableRow
from components.prepare.sources import read_dataset
from components.prepare.splits import SHARE_OF_TEST, assign_splits, is_mbpp
from components.settings import split_names
from components.shared.errors import UserError
from components.shared.grading import Grader
from components.shared.problem import (
    CARD,
    HELDOUT,
    PREPARE_COUNTS,
    PROBLEMS,
    QUARANTINED,
    REGRESSION,
    VALIDATION,
    Problem,
    write_problems,
)
from components.shared.progress import say
from components.shared.sandbox import SandboxClient


@dataclass(frozen=True)
class ProblemSet:
    """All that the step writes: the problems, those of the regression set, the rows left out, and the record."""

    selection: Selection
    regression: list[Problem]
    quarantined: list[dict[str, Any]]
    counts: dict[str, Any]


def run(
    folder: Path,
    card: Path,
    *,
    dataset: str,
    dataset_revision: str,
    candidate_splits: str,
    max_candidate_samples: int,
    max_eval_samples: int,
    hidden_tests: int,
    regression_dataset: str,
    regression_revision: str,
    seed: int,
    sandbox_url: str,
    test_timeout_s: float,
    infra_limit: float,
) -> None:
    """Write the problem set into `folder` and the data card, one HTML file, also to `card`; all of it or nothing.

    With max_candidate_samples 0 nothing is trained on: there are held-out problems alone, and rows without a split are
    all among them. hidden_tests is how many are generated a problem, test_timeout_s CPU seconds a reference,
    infra_limit the share of programs that may stay without a verdict. Raises UserError for a data set that cannot be
    used, InfraError when hub, store or sandbox fails.
    """
    start = time.monotonic()
    client = SandboxClient.from_setting(sandbox_url)
    grader = Grader(client, test_timeout_s=test_timeout_s, infra_limit=infra_limit)
    data = read_dataset(dataset, dataset_revision)
    share = SHARE_OF_TEST if max_candidate_samples else 1.0
    problems, unusable = make_problems(data, dataset=dataset, seed=seed, share_of_test=share)
    references = References(grader, HiddenTests(grader, hidden_tests, seed), unusable)
    elsewhere = References(grader, HiddenTests(grader, 0, seed))
    problems = answered(references, problems, data.rows)
    say("prepare", f"{len(data.rows)} rows read from {dataset}, {len(problems)} problems made of them")
    regression: list[Problem] = []
    if regression_dataset:
        regression = regression_problems(regression_dataset, regression_revision, elsewhere)
    splits = split_names(candidate_splits)
    selection = select(
        problems,
        references,
        dataset=dataset,
        candidate_splits=splits,
        max_candidate_samples=max_candidate_samples,
        max_eval_samples=max_eval_samples,
        seed=seed,
        regression=regression,
    )
    asked = {"candidates": max_candidate_samples, "heldout": max_eval_samples, "splits": splits, "seed": seed}
    asked |= {"hidden_tests": hidden_tests, "regression_dataset": regression_dataset}
    counts = counts_of(data, selection, problems, regression, references, elsewhere, dataset=dataset, asked=asked)
    counts["seconds"] = round(time.monotonic() - start, 3)
    tell(counts)
    quarantined = references.quarantined + elsewhere.quarantined
    write(folder, card, ProblemSet(selection, regression, quarantined, counts))


def make_problems(
    data: RawData, *, dataset: str, seed: int, share_of_test: float = SHARE_OF_TEST
) -> tuple[list[Problem], list[dict[str, Any]]]:
    """Problems in the order of the rows, and rows for quarantined.jsonl of those that make none.

    share_of_test: of the rows without a split, those that are held out. Problems of rows in EvalPlus's format have no
    tests yet (see `regression.answered`).
    """
    rows = [check_row(raw) for raw in data.rows]
    if not rows:
        raise UserError(f"The data set {dataset} has no rows: it needs problems with tests.")
    splits = assign_splits(rows, seed, share_of_test=share_of_test)
    source = "mbpp" if is_mbpp(rows) else data.name
    problems: list[Problem] = []
    unusable: list[dict[str, Any]] = []
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


def tell(counts: dict[str, Any]) -> None:
    """Say what was chosen, and every warning."""
    for warning in counts["warnings"]:
        say("prepare", f"warning: {warning}")
    regression = f" and {counts['regression']} regression" if counts["regression"] else ""
    say(
        "prepare",
        f"{counts['candidates']} training, {counts['heldout']} held-out, {counts['validation']} validation{regression} "
        f"problems; {counts['quarantined']} rows quarantined",
    )


def write(folder: Path, card: Path, made: ProblemSet) -> None:
    """Write everything beside its place and move it there at once, so that no half of it is ever seen."""
    selection = made.selection
    page = card_page(selection, made.regression, made.quarantined, made.counts)
    folder.mkdir(parents=True, exist_ok=True)
    lists: list[tuple[str, Sequence[Problem]]] = [
        (PROBLEMS, selection.candidates),
        (HELDOUT, selection.heldout),
        (VALIDATION, selection.validation),
        *([(REGRESSION, made.regression)] if made.regression else []),
    ]
    with tempfile.TemporaryDirectory(prefix=".prepare-", dir=folder) as staging:
        staged = Path(staging)
        for name, problems in lists:
            write_problems(staged / name, problems)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in made.quarantined]
        (staged / QUARANTINED).write_text("".join(lines), encoding="utf-8")
        counts = json.dumps(made.counts, indent=1, ensure_ascii=False)
        (staged / PREPARE_COUNTS).write_text(counts + "\n", encoding="utf-8")
        (staged / CARD).write_text(page, encoding="utf-8")
        target = folder / Path(PROBLEMS).parent
        if target.exists():
            shutil.rmtree(target)
        (staged / target.name).rename(target)
    card.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / CARD, card)
