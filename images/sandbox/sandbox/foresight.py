"""The calls that tests are going to make, found before the program is there to be called.

Most tests call the program once, with arguments that depend on nothing of it: all those calls can be sent with the
program, and a whole item costs one turn of the two processes instead of one a test. The calls are made in the same
order, and each reply is used when its test has its turn, so that nothing else changes.
"""

from typing import Any

from sandbox.examination import Examination
from sandbox.link import Link


class _Called(BaseException):
    """Ends a test at its call of the program."""


def foresee(examination: Examination, namespace: dict[str, Any], link: Link) -> None:
    """Prepare the calls that the first tests will make, found by running each up to its one call (`foreseeable`).

    namespace: the tests' globals, which are left as they were.
    """
    if not examination.foreseeable:
        return
    (name,) = examination.foreign
    callee = namespace[name]

    def note(*positional: Any, **named: Any) -> None:
        link.prepare_call(callee, list(positional), named)
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
