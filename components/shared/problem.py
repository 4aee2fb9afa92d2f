"""The problem record, its JSONL files, and the folder in which problems pass between the steps.

prepare writes a problem set; filter reads one and writes one, so that train cannot tell whether it ran:

    prepare/  problems.jsonl heldout.jsonl validation.jsonl quarantined.jsonl card.html counts.json
              regression.jsonl                  (only where a regression set was asked for)
    filter/   kept.jsonl counts.json            (only where the filter ran)

These are also the names under `runs/<run>/` in the store.
"""

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from components.shared.errors import UserError

PROBLEMS = "prepare/problems.jsonl"
HELDOUT = "prepare/heldout.jsonl"
VALIDATION = "prepare/validation.jsonl"
REGRESSION = "prepare/regression.jsonl"
QUARANTINED = "prepare/quarantined.jsonl"
CARD = "prepare/card.html"
PREPARE_COUNTS = "prepare/counts.json"
KEPT = "filter/kept.jsonl"
FILTER_COUNTS = "filter/counts.json"
REGRESSION_SPLIT = "regression"  # of problems that are only there to see whether training costs something elsewhere
PUBLISHED, GENERATED = "dataset", "generated"  # where a hidden test is from


class Problem(BaseModel):
    """One programming problem.

    prompt: text, blank line, prelude (if any) and signature; ends with ":" and no newline.
    prelude: classes and helpers the program needs; shown before the signature and part of the program.
    setup: imports that the tests need; runs in the judge only.
    tests: each one Python block, judged as one test. hidden_tests: likewise, never a reward and never shown.
    hidden_tests_from: the origin of each hidden test, PUBLISHED or GENERATED.
    reference_cpu_ms: CPU time of the reference solution with its tests, generated ones not among them, in milliseconds;
        None when not measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_id: str
    source: str
    split: str
    prompt: str
    entry_point: str
    prelude: str
    setup: str
    tests: list[str]
    hidden_tests: list[str]
    hidden_tests_from: list[str] = []
    reference: str
    reference_cpu_ms: float | None

    @property
    def signature(self) -> str:
        """The last line of the prompt, `def name(...):`; completions go on from here."""
        return self.prompt.rsplit("\n", 1)[-1]

    def on_hidden_tests(self) -> "Problem":
        """What to judge so that the hidden tests decide; they never are a reward."""
        return self.model_copy(update={"tests": self.hidden_tests})


def read_problems(path: Path) -> list[Problem]:
    """Read a JSONL file of problems; UserError names the file and line of the first malformed one."""
    if not path.is_file():
        raise UserError(f"{path} does not exist: a problem file with one JSON object a line is needed.")
    problems = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            problems.append(Problem.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "the line"
            raise UserError(f"{path}, line {number}: {field}: {first['msg']}.") from None
    return problems


def write_problems(path: Path, problems: Iterable[Problem]) -> None:
    """Write problems as JSONL, one record a line, in the order given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(problem.model_dump_json() + "\n" for problem in problems), encoding="utf-8")


def training_problems(folder: Path) -> list[Problem]:
    """The problems to train on in a problem set: those the filter kept, or all when it did not run."""
    kept = folder / KEPT
    return read_problems(kept if kept.exists() else folder / PROBLEMS)
