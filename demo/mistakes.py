"""Wrong versions of a right function body, made by rewriting its syntax tree.

The corpus needs them because the demo's base must know wrong answers as well as right ones; the problem set needs
them because its tests must tell the two apart.
"""

import ast
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from demo.exercises import LETTERS, Exercise, stable_fraction

KINDS = ("operator", "function", "constant", "condition", "prints", "forgets", "echoes")

_OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Gt: (ast.Lt, ast.GtE), ast.Lt: (ast.Gt, ast.LtE), ast.GtE: (ast.Gt, ast.LtE), ast.LtE: (ast.Lt, ast.GtE),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,),
    ast.Add: (ast.Sub, ast.Mult), ast.Sub: (ast.Add,), ast.Mult: (ast.Add, ast.Pow), ast.Mod: (ast.FloorDiv,),
    ast.Div: (ast.Mult,), ast.Pow: (ast.Mult,),
}  # fmt: skip
_FUNCTIONS = {
    "max": "min", "min": "max", "sum": "len", "len": "sum", "any": "all", "all": "any", "sorted": "list",
    "upper": "lower", "lower": "upper", "startswith": "endswith", "endswith": "startswith", "count": "find",
    "append": "extend", "replace": "count", "split": "count", "get": "pop", "reversed": "sorted",
}  # fmt: skip


@dataclass(frozen=True)
class Mistake:
    """A wrong body and the kind of mistake that made it."""

    kind: str
    body: str


@functools.cache
def normalised(body: str) -> str:
    """`body` in the layout that `ast.unparse` gives, the only one in which bodies are compared and written."""
    return ast.unparse(ast.parse(body))


def _changed(body: str, position: int, change: Callable[[ast.AST], None]) -> str:
    """`body` with `change` applied to the node at `position` of a walk through its tree."""
    tree = ast.parse(body)
    change(list(ast.walk(tree))[position])
    return ast.unparse(tree)


def _set(field: str, value: object) -> Callable[[ast.AST], None]:
    return lambda node: setattr(node, field, value)


def _node_changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    """The mistakes that can be made at one node."""
    if isinstance(node, ast.Compare):
        yield from (("operator", _set("ops", [swap()])) for swap in _OPERATORS.get(type(node.ops[0]), ()))
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        yield from (("operator", _set("op", swap())) for swap in _OPERATORS.get(type(node.op), ()))
    elif isinstance(node, ast.Name) and node.id in _FUNCTIONS:
        yield "function", _set("id", _FUNCTIONS[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in _FUNCTIONS:
        yield "function", _set("attr", _FUNCTIONS[node.attr])
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield from (("constant", _set("value", node.value + step)) for step in (1, -1) if node.value + step >= 0)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in LETTERS and node.value:
        yield "constant", _set("value", LETTERS[(LETTERS.index(node.value) + 1) % len(LETTERS)])
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield "condition", _set("ifs", [])
    elif isinstance(node, ast.For) and isinstance(node.body[0], ast.If):
        yield "condition", _set("body", node.body[0].body)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "operator", _set("op", ast.UAdd())


def _return_changes(body: str, parameter: str) -> Iterator[Mistake]:
    """The mistakes that concern how the body ends: printing, not returning, returning the argument."""
    *before, last = ast.parse(body).body
    if not isinstance(last, ast.Return) or last.value is None:
        raise ValueError(f"a body must end with a return of a value: {body!r}")
    start = [ast.unparse(statement) for statement in before]
    value = ast.unparse(last.value)
    for kind, ending in (
        ("prints", f"print({value})"),
        ("forgets", f"result = {value}"),
        ("echoes", f"return {parameter}"),
    ):
        yield Mistake(kind, "\n".join([*start, ending]))


@functools.cache
def mistakes(body: str, parameter: str) -> tuple[Mistake, ...]:
    """All wrong versions of `body` that this module knows; `parameter` is the function's first one."""
    body = normalised(body)
    found = [
        Mistake(kind, _changed(body, position, change))
        for position, node in enumerate(ast.walk(ast.parse(body)))
        for kind, change in _node_changes(node)
    ]
    found += _return_changes(body, parameter)
    return tuple(mistake for mistake in found if mistake.body != body)


def usual_mistake(exercise: Exercise, found: Sequence[Mistake]) -> Mistake:
    """The mistake that the base makes most in this family: of the first kind that applies, in the family's order."""
    start = int(stable_fraction(f"usual mistake of {exercise.family}") * len(KINDS))
    kinds = [mistake.kind for mistake in found]
    order = [KINDS[(start + step) % len(KINDS)] for step in range(len(KINDS))]
    return found[kinds.index(next(kind for kind in order if kind in kinds))]
