"""The calls that tests are going to make, found before the program is there to be called.

Most tests call the program once, with arguments that depend on nothing of it: all those calls can be sent with the
program, and a whole item costs one turn of the two processes instead of one a test. The calls are made in the same
order, and each reply is used when its test has its turn, so that nothing else changes.
"""

from typing import Any

from sandbox import standins
from sandbox.examination import Examination
from sandbox.standins import Link


class _Called(BaseException):
    """Ends a test at its call of the program."""


def foresee(examination: Examination, namespace: dict[str, Any], link: Link) -> list[list[Any]]:
    """The requests that the first tests will make, found by running each up to its one call (see `foreseeable`).

    namespace: the tests' globals, which are left as they were.
    """
    calls: list[list[Any]] = []
    if not examination.foreseeable:
        return calls
    (name,) = examination.foreign
    callee = namespace[name]
    room = standins.AHEAD_TOKENS

    def note(*positional: Any, **named: Any) -> None:
        request = link.request("call", callee, list(positional), named)
        nonlocal room
        room -= len(request)
        if room < 0:
            raise OverflowError
        calls.append(request)
        raise _Called

    namespace[name] = note
    for code in examination.tests[: examination.foreseeable]:
        try:
            exec(code, namespace)
        except _Called:
            continue
        except BaseException:  # it will come to the same when the test has its turn
            break
    namespace[name] = callee
    return calls
