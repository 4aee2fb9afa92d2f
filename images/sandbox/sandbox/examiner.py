"""One item's tests, run in a jailed process of their own that was forked for them.

Tests come from data sets: nothing here trusts them with the service, and their process ends with the item. Results
leave as one record a test, each written the moment its test ends; a test without a record has not passed.
"""

import ast
import builtins
import json
import os
import socket
from dataclasses import dataclass
from types import CodeType
from typing import Any

from sandbox import standins
from sandbox.standins import Link, ProgramGone, ProgramStopped, TestFault

MAX_DETAIL = 400
Outcome = tuple[str, str]  # outcome, detail


@dataclass(frozen=True)
class Examination:
    """The tests of one item, compiled."""

    setup: CodeType
    tests: list[CodeType]
    foreign: set[str]  # names that setup and tests use and only the program can define


def compile_item(setup: str, tests: list[str]) -> Examination:
    """Compile setup and tests, each on its own and never together with the program. Raises TestFault."""
    setup_tree = _parse(setup, "setup")
    trees = [_parse(source, f"test {index}") for index, source in enumerate(tests)]
    used = {node.id for tree in [setup_tree, *trees] for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return Examination(
        _compile(setup_tree, "setup"),
        [_compile(tree, f"test {index}") for index, tree in enumerate(trees)],
        {name for name in used - _defined_by(setup_tree) if not hasattr(builtins, name)},
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
    return {"__name__": "tests", **{name: standins.name_stand_in(link, name) for name in names}}


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


def examine(item: dict[str, Any], connection: socket.socket, records: int) -> None:
    """Run the item's tests in order, up to the first that does not pass.

    Args:
        item: entry_point, setup, tests and program, as in the request.
        connection: to the jailed child that will load the program.
        records: descriptor that one JSON line a record is written to.
    """

    def report(record: dict[str, Any]) -> None:
        text = json.dumps(record)
        os.write(records, text.encode("ascii") + b"\n")

    def finish(index: int, outcome: Outcome) -> None:
        report({"index": index, "outcome": outcome[0], "detail": outcome[1][:MAX_DETAIL]})

    link = Link(connection)
    try:
        examination = compile_item(item["setup"], item["tests"])
    except TestFault as fault:
        return finish(0, ("infra", f"the data set is at fault: {fault}"))
    trouble = link.wait_for_jail()
    if trouble:
        return report({"jail": trouble})
    report({"loading": True})
    namespace = make_namespace(examination, item["entry_point"], link)
    outcome = load_program(item["program"], link)
    if outcome[0] == "passed":
        outcome = run_block(examination.setup, namespace, link, is_setup=True)
    if outcome[0] != "passed":
        return finish(0, outcome)
    namespace[item["entry_point"]] = standins.name_stand_in(link, item["entry_point"])  # whatever setup calls so
    for index, code in enumerate(examination.tests):
        outcome = run_block(code, namespace, link)
        finish(index, outcome)
        if outcome[0] != "passed":
            return None
    return None
