"""Inside the jail: load the candidate program and answer the examiner's requests about it.

Nothing here protects anything. The program shares this process and may change whatever it finds; all it can reach by
that is the data it sends, and data is judged elsewhere. What this module owes is the honest program's right answer.

The first message is the program with the calls that can be made before their turn, marshalled. A request is
[operation, *tokens of its operands]; a reply is ["ok", *tokens], ["raise", base, name, message] or, from loading,
["syntax", message]; ["late"] to a call before its turn that must be made again when that has come.
"""

import _sitebuiltins
import builtins
import marshal
import os
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from sandbox import wire

# Not "__main__": a demo behind `if __name__ == "__main__"` is no part of the solution, and often asks for input.
MODULE_NAME = "program"
MAX_HANDLES = 100_000
IMMUTABLE_TYPE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: set for types written in C, never for a `class` statement's
JAILED = wire.frame("", limit=wire.MAX_MESSAGE_BYTES)  # the first message: the jail is shut, without trouble
REQUEST_BYTES = 16 << 10  # read at a time
MAX_TEXT = 300  # characters of an exception's message that are worth sending


class Handles:
    """Objects that cannot travel, by number; the same object always gets the same number."""

    def __init__(self) -> None:
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def describe(self, value: Any) -> list[Any]:
        """The token that stands for `value` at the examiner's end.

        Its number; "c" when it can be called, else "o"; "t" when it is true as all of its type are, else "?"; the
        name of its type.
        """
        number = self._numbers.get(id(value))
        if number is None:
            number = len(self._objects)
            if number >= MAX_HANDLES:
                raise wire.TooLarge(f"more than {MAX_HANDLES} objects that are not plain data")
            self._objects.append(value)
            self._numbers[id(value)] = number
        kind = type(value)
        return [f"h{number} {'c' if callable(value) else 'o'}{'t' if is_always_true(kind) else '?'} {kind.__name__}"]

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, number: str) -> Any:
        """The object behind a number."""
        return self._objects[int(number)]


def is_always_true(kind: type) -> bool:
    """Whether every object of a type is true, by C code that no program can change: re.Match, functions, generators."""
    return bool(kind.__flags__ & IMMUTABLE_TYPE) and not (hasattr(kind, "__bool__") or hasattr(kind, "__len__"))


OPERATIONS: dict[str, Callable[..., Any]] = {
    "value": lambda target: target,
    "call": lambda target, positional, named: target(*positional, **named),
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "getitem": lambda target, key: target[key],
    "setitem": lambda target, key, value: target.__setitem__(key, value),
    "delitem": lambda target, key: target.__delitem__(key),
    "iter": iter,
    "next": next,
    "len": len,
    "str": str,
    "repr": repr,
    "int": int,
    "float": float,
    "isinstance": isinstance,
}


class Program:
    """The candidate's module and everything the examiner may ask of it."""

    def __init__(self) -> None:
        self.module = types.ModuleType(MODULE_NAME)
        sys.modules[MODULE_NAME] = self.module  # dataclasses and typing look their class's module up
        self.handles = Handles()

    def load(self, source: str) -> list[Any]:
        """Compile and run the module; the reply to send."""
        try:
            code = compile(source, "<program>", "exec", dont_inherit=True)
        except MemoryError as error:
            return raised(error)
        except (SyntaxError, ValueError, RecursionError, OverflowError) as error:
            return ["syntax", message_of(error)]
        exec(code, self.module.__dict__)
        return ["ok", None]

    def resolve(self, letter: str, text: str) -> Any:
        """What a reference from the examiner means: "n" a global name of the program, "h" a handle, "@" a built-in."""
        if letter == "h":
            return self.handles.get(text)
        if letter == "@":
            return getattr(builtins, text)
        if letter != "n":
            raise wire.WireError(f"unknown token {letter!r}")
        try:
            return self.module.__dict__[text]
        except KeyError:
            if hasattr(builtins, text):
                return getattr(builtins, text)
            raise NameError(f"name {text!r} is not defined") from None

    def call_ahead(self, call: Any) -> list[Any]:
        """The reply to a call before its turn: of a name with plain arguments, or of the operands spelt as tokens.

        It is put off if a test may have more to do with what it has got.
        """
        if self.handles:
            return ["late"]
        if type(call) is tuple:
            name, positional, named = call
            return self._reply(self.resolve("n", name)(*positional, **named))
        return self.answer(["call", *call])

    def answer(self, request: list[Any]) -> list[Any]:
        """The reply to one request."""
        operation, *tokens = request
        operands = wire.decode(tokens, self.resolve)
        return self._reply(OPERATIONS[operation](*operands))

    def _reply(self, value: Any) -> list[Any]:
        reply: list[Any] = ["ok"]
        wire.encode(value, reply, self.handles.describe)
        return reply


def message_of(error: BaseException) -> str:
    """str(error), whatever the program made of it."""
    try:
        return str(error)[:MAX_TEXT]
    except BaseException:
        return "(its message cannot be read)"


def raised(error: BaseException) -> list[Any]:
    """The reply that reports an exception: its nearest built-in base, its own name, its message."""
    base = next((kind.__name__ for kind in type(error).__mro__ if getattr(builtins, kind.__name__, None) is kind), "")
    if isinstance(error, wire.TooLarge):
        base = "TooLarge"
    name = type(error).__name__
    return ["raise", str(base), str(name)[:100], message_of(error)]


def serve(channel: int, quiet: int, program: Program) -> None:
    """Load the program, make the calls sent with it, and answer requests until the examiner closes its end.

    channel: the descriptor of the socket; quiet: the pipe for replies while there is more to do (see `replies`).
    Without socket objects, whose making and calling touches more memory, which a fork has to copy.
    """
    messages = wire.Messages(limit=2 * wire.MAX_MESSAGE_BYTES)
    os.write(quiet, JAILED)
    if not _receive(channel, messages):
        return
    source, calls = marshal.loads(messages.take_bytes())
    left = len(calls)
    _answer(quiet if left else channel, program.load, source)
    for call in calls:
        left -= 1
        _answer(quiet if left else channel, program.call_ahead, call)
    while _receive(channel, messages):
        _answer(channel, program.answer, messages.take())


def _receive(channel: int, messages: wire.Messages) -> bool:
    """Whether there is a message to take; False when the examiner has closed its end."""
    while not messages.ready:
        data = os.read(channel, REQUEST_BYTES)
        if not data:
            return False
        messages.feed(data)
    return True


def _answer(place: int, operation: Callable[[Any], list[Any]], request: Any) -> None:
    try:
        message = wire.frame(operation(request), limit=wire.MAX_MESSAGE_BYTES)
    except BaseException as error:  # SystemExit and KeyboardInterrupt too: the program's, not this process's
        message = wire.frame(raised(error), limit=wire.MAX_MESSAGE_BYTES)
    while message:
        message = message[os.write(place, message) :]


def restore_site_builtins() -> None:
    """exit() and quit(), which the interpreter lacks when it is started without `site`."""
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")


def rehearse() -> None:
    """In the zygote: take the way that programs take, so that what it warms up is warm in every fork."""
    source = "import math\ndef rehearse(value):\n    return [value, str(value), {1.5: (math.pi, None)}]\n"
    tokens = ["T3", "nrehearse", "L1", 5, "D0"]
    load = wire.marshalled_frame((source, [("rehearse", [5], {}), tokens]))
    request = wire.frame(["call", *tokens], limit=wire.MAX_MESSAGE_BYTES)
    for _ in range(20):
        ours, theirs = socket.socketpair()
        quiet, their_quiet = os.pipe()
        with ours, theirs, os.fdopen(quiet, "rb"), os.fdopen(their_quiet, "wb"):
            ours.sendall(load + request)
            ours.shutdown(socket.SHUT_WR)
            serve(theirs.fileno(), their_quiet, Program())
    del sys.modules[MODULE_NAME]
