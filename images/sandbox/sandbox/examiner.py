"""The tests of an item, run in a jailed process apart from the program's and from everything else.

Tests come from data sets: nothing here trusts them with the service. Results leave as one record a test, each written
the moment its test ends; a test without a record has not passed. A hostile test can write records as well as this
module can, so an examiner that lasts declines tests that might change it, before anything of the item runs: those get
an examiner of their own (`judge`).
"""

import builtins
import decimal
import importlib
import json
import os
import resource
import socket
from collections.abc import Callable
from types import CodeType
from typing import Any

from sandbox import calls, standins, wire
from sandbox.examination import Examination
from sandbox.foresight import NOTHING
from sandbox.link import Link, ProgramGone, ProgramStopped, TestFault, is_from_program
from sandbox.preparation import Preparation, prepare, prepare_calls
from sandbox.verdict import OUTPUTS

# Marks to the judge: the records of an item are complete; or nothing of it has run, as its tests need a process of
# their own. Behind either: this process serves no further item.
ENDED, DECLINED, SPENT = b"E", b"D", b"S"
# Records short for what there is most of: the program is being loaded; a test has passed.
LOADING, PASSED = b".", b"+"
MAX_DETAIL = 400
MAX_GROWTH_KIB = 64 << 10  # of this process: beyond it, the next item would find less memory than others do
Report = Callable[[bytes], None]
Outcome = tuple[str, str]  # outcome, detail


def make_namespace(examination: Examination, entry_point: str, link: Link) -> dict[str, Any]:
    """The tests' globals, before setup: a stand-in for every name that only the program can define."""
    names = examination.foreign | {entry_point}
    modules = {name: importlib.import_module(name) for name in examination.modules}
    stand_ins = {name: standins.name_stand_in(link, name) for name in names}
    return {**modules, **stand_ins, "__name__": "tests", "__builtins__": vars(builtins).copy()}


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
        whose = "the program" if is_from_program(error) else "the test, with what the program returned,"
        return "memory", f"{whose} ran out of memory"
    except BaseException as error:
        return _blame(error, link, is_setup)
    return "passed", ""


def _blame(error: BaseException, link: Link, is_setup: bool) -> Outcome:
    if is_from_program(error):
        return "error", f"the program raised {_describe(error)}"
    if is_setup and not link.has_answered:  # else a program could choose to be unjudged
        return "infra", f"the data set is at fault: setup raised {_describe(error)}"
    if isinstance(error, ImportError) or not isinstance(error, Exception):
        return "infra", f"the data set is at fault: the test raised {_describe(error)}"
    if isinstance(error, AssertionError):
        text = _text_of(error)
        message = f"{text}; " if text else ""
        return "failed", f"{message}the program's last value: {link.last_value_text()}"
    return "error", f"the test raised {_describe(error)}; the program's last value: {link.last_value_text()}"


def _describe(error: BaseException) -> str:
    text = _text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _text_of(error: BaseException) -> str:
    """str(error), which asks the program for the text of what is its own: `assert value == 1, value`."""
    try:
        return str(error)
    except BaseException as trouble:  # its process may end by that, which must not end this one
        return f"(no text: {type(trouble).__name__})"


def read_globals(names: set[str], namespace: dict[str, Any], link: Link) -> None:
    """Put the program's globals that are data in place of their stand-ins, which nothing but themselves equals."""
    for name in names:
        try:
            value = link.ask("value", namespace[name])
        except (Exception, ProgramGone, ProgramStopped, TestFault):  # not there, or not to be had: the test will see
            continue
        if not isinstance(value, standins.StandIn):
            namespace[name] = value


def load_program(link: Link) -> Outcome:
    """What came of loading the program, which is under way; "passed" when that went well."""
    try:
        kind, *rest = link.loaded()
    except ProgramGone:
        return ("error", link.violation) if link.violation else ("gone", "")
    except MemoryError:
        return "memory", "the program's reply to being loaded ran out of memory"
    except TestFault as fault:
        return "infra", str(fault)
    if kind == "ok":
        return "passed", ""
    if kind == "syntax":
        return "syntax", rest[0]
    base, name, message = rest
    if base == "MemoryError":
        return "memory", "the program ran out of memory while it was loaded"
    if base == "SystemExit":
        return "error", f"the program called exit() while it was loaded (code {message or None})"
    return "error", f"the program raised {name}: {message} while it was loaded"


def examine(item: dict[str, Any], link: Link, report: Report, *, lasting: bool) -> bool:
    """Run the item's tests in order, up to the first that does not pass; False, and nothing has run, to decline them.

    Args:
        item: entry_point, setup, tests and program, as in the request.
        link: to the jailed child that will load the program.
        report: called with every record: LOADING, PASSED, {"jail": trouble} or {"index", "outcome", "detail"} in JSON.
        lasting: whether this process is to serve other items too: it declines tests that can leave something behind.
    """
    try:
        preparation = (prepare_calls if item.get(OUTPUTS) else prepare)(item["setup"], item["tests"])
    except TestFault as fault:
        _finish(report, 0, ("infra", f"the data set is at fault: {fault}"))
        return True
    if lasting and preparation.examination.leaves_traces:
        return False
    namespace = make_namespace(preparation.examination, item["entry_point"], link)
    try:
        _run(item, preparation, namespace, link, report)
    finally:  # the next item's tests find nothing of this one, not even what waits for the garbage collector
        link.forget()
        namespace.clear()
        decimal.getcontext().clear_flags()
    return True


def _run(item: dict[str, Any], preparation: Preparation, namespace: dict[str, Any], link: Link, report: Report) -> None:
    examination = preparation.examination
    report(LOADING)
    # What was foreseen with a built-in is another call with the program's own in its place.
    is_builtin = hasattr(builtins, item["entry_point"])
    link.send_program(item["program"], NOTHING if is_builtin else preparation.ahead)
    trouble = link.wait_for_jail()
    if trouble:
        return report(_record(jail=trouble))
    outcome = load_program(link)
    if outcome[0] == "passed":
        read_globals(examination.read - {item["entry_point"]}, namespace, link)
        outcome = run_block(examination.setup, namespace, link, is_setup=True)
    if outcome[0] != "passed":
        return _finish(report, 0, outcome)
    namespace[item["entry_point"]] = standins.name_stand_in(link, item["entry_point"])  # whatever setup calls so
    if item.get(OUTPUTS):
        return calls.run_calls(examination.tests, namespace, link, run_block, lambda one: report(_record(**one)))
    for index, code in enumerate(examination.tests):
        outcome = run_block(code, namespace, link)
        _finish(report, index, outcome)
        if outcome[0] != "passed":
            break


def _finish(report: Report, index: int, outcome: Outcome) -> None:
    kind, detail = outcome
    report(PASSED if kind == "passed" else _record(index=index, outcome=kind, detail=detail[:MAX_DETAIL]))


def _record(**fields: Any) -> bytes:
    return json.dumps(fields).encode("ascii")


def serve(control: socket.socket, records: int, *, lasting: bool) -> None:
    """Serve items until the judge hangs up, each of which brings the connection to its program along.

    Records go into the pipe `records`, marks to the judge.
    """
    reader = wire.Reader(control, limit=wire.MAX_ITEM_BYTES)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def report(record: bytes) -> None:
        os.write(records, record + b"\n")

    while True:
        data, descriptors, _, _ = socket.recv_fds(control, wire.CHUNK, 2)
        if not data:
            return
        reader.feed(data)
        connection, quiet = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptors[0]), descriptors[1]
        with connection:
            is_served = examine(reader.read(), Link(connection, quiet), report, lasting=lasting)
        os.close(quiet)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > memory + MAX_GROWTH_KIB
        control.send((ENDED if is_served else DECLINED) + (SPENT if grown else b""))
