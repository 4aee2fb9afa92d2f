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
    names: set[str]  # every name that tests read


def compile_item(setup: str, tests: list[str]) -> Examination:
    """Compile setup and tests, each on its own and never together with the program. Raises TestFault."""
    names: set[str] = set()
    codes = []
    for index, source in enumerate(tests):
        tree = _parse(source, f"test {index}")
        names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        codes.append(_compile(tree, f"test {index}"))
    return Examination(_compile(_parse(setup, "setup"), "setup"), codes, names)


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


def prepare_namespace(examination: Examination, entry_point: str, link: Link) -> dict[str, Any]:
    """Run setup and put a stand-in for every name of the tests that only the program can define. Raises TestFault."""
    namespace: dict[str, Any] = {"__name__": "tests"}
    try:
        exec(examination.setup, namespace)
    except BaseException as error:
        raise TestFault(f"setup raised {_describe(error)}") from None
    for name in examination.names:
        if name not in namespace and not hasattr(builtins, name):
            namespace[name] = standins.name_stand_in(link, name)
    namespace[entry_point] = standins.name_stand_in(link, entry_point)
    return namespace


def run_test(code: CodeType, namespace: dict[str, Any], link: Link) -> Outcome:
    """Run one test; its outcome and detail. "gone" means that the program's process ended: only its parent knows how."""
    outcome = _execute(code, namespace, link)
    # Whatever the test made of it, a program that broke off has not passed, and a faulty test says nothing about it.
    if link.fault:
        return "infra", link.fault
    if link.violation:
        return "error", link.violation
    if link.gone:
        return "gone", ""
    return outcome


def _execute(code: CodeType, namespace: dict[str, Any], link: Link) -> Outcome:
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
        return _blame(error, link)
    return "passed", ""


def _blame(error: BaseException, link: Link) -> Outcome:
    if standins.is_from_program(error):
        return "error", f"the program raised {_describe(error)}"
    if isinstance(error, AssertionError):
        message = f"{error}; " if str(error) else ""
        return "failed", f"{message}the program's last value: {link.last_value_text()}"
    if isinstance(error, ImportError):
        return "infra", f"the test cannot import what it needs: {error}"
    if not isinstance(error, Exception):
        return "infra", f"the test itself raised {_describe(error)}"
    return "error", f"the test raised {_describe(error)}; the program's last value: {link.last_value_text()}"


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def load_program(source: str, link: Link) -> Outcome | None:
    """Load the program into its jail; None when that went well."""
    try:
        reply = link.load(source)
    except ProgramGone:
        return ("error", link.violation) if link.violation else ("gone", "")
    except TestFault as fault:
        return "infra", str(fault)
    kind, *rest = [str(part) for part in reply]
    if kind == "ok":
        return None
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
        namespace = prepare_namespace(examination, item["entry_point"], link)
    except TestFault as fault:
        return finish(0, ("infra", f"the data set is at fault: {fault}"))
    trouble = link.wait_for_jail()
    if trouble:
        return report({"jail": trouble})
    report({"loading": True})
    problem = load_program(item["program"], link)
    if problem is not None:
        return finish(0, problem)
    for index, code in enumerate(examination.tests):
        outcome = run_test(code, namespace, link)
        finish(index, outcome)
        if outcome[0] != "passed":
            return None
    return None
