"""The tests of an item, run in a jailed process apart from the program's and from everything else.

Tests come from data sets: nothing here trusts them with the service. Results
leave as one record a test, each written the moment its test ends; a test without a record has not passed.
"""

import ast
import builtins
import json
import resource
import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from sandbox import standins, wire
from sandbox.standins import Link, ProgramGone, ProgramStopped, TestFault

MAX_DETAIL = 400
MAX_GROWTH_KIB = 64 << 10  # of this process: beyond it, the next item would find less memory than others do
Report = Callable[[dict[str, Any]], None]
Outcome = tuple[str, str]  # outcome, detail
# What a test may consist of and use without leaving anything behind in the process that ran it.
HARMLESS_NODES = (
    *(ast.Module, ast.Assert, ast.Expr, ast.Assign, ast.expr, ast.expr_context, ast.operator, ast.unaryop),
    *(ast.boolop, ast.cmpop, ast.keyword, ast.comprehension, ast.arguments, ast.arg),
)
HARMLESS_NAMES = {
    *("abs", "all", "any", "bool", "bytes", "chr", "complex", "dict", "divmod", "enumerate", "filter", "float"),
    *("frozenset", "hash", "int", "isinstance", "len", "list", "map", "max", "min", "ord", "pow", "range", "repr"),
    *("reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "zip"),
}


@dataclass(frozen=True)
class Examination:
    """The tests of one item, compiled."""

    setup: CodeType
    tests: list[CodeType]
    foreign: set[str]  # names that setup and tests use and only the program can define
    leaves_traces: bool  # whether running them might change this process for the next item


def compile_item(setup: str, tests: list[str]) -> Examination:
    """Compile setup and tests, each on its own and never together with the program. Raises TestFault."""
    setup_tree = _parse(setup, "setup")
    trees = [_parse(source, f"test {index}") for index, source in enumerate(tests)]
    used = {node.id for tree in [setup_tree, *trees] for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return Examination(
        _compile(setup_tree, "setup"),
        [_compile(tree, f"test {index}") for index, tree in enumerate(trees)],
        {name for name in used - _defined_by(setup_tree) if not hasattr(builtins, name)},
        bool(setup_tree.body) or any(map(leaves_traces, trees)),
    )


def leaves_traces(tree: ast.Module) -> bool:
    """Whether a block may do more than compute: import, define, change an attribute, or reach beyond harmless names."""
    return not all(
        isinstance(node, HARMLESS_NODES)
        and not (isinstance(node, ast.Attribute) and (node.attr.startswith("_") or type(node.ctx) is not ast.Load))
        and not (isinstance(node, ast.Name) and hasattr(builtins, node.id) and node.id not in HARMLESS_NAMES)
        for node in ast.walk(tree)
    )


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


def make_namespace(examination: Examination, entry_point: str, link: Link) -> dict[str, Any]:
    """The tests' globals, before setup: a stand-in for every name that only the program can define."""
    names = examination.foreign | {entry_point}
    stand_ins = {name: standins.name_stand_in(link, name) for name in names}
    return {**stand_ins, "__name__": "tests", "__builtins__": vars(builtins).copy()}


def run_block(code: CodeType, namespace: dict[str, Any], link: Link, *, is_setup: bool = False) -> Outcome:
    """Run setup or one test; its outcome and detail.

    "gone" means that the program's process ended: only its parent knows how.
    """
    outcome = _execute(code, namespace, link, is_setup)
    # Whatever the test made of it, a program that broke off has not passed, and a faulty test says nothing about it.
    if link.fault:
        return "infra", link.fault
    if link.violation:
        return "error", link.violation
    if link.gone:
        return "gone", ""
    return outcome


def _execute(code: CodeType, namespace: dict[str, Any], link: Link, is_setup: bool) -> Outcome:
    try:
        exec(code, namespace)
    except (ProgramGone, TestFault) as error:
        return "error", str(error)
    except ProgramStopped as error:
        return "error", f"the program stopped: {error}"
    except MemoryError as error:
        whose = "the program" if standins.is_from_program(error) else "the test, with what the program returned,"
        return "memory", f"{whose} ran out of memory"
    except BaseException as error:
        return _blame(error, link, is_setup)
    return "passed", ""


def _blame(error: BaseException, link: Link, is_setup: bool) -> Outcome:
    if standins.is_from_program(error):
        return "error", f"the program raised {_describe(error)}"
    if is_setup:
        return "infra", f"the data set is at fault: setup raised {_describe(error)}"
    if isinstance(error, ImportError) or not isinstance(error, Exception):
        return "infra", f"the data set is at fault: the test raised {_describe(error)}"
    if isinstance(error, AssertionError):
        message = f"{error}; " if str(error) else ""
        return "failed", f"{message}the program's last value: {link.last_value_text()}"
    return "error", f"the test raised {_describe(error)}; the program's last value: {link.last_value_text()}"


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def load_program(source: str, link: Link) -> Outcome:
    """Load the program into its jail; "passed" when that went well."""
    try:
        reply = link.load(source)
    except ProgramGone:
        return ("error", link.violation) if link.violation else ("gone", "")
    except TestFault as fault:
        return "infra", str(fault)
    kind, *rest = [str(part) for part in reply]
    if kind == "ok":
        return "passed", ""
    if kind == "syntax":
        return "syntax", rest[0] if rest else ""
    base, name, message = (*rest, "", "", "")[:3]
    if base == "MemoryError":
        return "memory", "the program ran out of memory while it was loaded"
    if base == "SystemExit":
        return "error", f"the program called exit() while it was loaded (code {message or None})"
    return "error", f"the program raised {name}: {message} while it was loaded"


def examine(item: dict[str, Any], connection: socket.socket, report: Report) -> bool:
    """Run the item's tests in order, up to the first that does not pass.

    Args:
        item: entry_point, setup, tests and program, as in the request.
        connection: to the jailed child that will load the program.
        report: called with every record: {"jail": trouble}, {"loading": true}, {"index", "outcome", "detail"}.

    Returns:
        Whether the tests can have left nothing behind in this process.
    """

    def finish(index: int, outcome: Outcome) -> None:
        report({"index": index, "outcome": outcome[0], "detail": outcome[1][:MAX_DETAIL]})

    link = Link(connection)
    try:
        examination = compile_item(item["setup"], item["tests"])
    except TestFault as fault:
        finish(0, ("infra", f"the data set is at fault: {fault}"))
        return True
    trouble = link.wait_for_jail()
    if trouble:
        report({"jail": trouble})
        return True
    report({"loading": True})
    namespace = make_namespace(examination, item["entry_point"], link)
    outcome = load_program(item["program"], link)
    if outcome[0] == "passed":
        outcome = run_block(examination.setup, namespace, link, is_setup=True)
    if outcome[0] != "passed":
        finish(0, outcome)
        return not examination.leaves_traces
    namespace[item["entry_point"]] = standins.name_stand_in(link, item["entry_point"])  # whatever setup calls so
    for index, code in enumerate(examination.tests):
        outcome = run_block(code, namespace, link)
        finish(index, outcome)
        if outcome[0] != "passed":
            break
    return not examination.leaves_traces


def serve(control: socket.socket) -> None:
    """Serve items until the judge hangs up: one byte that carries the connection to the program, then the item."""
    reader = wire.Reader(control, limit=wire.MAX_ITEM_BYTES)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def report(record: dict[str, Any]) -> None:
        control.sendall(json.dumps(record).encode("ascii") + b"\n")

    while True:
        mark, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not mark:
            return
        item = reader.read()
        with socket.socket(fileno=descriptors[0]) as connection:
            fresh = examine(item, connection, report)
        fresh = fresh and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < memory + MAX_GROWTH_KIB
        report({"end": "fresh" if fresh else "spent"})
