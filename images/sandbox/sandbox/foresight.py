"""The calls that tests are going to make, found before the program is there to be called.

Most tests call the program once, with arguments that depend on nothing of it: all those calls can be sent with the
program, and a whole item costs one turn of the two processes instead of one a test. The calls are made in the same
order, and each reply is used when its test has its turn, so that nothing else changes.
"""

import builtins
import json
from collections.abc import Callable
from typing import Any

from sandbox import standins, wire
from sandbox.examination import Examination
from sandbox.link import Ahead, request

AHEAD_BYTES = 32 << 10  # of an item's calls, in JSON
NOTHING = Ahead((), ())
# First letters of tokens whose values marshal hands over just as they are: it sorts sets, and makes bytearrays bytes.
MARSHALLED = frozenset("sLTD")


class _Called(BaseException):
    """Ends a test at its call of the program."""


def foresee(examination: Examination) -> Ahead:
    """The calls that the first tests will make, found by running each up to its one call (`foreseeable`)."""
    if not examination.foreseeable:
        return NOTHING
    requests: list[list[Any]] = []
    room = AHEAD_BYTES

    def noting(name: str) -> Callable[..., None]:
        def note(*positional: Any, **named: Any) -> None:
            nonlocal room
            call = request("call", [note, list(positional), named], reference)
            room -= len(json.dumps(call))
            if room < 0:
                raise wire.TooLarge("more than is sent ahead")
            requests.append(call)
            raise _Called

        def reference(value: Any) -> list[Any] | None:
            return [standins.name_reference(name)] if value is note else wire.builtin_reference(value)

        return note

    notes = {name: noting(name) for name in examination.foreign}
    namespace = {**notes, "__name__": "tests", "__builtins__": vars(builtins).copy()}
    for code in examination.tests[: examination.foreseeable]:
        try:
            exec(code, namespace)
        except _Called:
            continue
        except BaseException:  # it will come to the same when the test has its turn
            break
    return Ahead(tuple(requests), tuple(map(_order, requests)))


def _order(call: list[Any]) -> Any:
    """What `program.Program.call_ahead` takes: name and arguments, or the tokens of both if they are not so plain."""
    tokens = call[1:]
    if all(type(token) is not str or token[0] in MARSHALLED for token in tokens[2:]):
        return wire.decode(tokens, lambda _, name: name)
    return tokens
