"""The calls that tests are going to make, found before the program is there to be called.

Most tests call the program once, with arguments that depend on nothing of it: all those calls can be sent with the
program, and a whole item costs one turn of the two processes instead of one a test. The calls are made in the same
order, and each reply is used when its test has its turn, so that nothing else changes.
"""

import builtins
from typing import Any

from sandbox import standins, wire
from sandbox.examination import Examination
from sandbox.link import Ahead, ahead_frame, request

NOTHING = Ahead((), b"")


class _Called(BaseException):
    """Ends a test at its call of the program."""


def foresee(examination: Examination) -> Ahead:
    """The calls that the first tests will make, found by running each up to its one call (`foreseeable`)."""
    if not examination.foreseeable:
        return NOTHING
    (name,) = examination.foreign
    calls: list[list[Any]] = []
    frames = b""

    def note(*positional: Any, **named: Any) -> None:
        nonlocal frames
        call = request("call", [note, list(positional), named], reference)
        frames += ahead_frame(call, len(frames))
        calls.append(call)
        raise _Called

    def reference(value: Any) -> list[Any] | None:
        return [standins.name_reference(name)] if value is note else wire.builtin_reference(value)

    namespace = {name: note, "__name__": "tests", "__builtins__": vars(builtins).copy()}
    for code in examination.tests[: examination.foreseeable]:
        try:
            exec(code, namespace)
        except _Called:
            continue
        except BaseException:  # it will come to the same when the test has its turn
            break
    return Ahead(tuple(calls), frames)
