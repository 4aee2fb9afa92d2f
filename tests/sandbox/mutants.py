"""Mutants of right solutions: small changes to operators, constants, comparisons, returns and statements.

Most are wrong, some are still right, a few never end; which is which, plain execution says.
"""

import ast
import copy
import random
from collections.abc import Iterator
from typing import Any

ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add, ast.Pow),
    ast.Div: (ast.FloorDiv, ast.Mult),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.FloorDiv, ast.Mult),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitXor,),
    ast.BitXor: (ast.BitAnd,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
COMPARISON: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq, ast.Is),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
# What may be returned instead of a value: other values, other types, things that are no data, nothing at all.
INSTEAD = (
    *("None", "not {}", "-{}", "str({})", "[{}]", "({},)", "iter({})", "list({})", "tuple({})", "set({})", "float({})"),
    *("int({})", "{} or None", "{} and True", "(x for x in {})", "lambda: {}", "{}[0]", "{}[::-1]", "len({})", "{}, 1"),
    *("dict.fromkeys({})", "dict.fromkeys({}).keys()", "map(str, {})", "reversed({})", "type({})", "bool({})"),
    *("__import__('re').match('.', str({}))", "__import__('collections').Counter({})", "exit({})", "print({})"),
    *("sorted({})", "enumerate({})", "memoryview({})", "complex({})", "__import__('decimal').Decimal({})"),
)


def mutants(source: str) -> Iterator[str]:
    """Every mutant of a program, in no particular order; each differs in one place."""
    tree = ast.parse(source)
    for place, node in enumerate(ast.walk(tree)):
        for field, value in _changes(node):
            mutant = copy.deepcopy(tree)
            changed = next(other for number, other in enumerate(ast.walk(mutant)) if number == place)
            setattr(changed, field, value)
            try:
                yield ast.unparse(ast.fix_missing_locations(mutant))
            except (ValueError, RecursionError):
                continue


def sample(source: str, count: int, seed: int) -> list[str]:
    """Up to `count` different mutants of a program."""
    all_of_them = sorted(set(mutants(source)) - {ast.unparse(ast.parse(source))})
    return random.Random(seed).sample(all_of_them, min(count, len(all_of_them)))


def _changes(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Fields of a node and what they may be changed to."""
    if isinstance(node, ast.BinOp | ast.AugAssign):
        yield from (("op", kind()) for kind in ARITHMETIC.get(type(node.op), ()))
    elif isinstance(node, ast.BoolOp):
        yield "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for kind in COMPARISON[type(operator)]:
                yield "ops", [*node.ops[:place], kind(), *node.ops[place + 1 :]]
    elif isinstance(node, ast.Constant):
        yield from (("value", value) for value in _other_constants(node.value))
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "test", ast.UnaryOp(ast.Not(), node.test)
        yield "test", ast.Constant(False)
    elif isinstance(node, ast.Return) and node.value is not None:
        text = f"({ast.unparse(node.value)})"
        yield from (("value", ast.parse(form.format(text), mode="eval").body) for form in INSTEAD)
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        yield "args", [node.args[1], node.args[0], *node.args[2:]]
    elif isinstance(node, ast.Slice):
        yield from ((field, None) for field in ("lower", "upper", "step") if getattr(node, field))
    if isinstance(node, ast.FunctionDef | ast.For | ast.While | ast.If):
        for place in range(len(node.body)):
            yield "body", [*node.body[:place], ast.Pass(), *node.body[place + 1 :]]


def _other_constants(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int | float):
        return value + 1, value - 1, -value
    if isinstance(value, str):
        return value + "x", value[1:]
    return ()
