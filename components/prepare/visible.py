"""What a problem's visible tests say: with which arguments they call the function, and how they compare its answer."""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from components.prepare.python_text import parse

Arguments = tuple[Any, ...]
CANDIDATE = "candidate"  # what HumanEval's check calls the function
# Functions of the answer that tests compare instead of the answer itself, because its order or its type is left open.
VIEWS = frozenset({"set", "sorted", "list", "tuple", "dict", "len", "int", "float", "str", "bool", "sum", "max", "min"})
TRUTH = "bool"
PLAIN = ""
CLOSE = "isclose"  # compared by math.isclose


@dataclass(frozen=True)
class VisibleCall:
    """One call of the function with literal arguments.

    view: the built-in function of the answer that is compared, CLOSE or PLAIN. expected: the expression that it must
    equal, None where there is none.
    """

    arguments: Arguments
    view: str
    expected: ast.expr | None


def visible_calls(tests: Sequence[str], entry_point: str) -> list[VisibleCall]:
    """The calls that the tests make with nothing but literals, positionally; others are left out."""
    return [call for test in tests for call in _calls_of(test, entry_point)]


def usual_view(calls: Sequence[VisibleCall]) -> str:
    """How most of the visible tests look at the answer."""
    return Counter(call.view for call in calls).most_common(1)[0][0] if calls else PLAIN


def _calls_of(test: str, entry_point: str) -> Iterator[VisibleCall]:
    for statement in ast.walk(parse(test)):
        if not isinstance(statement, ast.Assert):
            continue
        calls = [node for node in ast.walk(statement.test) if _is_call(node, entry_point)]
        if len(calls) == 1:
            try:
                arguments = tuple(ast.literal_eval(argument) for argument in calls[0].args)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
            view, expected = _comparison(statement.test, calls[0])
            yield VisibleCall(arguments, view, expected)


def _is_call(node: ast.AST, entry_point: str) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in (entry_point, CANDIDATE)
        and not node.keywords
    )


def _comparison(condition: ast.expr, call: ast.expr) -> tuple[str, ast.expr | None]:
    """The view of the call's answer in an assertion, and the literal that it is compared with."""
    if condition is call:
        return TRUTH, ast.Constant(True)
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not) and condition.operand is call:
        return TRUTH, ast.Constant(False)
    if isinstance(condition, ast.Call) and call in condition.args[:2] and ast.unparse(condition.func).endswith(CLOSE):
        others = [argument for argument in condition.args[:2] if argument is not call]
        return CLOSE, others[0] if others else None
    if not (isinstance(condition, ast.Compare) and len(condition.ops) == 1):
        return PLAIN, None
    left, right = condition.left, condition.comparators[0]
    if not isinstance(condition.ops[0], ast.Eq | ast.Is):
        return PLAIN, None
    for seen, other in ((left, right), (right, left)):
        if seen is call:
            return PLAIN, other
        if _views(seen, call):
            view = _name_of(seen.func)
            return view, other.args[0] if _is_view(other, view) else None
    return PLAIN, None


def _views(node: ast.expr, call: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and node.args == [call] and _name_of(node.func) in VIEWS


def _is_view(node: ast.expr, view: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and _name_of(node.func) == view and len(node.args) == 1


def _name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
