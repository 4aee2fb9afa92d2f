"""The examiner's link to a program: requests go out, data comes back, and whatever is no reply is told.

Only data is believed. A reply that breaks the protocol, and an end of the connection, are final for the whole item.
"""

import builtins
import collections
import contextlib
import reprlib
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from sandbox import standins, wire
from sandbox.replies import Replies

LATE = ["late"]  # the reply to a call that must wait for its turn (see program.Program.answer)


class Ahead(NamedTuple):
    """Calls to send with the program, in the order in which the tests will make them."""

    requests: tuple[list[Any], ...]
    orders: tuple[Any, ...]  # the same, as program.Program.call_ahead takes them


class ProgramGone(BaseException):
    """The other end of the link is closed. No `except Exception` in a test may swallow it."""


class TestFault(BaseException):
    """The test or its setup is at fault, not the program: the data set must be repaired."""

    __test__ = False


class ProgramStopped(BaseException):
    """The program raised what is no Exception (SystemExit, say): as final for a test as the real thing."""


class Link:
    """The connection to one jailed program."""

    def __init__(self, connection: socket.socket, quiet: int) -> None:
        """quiet: a pipe for replies that need not be waited for (see `replies`)."""
        self._connection = connection
        self._replies = Replies(connection, quiet)
        self._handles: dict[str, standins.StandIn] = {}
        self._ahead: collections.deque[list[Any]] = collections.deque()  # calls sent before their turn
        self.last_value: Any = _NOTHING  # of the program, for people to read
        self.gone = False
        self.violation = ""  # what the program's reply did that no reply can do
        self.fault = ""  # what the test asked that cannot be asked

    def send_program(self, source: str, ahead: Ahead) -> None:
        """Send the program with calls behind it, before it can answer; marshalled, which costs the other end least."""
        self._ahead.extend(ahead.requests)
        with contextlib.suppress(OSError):  # it is gone, as reading will show
            self._connection.sendall(wire.marshalled_frame((source, ahead.orders)))

    def wait_for_jail(self) -> str:
        """What went wrong while the program's jail was being shut, "" if nothing; nothing foreign has run before."""
        try:
            return str(self._replies.read())
        except (EOFError, OSError, wire.WireError) as error:
            return f"its process ended before the program was loaded ({type(error).__name__})"

    def loaded(self) -> list[str]:
        """The reply to the program that was sent ahead: its kind, and what there is to say of it."""
        kind, *rest = self._reply(ahead=True)
        if kind == "ok":
            return ["ok"]
        lengths = {"raise": 3, "syntax": 1}
        if type(kind) is not str or len(rest) != lengths.get(kind) or not _are_texts(rest):
            raise self._broken("no reply to being loaded")
        return [kind, *rest]

    def ask(self, operation: str, *operands: Any) -> Any:
        """One operation on the program; its value, or its exception raised here."""
        try:
            message = request(operation, operands, _reference)
        except (TypeError, wire.TooLarge) as error:
            raise self._unsendable(error) from None
        return self._value(self._exchange(message), may_stop=operation == "next")

    @property
    def is_ahead(self) -> bool:
        """Whether the next call has been sent already."""
        return bool(self._ahead)

    def sent_call(self) -> Any:
        """What came of the next call that was sent ahead, as `ask` gives it."""
        call = self._ahead.popleft()
        if self.gone or self.violation:
            raise ProgramGone
        reply = self._reply(ahead=True)
        return self._value(self._exchange(call) if reply == LATE else reply)

    def _value(self, reply: list[Any], *, may_stop: bool = False) -> Any:
        try:
            if reply[0] == "ok":
                self.last_value = wire.decode(reply[1:], self._resolve)
                return self.last_value
            kind, base, name, message = reply
            if kind != "raise" or not _are_texts([base, name, message]):
                raise wire.WireError("neither a value nor an exception")
            raised = _exception(base, name, message, may_stop=may_stop)
        except (wire.WireError, ValueError, IndexError, RecursionError) as problem:
            raise self._broken(str(problem)) from None
        raise raised

    def forget(self) -> None:
        """Drop everything of the program, so that nothing of it is left in this process when it has been judged."""
        self._handles.clear()
        self.last_value = _NOTHING

    @property
    def has_answered(self) -> bool:
        """Whether the tests have got anything from the program: what goes wrong may then be its doing."""
        return self.last_value is not _NOTHING

    def last_value_text(self) -> str:
        """The last value the program gave, shortened for people."""
        if not self.has_answered:
            return "none yet"
        try:
            return _SHORT.repr(self.last_value)
        except Exception as error:
            return f"(no text: {type(error).__name__})"

    def _exchange(self, message: list[Any]) -> list[Any]:
        if self.gone or self.violation:
            raise ProgramGone
        while self._ahead:  # the program has put them off, as a test has more to do with what an earlier one got
            self._ahead.pop()
            self._reply(ahead=True)
        try:
            self._connection.sendall(wire.frame(message, limit=wire.MAX_MESSAGE_BYTES))
        except OSError:
            self.gone = True
            raise ProgramGone from None
        except wire.TooLarge as error:
            raise self._unsendable(error) from None
        return self._reply(ahead=False)

    def _reply(self, *, ahead: bool) -> list[Any]:
        try:
            reply = self._replies.read(expected=ahead)
        except (EOFError, OSError):
            self.gone = True
            raise ProgramGone from None
        except wire.WireError as error:
            raise self._broken(str(error)) from None
        if type(reply) is not list or not reply:
            raise self._broken("no list")
        return reply

    def _unsendable(self, error: Exception) -> BaseException:
        """The test's fault as long as nothing of the program's is in it: else a program could choose to be unjudged."""
        reason = f"the test hands the program what cannot be sent: {error}"
        if not self.has_answered:
            self.fault = f"the data set is at fault: {reason}"
            return TestFault(self.fault)
        self.violation = reason
        return ProgramGone(reason)

    def _broken(self, reason: str) -> ProgramGone:
        self.violation = f"the program's reply breaks the protocol: {reason}"
        return ProgramGone(self.violation)

    def _resolve(self, letter: str, text: str) -> Any:
        """The handle for a token of program.Handles.describe; the same number is always the same object."""
        number, _, rest = text.partition(" ")
        flags, _, type_name = rest.partition(" ")
        if letter != "h" or not (number.isascii() and number.isdigit() and len(number) < 9):
            raise wire.WireError("unknown token")
        if number not in self._handles:
            kind = standins.CallableHandle if flags[:1] == "c" else standins.Handle
            self._handles[number] = kind(self, f"h{number}", type_name[:60], is_true=flags[1:] == "t")
        return self._handles[number]


def _are_texts(parts: list[Any]) -> bool:
    return all(type(part) is str for part in parts)


def request(operation: str, operands: Sequence[Any], reference: wire.Reference) -> list[Any]:
    """What to send for an operation. Raises TypeError and wire.TooLarge for operands that cannot be sent."""
    message: list[Any] = [operation]
    wire.encode(tuple(operands), message, reference)
    return message


def _reference(value: Any) -> list[Any] | None:
    return [value._reference] if isinstance(value, standins.StandIn) else wire.builtin_reference(value)


def _exception(base: str, name: str, message: str, *, may_stop: bool) -> BaseException:
    """The exception to raise in the test for one that the program raised: of its nearest built-in base.

    A StopIteration would end a loop of the test's own, `all(map(check, ...))` for one, as if all had been checked.
    Only the end of an iterator may do that (`may_stop`); else it becomes a RuntimeError, as in a generator (PEP 479).
    """
    if base == "TooLarge":
        return mark(ProgramStopped(f"it returned {message}"))
    if base == "StopIteration" and not may_stop:
        return mark(RuntimeError("the program raised StopIteration"))
    kind = getattr(builtins, base, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        kind = Exception
    text = message if name == base else f"{name}: {message}" if message else name
    if not issubclass(kind, Exception):
        return mark(ProgramStopped(f"{name}: {message}" if message else name))
    for candidate in kind.__mro__:
        try:
            return mark(candidate(text))
        except TypeError:
            continue  # UnicodeDecodeError and its like want more than a message; their base does not
    return mark(Exception(text))


def mark(error: BaseException) -> BaseException:
    """Note on an exception that the program raised it, not the test."""
    error.from_program = True  # type: ignore[attr-defined]
    return error


def is_from_program(error: BaseException) -> bool:
    """Whether an exception, seen in a test, was raised by the program."""
    return getattr(error, "from_program", False) is True


_NOTHING = object()
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 120
_SHORT.maxlong = 60
_SHORT.maxlevel = 4
