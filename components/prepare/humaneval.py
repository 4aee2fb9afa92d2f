"""Rows in HumanEval's format, and in EvalPlus's, which has inputs in place of tests.

Both give the beginning of a program as the prompt, with the text in the function's docstring (MBPP+: only a docstring).
The problem made of it has the form of every other: text, what the program needs, signature. Scores are therefore for
comparing models here, and not with published figures.
"""

import ast
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from components.prepare.hidden import with_hidden
from components.prepare.needs import find_needs
from components.prepare.oracle import TOLERANCE, Answer, Question, answers, make_test
from components.prepare.python_text import normal_python, parse, unix_lines
from components.prepare.signature import UnusableRow, signature_of
from components.prepare.visible import Arguments, VisibleCall, usual_view, visible_calls
from components.shared.grading import Grader
from components.shared.problem import PUBLISHED, Problem

MOST_PLUS_TESTS = 200  # a problem; EvalPlus has about a hundred


class _PromptRow(BaseModel):
    """What both formats have."""

    model_config = ConfigDict(frozen=True)

    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    split: str = ""

    @field_validator("task_id", mode="before")
    @classmethod
    def _number_or_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) else value


class HumanEvalRow(_PromptRow):
    """One row of HumanEval; test defines check(candidate)."""

    test: str


class PlusRow(_PromptRow):
    """One row of MBPP+ or HumanEval+. Inputs are lists of arguments; assertion shows their types, which JSON lacks."""

    base_input: list[list[Any]]
    plus_input: list[list[Any]] = []
    assertion: str = ""
    atol: float = 0.0


def from_humaneval(row: HumanEvalRow, *, split: str, source: str) -> Problem:
    """The problem that a row of HumanEval makes; its check is one test. Raises UnusableRow and SyntaxError."""
    test = normal_python(f"{row.test}\n\ncheck({row.entry_point})")
    return _problem(row, split=split, source=source, tests=[test])


def from_plus(row: PlusRow, *, split: str, source: str) -> Problem:
    """The problem that a row of EvalPlus makes, without tests yet. Raises UnusableRow and SyntaxError."""
    return _problem(row, split=split, source=source, tests=[])


def with_plus_tests(grader: Grader, problems: Sequence[Problem], rows: Sequence[PlusRow]) -> list[Problem]:
    """The problems with tests of their base inputs and hidden tests of their plus inputs, as the reference answers.

    A problem whose reference answers none of its base inputs has no tests.
    """
    typed = [_typed_inputs(row) for row in rows]
    questions = [Question(problem, each, grader.test_timeout_s) for problem, each in zip(problems, typed, strict=True)]
    found = answers(grader, questions)
    return [
        _tested(problem, row, inputs[: len(row.base_input)], each)
        for problem, row, inputs, each in zip(problems, rows, typed, found, strict=True)
    ]


def _tested(problem: Problem, row: PlusRow, base: Sequence[Arguments], found: Sequence[Answer]) -> Problem:
    view, tolerance = usual_view(_shown_calls(row)), row.atol or TOLERANCE
    first = set(map(repr, base))
    visible: list[str] = []
    hidden: list[str] = []
    for answer in found:
        test = make_test(problem, answer, view=view, tolerance=tolerance)
        if test is not None:
            (visible if repr(answer.arguments) in first else hidden).append(test)
    tested = problem.model_copy(update={"tests": list(dict.fromkeys(visible))})
    new = [test for test in dict.fromkeys(hidden) if test not in visible]
    return with_hidden(tested, new[:MOST_PLUS_TESTS], PUBLISHED)


def _shown_calls(row: PlusRow) -> list[VisibleCall]:
    try:
        return visible_calls([unix_lines(row.assertion)], row.entry_point)
    except SyntaxError:
        return []


def _typed_inputs(row: PlusRow) -> list[Arguments]:
    """Base and plus inputs, lists made tuples and sets where the row's assertion has those."""
    shown = [call.arguments for call in _shown_calls(row)]
    example = shown[0] if shown else ()
    return [
        tuple(_like(value, example[place]) if place < len(example) else value for place, value in enumerate(arguments))
        for arguments in row.base_input + row.plus_input
    ]


def _like(value: Any, example: Any) -> Any:
    if isinstance(value, list) and isinstance(example, list | tuple | set):
        inner = next(iter(example), None)
        parts = [_like(part, inner) for part in value]
        try:
            return type(example)(parts)
        except TypeError:  # a list in a set: not what the example shows
            return parts
    if isinstance(value, dict) and isinstance(example, dict) and example:
        inner = next(iter(example.values()))
        return {key: _like(part, inner) for key, part in value.items()}
    if isinstance(value, str) and isinstance(example, complex):
        return complex(value)
    return value


def _problem(row: _PromptRow, *, split: str, source: str, tests: list[str]) -> Problem:
    begin = parse(unix_lines(row.prompt))
    own = [node for node in begin.body if isinstance(node, ast.FunctionDef) and node.name == row.entry_point]
    whole = row.canonical_solution if not own else row.prompt + row.canonical_solution
    code = normal_python(whole)
    functions = [
        node for node in parse(code).body if isinstance(node, ast.FunctionDef) and node.name == row.entry_point
    ]
    if not functions:
        raise UnusableRow(f"its solution defines no function {row.entry_point} at its top level")
    signature = signature_of(code, functions[-1])
    text = ast.get_docstring(own[-1] if own else begin) or ""
    lines = [line for line in unix_lines(text).split("\n") if own or not line.startswith("assert ")]
    shown = [node for node in begin.body if node not in own] if own else []
    prelude = ast.unparse(ast.Module(shown, [])).strip()
    if not own:
        needs = find_needs(
            reference=code,
            entry_point=row.entry_point,
            signature=signature,
            setup_code="",
            tests=[unix_lines(row.assertion)] if isinstance(row, PlusRow) else tests,
            hidden_tests=[],
        )
        prelude = needs.prelude
    return Problem(
        task_id=row.task_id,
        source=source,
        split=split,
        prompt="\n\n".join(part for part in ("\n".join(lines).strip(), prelude, signature) if part),
        entry_point=row.entry_point,
        prelude=prelude,
        setup="",
        tests=tests,
        hidden_tests=[],
        reference=code + "\n",
        reference_cpu_ms=None,
    )
