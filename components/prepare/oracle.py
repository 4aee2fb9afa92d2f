"""The reference as an oracle: its answers to inputs, and tests that ask for them.

It runs in the sandbox. What it does not answer with plain data makes no test: that is also how an input is known to
make no sense. Whether it answers alike again is seen when it is run with the tests made here (see `references`).
"""

import ast
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from components.prepare.visible import CLOSE, PLAIN, TRUTH, Arguments
from components.shared.grading import Grader
from components.shared.problem import Problem
from components.shared.sandbox import CallsItem, Outputs

LONGEST_TEST = 2000  # characters: a test that nobody can read is of little use, and problem files stay small
CALLS_AT_ONCE = 1000  # the sandbox's limit on one item
ENDINGS = 3  # calls of one problem that may end its process before the rest is given up
ENDED, INFRA = ("timeout", "memory", "error"), "infra"  # outcomes of all calls of a problem
TOLERANCE = 1e-6  # of floats, absolute and relative, as EvalPlus compares them


@dataclass(frozen=True)
class Question:
    """A problem, the inputs for which answers are wanted, and the CPU seconds for all of them."""

    problem: Problem
    inputs: list[Arguments]
    timeout_s: float


@dataclass(frozen=True)
class Answer:
    """What a reference returned for an input."""

    arguments: Arguments
    value: Any


def answers(grader: Grader, questions: Sequence[Question]) -> list[list[Answer]]:
    """For each question the answers that there are, in the order of its inputs.

    What the sandbox did not answer counts as programs that could not be judged: InfraError, from the grader, when those
    are too many.
    """
    return [
        [
            Answer(arguments, value[0])
            for arguments, value in zip(question.inputs, values, strict=True)
            if value is not None
        ]
        for question, values in zip(questions, _values(grader, questions), strict=True)
    ]


def _values(grader: Grader, questions: Sequence[Question]) -> list[list[tuple[Any] | None]]:
    """For each input the value in a tuple, or None.

    A call that ends the process is left out and the rest asked again, as is what the sandbox lost.
    """
    values: list[list[tuple[Any] | None]] = [[None] * len(question.inputs) for question in questions]
    waiting = {place: list(range(len(question.inputs)))[:CALLS_AT_ONCE] for place, question in enumerate(questions)}
    lost: dict[int, str] = {}
    answered = grader.client.answered
    for _ in range(ENDINGS + 1):
        waiting = {place: left for place, left in waiting.items() if left}
        items = [
            CallsItem(
                program=questions[place].problem.reference,
                entry_point=questions[place].problem.entry_point,
                setup=questions[place].problem.setup,
                calls=[call_text(questions[place].problem.entry_point, questions[place].inputs[n]) for n in left],
                timeout_s=questions[place].timeout_s,
            )
            for place, left in waiting.items()
        ]
        found = grader.client.outputs(items)
        lost = {place: each.detail for place, each in zip(waiting, found, strict=True) if each.outcome == INFRA}
        if len(lost) == len(found):
            break  # nothing answers, and the client has tried for long
        for place, outputs in zip(list(waiting), found, strict=True):
            ran = _take(outputs, waiting[place], values[place])
            if outputs.outcome != INFRA:
                waiting[place] = waiting[place][ran + 1 :] if outputs.outcome in ENDED else []
    away = grader.client.answered == answered
    grader.count(len(questions), list(lost.values()), away=away, alone=len(questions) == 1)
    return values


def _take(outputs: Outputs, places: Sequence[int], values: list[tuple[Any] | None]) -> int:
    """Keep the values of one item; how many calls came to an end."""
    ran = 0
    for place, call in zip(places, outputs.calls, strict=False):
        if call.outcome not in ("returned", "raised", "opaque"):
            break
        ran += 1
        if call.value is not None:
            values[place] = (ast.literal_eval(call.value),)
    return ran


def call_text(entry_point: str, arguments: Arguments) -> str:
    """The call as Python text."""
    return f"{entry_point}({', '.join(map(repr, arguments))})"


def make_test(problem: Problem, answer: Answer, *, view: str = PLAIN, tolerance: float = TOLERANCE) -> str | None:
    """A test that asks for an answer; None where it would be too long or cannot be written.

    view: the built-in function of the answer that is compared (see `visible`). Floats are compared with `tolerance`,
    absolute and relative, wherever they stand in a list, tuple or dict; everything else must be equal.
    """
    call = call_text(problem.entry_point, answer.arguments)
    if view == TRUTH:
        text = f"assert {call}" if answer.value else f"assert not {call}"
    elif view not in (PLAIN, CLOSE):
        try:
            expected = _view(view, answer.value)
        except (TypeError, ValueError):
            return None
        text = f"assert {view}({call}) == {expected!r}"
    elif type(answer.value) is float and math.isfinite(answer.value):
        text = f"assert {_close(call, answer.value, tolerance)}"
    elif _holds_floats(answer.value):
        conditions = list(_conditions("got", answer.value, tolerance))
        text = f"got = {call}\nassert {' and '.join(conditions)}"
    else:
        text = f"assert {call} == {answer.value!r}"
    return text if len(text) <= LONGEST_TEST else None


def _view(view: str, value: Any) -> Any:
    functions = (set, sorted, list, tuple, dict, len, int, float, str, sum, max, min)
    return next(function for function in functions if function.__name__ == view)(value)


def _holds_floats(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_floats, value))
    if isinstance(value, dict):
        return any(map(_holds_floats, value.values()))
    return type(value) is float


def _close(expression: str, value: float, tolerance: float) -> str:
    return f"abs({expression} - {value!r}) <= {tolerance * max(1.0, abs(value)):.12g}"


def _conditions(place: str, value: Any, tolerance: float) -> Iterable[str]:
    """Conditions that together say that what stands at `place` is the value, floats within the tolerance."""
    if type(value) is float:
        yield _close(place, value, tolerance)
    elif not _holds_floats(value):
        yield f"{place} == {value!r}"
    elif isinstance(value, dict):
        yield f"set({place}) == {set(value)!r}"
        for key, part in value.items():
            yield from _conditions(f"{place}[{key!r}]", part, tolerance)
    else:
        yield f"isinstance({place}, {type(value).__name__}) and len({place}) == {len(value)}"
        for number, part in enumerate(value):
            yield from _conditions(f"{place}[{number}]", part, tolerance)
