"""The tests of an item before any of them runs: parsed, compiled, and looked through.

Two things are read off the source: which names the tests leave to the program, and whether they can do more than
compute. The second decides what may be judged by the same process afterwards, so it errs on the safe side.
"""

import ast
import builtins
import functools
import itertools
import sys
import types
from dataclasses import dataclass
from types import CodeType

from sandbox.kinds import HARMLESS_BUILTINS
from sandbox.link import TestFault

# What a test may consist of without leaving anything behind in the process that ran it.
HARMLESS_NODES = (
    *(ast.Module, ast.Assert, ast.Expr, ast.Assign, ast.expr, ast.expr_context, ast.operator, ast.unaryop),
    *(ast.boolop, ast.cmpop, ast.keyword, ast.comprehension, ast.arguments, ast.arg),
)
HARMLESS_KINDS = frozenset(
    kind for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, HARMLESS_NODES)
)
# Kinds of nodes that say nothing and have no children, and kinds that have none but of those.
UNTELLING_NODES = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
UNTELLING = frozenset(kind for kind in HARMLESS_KINDS if issubclass(kind, UNTELLING_NODES))
CHILDLESS = frozenset({ast.Constant, ast.Name})
# Where a call may happen more than once or not at all, or what it gives outlives the test.
UNCERTAIN_NODES = frozenset({ast.BoolOp, ast.IfExp, ast.Lambda, ast.comprehension, ast.NamedExpr, ast.Assign})
NO_SETUP, NOTHING = ast.Module([], []), compile("", "<setup>", "exec")
IN_EVERY_NAMESPACE = frozenset({"__builtins__", "__name__"})
# Attributes that lead from a value into the interpreter: `(x for x in y).gi_frame.f_back.f_globals` has no underscore.
# So does a format string, which follows attributes by their names in a text.
TELLING_ATTRIBUTES = frozenset(
    name
    for kind in (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.FrameType, types.CodeType)
    for name in dir(kind)
) | {"format", "format_map"}
# Modules whose functions only compute. A test that says `math.isclose(...)` means Python's own, whether or not setup
# imports it: asking the program's would let it answer. In plain execution both are the same.
COMPUTING_MODULES = frozenset(
    {
        *("bisect", "cmath", "collections", "datetime", "decimal", "fractions", "functools", "heapq", "itertools"),
        *("json", "math", "operator", "re", "statistics", "string"),
    }
)


@dataclass(frozen=True)
class Examination:
    """The tests of one item, compiled."""

    setup: CodeType
    tests: list[CodeType]
    modules: set[str]  # that the tests use as such, and that are Python's whatever the program calls so
    foreign: set[str]  # names that setup and tests use and only the program can define
    read: set[str]  # those of them that are not only called or looked into: their value may be data
    foreseeable: int  # so many leading tests do no more with the program than call it once, whatever comes of it
    leaves_traces: bool  # whether running them might change this process for the next item


def compile_item(setup: str, tests: list[str]) -> Examination:
    """Compile setup and tests, each on its own and never together with the program. Raises TestFault."""
    setup_tree = _parse(setup, "setup") if setup else NO_SETUP
    trees = _parse_together(tests) or [_parse(source, f"test {index}") for index, source in enumerate(tests)]
    nodes_of_tests = [_nodes_of(tree) for tree in trees]
    nodes = [*_nodes_of(setup_tree), *(node for nodes in nodes_of_tests for node in nodes)]
    used, bare, read, bound = _uses(nodes)
    free = {name for name in used - _defined_by(setup_tree) - IN_EVERY_NAMESPACE if not hasattr(builtins, name)}
    modules = (free & COMPUTING_MODULES) - bare - bound
    foreign = free - modules
    leaves = bool(setup_tree.body or modules) or leaves_traces(nodes)
    plain = not leaves and not read & foreign
    calls_once = itertools.takewhile(bool, (_calls_once(nodes, foreign) for nodes in nodes_of_tests))
    return Examination(
        _compile(setup_tree, "setup") if setup else NOTHING,
        [_compile(tree, f"test {index}") for index, tree in enumerate(trees)],
        modules,
        foreign,
        (free & read) - bound,
        sum(calls_once) if plain else 0,
        leaves,
    )


def _nodes_of(tree: ast.Module) -> list[ast.AST]:
    """All nodes of a tree but the kinds in UNTELLING; `ast.walk` would take longer than all the rest."""
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # which grows meanwhile
        kind = type(node)
        if kind in CHILDLESS:
            continue
        for name in kind._fields:
            value = getattr(node, name, None)
            if type(value) is list:
                nodes += [part for part in value if isinstance(part, ast.AST) and type(part) not in UNTELLING]
            elif isinstance(value, ast.AST) and type(value) not in UNTELLING:
                nodes.append(value)
    return nodes


def leaves_traces(nodes: list[ast.AST]) -> bool:
    """Whether tests may do more than compute: import, define, change an attribute, or reach beyond harmless names."""
    return not all(type(node) in HARMLESS_KINDS and _is_harmless(node) for node in nodes)


def _calls_once(nodes: list[ast.AST], foreign: set[str]) -> bool:
    """Whether a test uses one of the program's names, once, and on every way through it. Names are only called."""
    names = sum(type(node) is ast.Name and node.id in foreign for node in nodes)
    return names == 1 and not any(type(node) in UNCERTAIN_NODES for node in nodes)


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        is_telling = node.attr in TELLING_ATTRIBUTES or node.attr in _attributes_of_arrays()
        return type(node.ctx) is ast.Load and not node.attr.startswith("_") and not is_telling
    if isinstance(node, ast.Name):  # __builtins__ is in every namespace, though no built-in itself
        return not node.id.startswith("__") and (node.id in HARMLESS_BUILTINS or not hasattr(builtins, node.id))
    return True


@functools.cache
def _attributes_of_arrays() -> frozenset[str]:
    """Attributes of numpy's arrays, through which memory can be had, where there is numpy."""
    numpy = sys.modules.get("numpy")
    return frozenset(dir(numpy.ndarray)) if numpy else frozenset()


def _uses(nodes: list[ast.AST]) -> tuple[set[str], set[str], set[str], set[str]]:
    """All names; those used other than before a dot; those of them that are not only called; names that are bound."""
    names: list[ast.Name] = []
    dotted: set[int] = set()
    called: set[int] = set()
    bound: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            names.append(node)
        elif isinstance(node, ast.Attribute):
            dotted.add(id(node.value))
        elif isinstance(node, ast.Call):
            called.add(id(node.func))
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    bare = [name for name in names if id(name) not in dotted and type(name.ctx) is ast.Load]
    read = {name.id for name in bare if id(name) not in called}
    bound |= {name.id for name in names if type(name.ctx) is not ast.Load}
    return {name.id for name in names}, {name.id for name in bare}, read, bound


def _defined_by(tree: ast.Module) -> set[str]:
    """The names that a block binds at its top level."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _parse_together(tests: list[str]) -> list[ast.Module]:
    """The trees of tests that are one statement on one line each, at the price of one; empty where any is not."""
    try:
        statements = ast.parse("\n".join(tests), "tests").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    # A statement that keeps to the line of its test is what that test is by itself, nothing swallowed, nothing split.
    lines = [(statement.lineno, statement.end_lineno) for statement in statements]
    if lines != [(line, line) for line in range(1, len(tests) + 1)]:
        return []
    return [ast.Module([statement], []) for statement in statements]


def _parse(source: str, label: str) -> ast.Module:
    try:
        return ast.parse(source, label)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TestFault(f"{label} is no valid Python: {error}") from None


def _compile(tree: ast.Module, label: str) -> CodeType:
    try:
        return compile(tree, f"<{label}>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TestFault(f"{label} is no valid Python: {error}") from None
