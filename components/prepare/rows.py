"""From a published row to a problem: MBPP's two schemas, HumanEval's, EvalPlus's, and rows that are problems already.

The full MBPP file has text, code, test_list, test_setup_code and challenge_test_list; the sanitized one has prompt,
code, test_imports and test_list; the other two stand in `humaneval`. A row that lacks what it needs is the user's
mistake and names its place; a row that is complete but makes no problem (code that is no Python, tests that call
nothing) is unusable, and quarantined.
"""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator

from components.prepare.humaneval import HumanEvalRow, PlusRow, from_humaneval, from_plus
from components.prepare.needs import find_needs
from components.prepare.python_text import normal_python, unix_lines
from components.prepare.raw import RawRow
from components.prepare.signature import UnusableRow, find_entry_point, signature_of
from components.shared.errors import UserError
from components.shared.problem import PUBLISHED, Problem

FIELDS_WANTED = (
    "MBPP's fields (task_id, text or prompt, code, test_list), HumanEval's (task_id, prompt, entry_point, "
    "canonical_solution, test), EvalPlus's (base_input in place of test) or a problem record's"
)
SOLVED = {"prompt", "entry_point", "canonical_solution"}


class MbppRow(BaseModel):
    """One row of MBPP, full or sanitized; fields that only one of them has are empty in the other."""

    model_config = ConfigDict(frozen=True)

    task_id: str
    text: str = Field(validation_alias=AliasChoices("text", "prompt"))
    code: str
    test_list: list[str]
    test_setup_code: str = ""
    test_imports: list[str] = []
    challenge_test_list: list[str] = []
    split: str = ""

    @field_validator("task_id", mode="before")
    @classmethod
    def _number_or_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) else value

    @field_validator("test_setup_code", "split", mode="before")
    @classmethod
    def _text_or_none(cls, value: Any) -> Any:
        return "" if value is None else value  # columns of a parquet file are null where a row has nothing

    @field_validator("test_imports", "challenge_test_list", mode="before")
    @classmethod
    def _list_or_none(cls, value: Any) -> Any:
        return [] if value is None else value


@dataclass(frozen=True)
class Row:
    """A row whose fields were checked. split is the one it declares, or ""."""

    place: str
    task_id: str
    split: str
    content: MbppRow | HumanEvalRow | PlusRow | Problem


def check_row(raw: RawRow) -> Row:
    """Check one row's fields; UserError names the place of a malformed one."""
    kind = _kind_of(raw.fields)
    missing = {"code", "test_list"} - raw.fields.keys()
    if kind is MbppRow and missing:
        raise UserError(
            f"{raw.place}: the row has no field {' and no field '.join(sorted(missing))}; "
            f"a data set needs {FIELDS_WANTED}."
        )
    try:
        content = _problem_record(raw.fields) if kind is Problem else kind.model_validate(raw.fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the row"
        raise UserError(f"{raw.place}: {field}: {first['msg']}; a data set needs {FIELDS_WANTED}.") from None
    if isinstance(content, Problem):
        _check_prompt(content, raw.place)
    return Row(place=raw.place, task_id=content.task_id, split=content.split or raw.split, content=content)


def _kind_of(fields: dict[str, Any]) -> type[MbppRow | HumanEvalRow | PlusRow | Problem]:
    if {"entry_point", "tests", "reference"} <= fields.keys():
        return Problem
    if fields.keys() >= SOLVED and "base_input" in fields:
        return PlusRow
    return HumanEvalRow if fields.keys() >= SOLVED and "test" in fields else MbppRow


def _problem_record(fields: dict[str, Any]) -> Problem:
    """A problem record, in which what another tool need not know may be missing."""
    optional: dict[str, Any] = {
        "source": "",
        "split": "",
        "prelude": "",
        "setup": "",
        "hidden_tests": [],
        "reference_cpu_ms": None,
    }
    record = Problem.model_validate({**optional, **fields, "task_id": str(fields.get("task_id") or "")})
    known = record.hidden_tests_from[: len(record.hidden_tests)]
    origins = known + [PUBLISHED] * (len(record.hidden_tests) - len(known))
    return record.model_copy(update={"hidden_tests_from": origins})


def _check_prompt(problem: Problem, place: str) -> None:
    if not problem.task_id:
        raise UserError(f"{place}: task_id is missing or empty; every row needs one of its own.")
    name = problem.entry_point
    if not re.fullmatch(rf"def\s+{re.escape(name)}\s*\(.*:", problem.signature):
        raise UserError(f"{place}: prompt must end with the line `def {name}(...):` and no newline after it.")


def to_problem(row: Row, *, split: str, source: str) -> Problem:
    """The problem that a row makes; UnusableRow, with the reason, when it makes none."""
    if isinstance(row.content, Problem):
        if not row.content.tests:
            raise UnusableRow("it has no tests")
        return row.content.model_copy(
            update={"split": split, "source": row.content.source or source, "reference_cpu_ms": None}
        )
    try:
        if isinstance(row.content, HumanEvalRow):
            return from_humaneval(row.content, split=split, source=source)
        if isinstance(row.content, PlusRow):
            return from_plus(row.content, split=split, source=source)
        return _from_mbpp(row.content, split=split, source=source)
    except SyntaxError as error:  # found only when the names of a whole block are resolved
        raise UnusableRow(f"its code or its tests are no Python: {error.msg}") from None


def unusable_row(row: Row, split: str, source: str, reason: str) -> dict[str, Any]:
    """The record of a row that made no problem, for quarantined.jsonl."""
    return {
        "task_id": row.task_id, "source": source, "split": split, "place": row.place,
        "kind": "unusable", "reason": reason,
    }  # fmt: skip


def _from_mbpp(row: MbppRow, *, split: str, source: str) -> Problem:
    if not row.test_list:
        raise UnusableRow("it has no tests")
    code = _python(row.code, "its code")
    tests = [_python(test, f"test {number}") for number, test in enumerate(row.test_list, start=1)]
    hidden = [_python(test, f"challenge test {n}") for n, test in enumerate(row.challenge_test_list, start=1)]
    setup_code = _python("\n".join([*row.test_imports, row.test_setup_code]), "its set-up code")
    function = find_entry_point(code, tests)
    signature = signature_of(code, function)
    needs = find_needs(
        reference=code,
        entry_point=function.name,
        signature=signature,
        setup_code=setup_code,
        tests=tests,
        hidden_tests=hidden,
    )
    return Problem(
        task_id=row.task_id,
        source=source,
        split=split,
        prompt=_paragraphs(unix_lines(row.text).strip(), needs.prelude, signature),
        entry_point=function.name,
        prelude=needs.prelude,
        setup=needs.setup,
        tests=needs.tests,
        hidden_tests=needs.hidden_tests,
        hidden_tests_from=[PUBLISHED] * len(needs.hidden_tests),
        reference=_paragraphs(needs.published_prelude, code) + "\n",
        reference_cpu_ms=None,
    )


def _python(source: str, what: str) -> str:
    try:
        return normal_python(source)
    except SyntaxError as error:
        raise UnusableRow(f"{what} is no Python: {error.msg}") from None


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
