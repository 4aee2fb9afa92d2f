"""What a program returns, written down: calls in place of tests, and of each a record of what came of it.

A call is one Python expression. It runs where tests run (see examiner) and "passes" whenever it comes to an end by
itself; its record then says what it returned, as a literal that `ast.literal_eval` reads, or why there is none. What
ends the program ends the item, as it does with tests.
"""

import ast
import math
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from sandbox.link import Link, TestFault
from sandbox.verdict import OUTPUT

RETURNED, RAISED, OPAQUE = "returned", "raised", "opaque"  # what came of a call
RESULT = "_output_"  # global name of the tests that holds what a call returned
MAX_LITERAL = 16 << 10  # characters
MAX_LITERALS = 1 << 20  # characters of all of an item's
MAX_DEPTH = 100  # levels
MAX_DETAIL = 400
SCALARS = (bool, int, str, bytes, type(None))
MAPPINGS = ("Counter", "OrderedDict", "defaultdict")  # equal to the dict of the same items


def as_tests(calls: Sequence[str]) -> list[str]:
    """Each call, without space around it, as a test that keeps its value in RESULT. TestFault for no expression."""
    for index, call in enumerate(calls if not _are_expressions(calls) else ()):
        try:
            ast.parse(call, f"call {index}", "eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise TestFault(f"call {index} is no Python expression: {error}") from None
    return [f"{RESULT} = {call}" for call in calls]


def _are_expressions(calls: Sequence[str]) -> bool:
    """Whether all are expressions on one line each, at the price of one."""
    try:
        body = ast.parse("\n".join(calls), "calls").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    lines = [(node.lineno, node.end_lineno) for node in body if type(node) is ast.Expr]
    return len(body) == len(calls) and lines == [(line, line) for line in range(1, len(calls) + 1)]


def run_calls(
    codes: Sequence[CodeType],
    namespace: dict[str, Any],
    link: Link,
    run_block: Callable[[CodeType, dict[str, Any], Link], tuple[str, str]],
    report: Callable[[dict[str, Any]], None],
) -> None:
    """Run the calls in order and report a record of each, until one ends the program or asks what cannot be asked.

    run_block: runs one call against the program behind `link`; outcome and detail as for a test.
    """
    room = MAX_LITERALS
    for index, code in enumerate(codes):
        outcome, detail = run_block(code, namespace, link)
        if outcome == "passed":
            output = output_of(namespace.pop(RESULT), room)
            room -= len(output[1])
        elif outcome in ("infra", "gone") or link.gone or link.violation:
            return report({"index": index, "outcome": outcome, "detail": detail[:MAX_DETAIL]})
        else:
            output = (RAISED, "", detail)
        report({"index": index, "outcome": "passed", "detail": "", OUTPUT: output})


def output_of(value: Any, room: int = MAX_LITERALS) -> tuple[str, str, str]:
    """RETURNED, the value as a literal and ""; or OPAQUE, "" and why it has none. room: characters left to the item."""
    try:
        text = ascii(_plain(value, 0))
    except (TypeError, ValueError, RecursionError, MemoryError) as error:  # ValueError also from a very long integer
        return OPAQUE, "", str(error) or type(error).__name__
    if len(text) > MAX_LITERAL:
        return OPAQUE, "", f"its literal has {len(text)} characters, above the limit of {MAX_LITERAL}"
    if len(text) > room:
        return OPAQUE, "", f"with it the literals of this item have more than {MAX_LITERALS} characters"
    return RETURNED, text, ""


def _plain(value: Any, depth: int) -> Any:
    """The value made of what literals can say. Raises TypeError and ValueError for anything else in it."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is float or kind is complex:
        if not (math.isfinite(value.real) and math.isfinite(value.imag)):
            raise ValueError(f"it holds {value!r}, which equals no literal")
        return value
    if depth >= MAX_DEPTH:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    if kind in (list, tuple, set):
        return kind(_plain(part, depth + 1) for part in value)
    if kind is dict or (kind.__module__ == "collections" and kind.__name__ in MAPPINGS):
        return {_plain(key, depth + 1): _plain(part, depth + 1) for key, part in value.items()}
    raise TypeError(f"it holds a {getattr(kind, '__name__', 'thing')}, which is no literal")


def taken(output: Any, room: int) -> tuple[str, str, str]:
    """An output as an examiner may write it, which a hostile test can also do: three texts, within the limits.

    room: characters of literals left to the item. Raises TypeError and ValueError for anything else.
    """
    outcome, value, detail = output
    if outcome not in (RETURNED, RAISED, OPAQUE) or type(value) is not str or not value.isascii():
        raise ValueError("no output")
    if len(value) > min(MAX_LITERAL, room):
        raise ValueError("more than an output may be")
    return outcome, value, str(detail)[:MAX_DETAIL]
