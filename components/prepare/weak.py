"""Weak problems: those whose visible tests a program passes that does nothing of what is asked.

Such a problem pays for a trick. The programs tried return a constant, the first expected answer or an argument. What
the literals of the visible tests contradict need not be run; the rest is judged in the sandbox.
"""

import ast
import math
from collections.abc import Sequence
from typing import Any

from components.prepare.python_text import parse
from components.prepare.visible import CLOSE, PLAIN, TRUTH, VisibleCall, visible_calls
from components.shared.grading import Grader
from components.shared.problem import Problem

CONSTANTS = ("None", "True", "False", "0", "1", "-1", "''", "[]", "()", "{}")
LONGEST_CONSTANT = 2000  # characters


def weak_problems(grader: Grader, problems: Sequence[Problem]) -> dict[str, str]:
    """task_id -> what a program that passes does, for the problems that have one."""
    tried = [(problem, what, program) for problem in problems for what, program in possible_programs(problem)]
    verdicts = grader.grade([(problem, program) for problem, _, program in tried])
    found: dict[str, str] = {}
    for (problem, what, _), verdict in zip(tried, verdicts, strict=True):
        if verdict.passed:
            found.setdefault(problem.task_id, what)
    return found


def possible_programs(problem: Problem) -> list[tuple[str, str]]:
    """The programs that no literal of the visible tests contradicts, each with what it does."""
    calls = visible_calls(problem.tests, problem.entry_point)
    constants = dict.fromkeys(CONSTANTS)
    answers = [call.expected for call in calls if call.view in (PLAIN, CLOSE) and call.expected is not None]
    if answers and len(text := ast.unparse(answers[0])) <= LONGEST_CONSTANT and _literal(answers[0]) is not None:
        constants[text] = None
    programs = [
        (f"always returns {text}", text)
        for text in constants
        if not any(_contradicted(ast.literal_eval(text), call) for call in calls)
    ]
    programs += [
        (f"returns its argument {name}", name)
        for place, name in enumerate(_parameters(problem.signature))
        if not any(len(call.arguments) > place and _contradicted(call.arguments[place], call) for call in calls)
    ]
    return [(what, _program(problem, text)) for what, text in programs]


def _contradicted(value: Any, call: VisibleCall) -> bool:
    """Whether a test that makes the call cannot pass with this answer."""
    literal = _literal(call.expected)
    if literal is None:
        return False
    if call.view == TRUTH:
        return bool(value) != bool(literal[0])
    if call.view == CLOSE:
        numbers = isinstance(value, int | float) and isinstance(literal[0], int | float)
        return not (numbers and math.isclose(value, literal[0]))
    return call.view == PLAIN and bool(value != literal[0])


def _literal(expression: ast.expr | None) -> tuple[Any] | None:
    """The value of a literal, in a tuple; None for what is none."""
    try:
        return None if expression is None else (ast.literal_eval(expression),)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _parameters(signature: str) -> list[str]:
    function = parse(f"{signature} pass").body[0]
    return [each.arg for each in function.args.args] if isinstance(function, ast.FunctionDef) else []


def _program(problem: Problem, returned: str) -> str:
    return "\n\n".join(part for part in (problem.prelude, f"{problem.signature}\n    return {returned}\n") if part)
