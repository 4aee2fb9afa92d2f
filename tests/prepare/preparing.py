"""One run of the step at a real sandbox, and what it left."""

import json
from pathlib import Path
from typing import Any

from components.prepare.prepare import run
from components.shared.problem import CARD, HELDOUT, PROBLEMS, QUARANTINED, VALIDATION, Problem, read_problems

DEFAULTS: dict[str, Any] = {
    "dataset_revision": "",
    "candidate_splits": "train,validation,prompt",
    "max_candidate_samples": 6,
    "max_eval_samples": 4,
    "hidden_tests": 4,
    "regression_dataset": "",
    "regression_revision": "",
    "seed": 42,
    "test_timeout_s": 5.0,
    "infra_limit": 0.0,
}


class Written:
    """What a run of the step left in a folder."""

    def __init__(self, folder: Path) -> None:
        self.problems, self.heldout = read_problems(folder / PROBLEMS), read_problems(folder / HELDOUT)
        self.validation = read_problems(folder / VALIDATION)
        self.quarantined = [json.loads(line) for line in (folder / QUARANTINED).read_text().splitlines()]
        self.counts = json.loads((folder / "prepare/counts.json").read_text())
        self.card = (folder / CARD).read_text()


def prepare(folder: Path, data: Path, sandbox_url: str, **given: Any) -> Written:
    run(folder, folder.with_suffix(".html"), dataset=str(data), sandbox_url=sandbox_url, **{**DEFAULTS, **given})
    written = Written(folder)
    assert folder.with_suffix(".html").read_text() == written.card
    return written


def ids(problems: list[Problem]) -> list[str]:
    return [problem.task_id for problem in problems]
