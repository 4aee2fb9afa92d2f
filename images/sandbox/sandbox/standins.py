"""The examiner's end of the program: a link that sends requests, and stand-ins that tests use like the real thing.

A stand-in is a name of the program, or an object of its that cannot travel as data (a handle). Using one sends a
request into the jail, and what comes back is plain data or another handle. Whatever would let the program decide the
outcome is not passed on: stand-ins are equal to themselves alone, hash by identity, and have no truth value but the
one that is the same for all of their type.
"""

import builtins
import collections
import contextlib
import reprlib
import socket
from collections.abc import Iterator
from typing import Any, TypeVar

from sandbox import wire
from sandbox.replies import Replies

T = TypeVar("T")
AHEAD_BYTES = 32 << 10
AHEAD_TOKENS = 4096  # more are not worth encoding before their turn
LATE = ["late"]  # the reply to a call that must wait for its turn (see program.Program.answer)


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
        self._handles: dict[str, StandIn] = {}
        self._ahead: collections.deque[list[Any]] = collections.deque()  # calls sent whose turn has not come
        self.last_value: Any = _NOTHING  # of the program, for people to read
        self.gone = False
        self.violation = ""  # what the program's reply did that no reply can do
        self.fault = ""  # what the test asked that cannot be asked

    def send_ahead(self, source: str, calls: list[list[Any]]) -> None:
        """Send the program, and the calls that the tests are going to make, in their order, before it can answer.

        Of the calls only as many as the connection holds while the program, at work on one of them, does not read.
        """
        frames = [wire.frame(["load", source], limit=wire.MAX_MESSAGE_BYTES)]
        room = AHEAD_BYTES
        for call in calls:
            try:
                frame = wire.frame(["ahead", *call[1:]], limit=room)
            except wire.TooLarge:
                break
            room = max(0, room - len(frame))
            frames.append(frame)
            self._ahead.append(call)
        with contextlib.suppress(OSError):  # it is gone, as reading will show
            self._connection.sendall(b"".join(frames))

    def wait_for_jail(self) -> str:
        """What went wrong while the program's jail was being shut, "" if nothing; nothing foreign has run before."""
        try:
            return str(self._replies.read())
        except (EOFError, OSError, wire.WireError) as error:
            return f"its process ended before the program was loaded ({type(error).__name__})"

    def loaded(self) -> list[Any]:
        """The reply to the program that was sent ahead."""
        return self._reply(ahead=True)

    def request(self, operation: str, *operands: Any) -> list[Any]:
        """What to send for an operation. Raises TypeError and wire.TooLarge for operands that cannot be sent."""
        request: list[Any] = [operation]
        wire.encode(operands, request, self._reference)
        return request

    def ask(self, operation: str, *operands: Any) -> Any:
        """One operation on the program; its value, or its exception raised here."""
        try:
            request = self.request(operation, *operands)
        except (TypeError, wire.TooLarge) as error:
            raise self._unsendable(error) from None
        return self._value(self._exchange(request), may_stop=operation == "next")

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
            _, base, name, message = reply
            raised = _exception(str(base), str(name), str(message), may_stop=may_stop)
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

    def _exchange(self, request: list[Any]) -> list[Any]:
        if self.gone or self.violation:
            raise ProgramGone
        while self._ahead:  # the program has put them off, as a test has more to do with what an earlier one got
            self._ahead.pop()
            self._reply(ahead=True)
        try:
            self._connection.sendall(wire.frame(request, limit=wire.MAX_MESSAGE_BYTES))
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

    def _reference(self, value: Any) -> list[Any] | None:
        if isinstance(value, StandIn):
            return [value._reference]
        name = wire.name_of_builtin(value)
        return ["@" + name] if name else None

    def _resolve(self, letter: str, text: str) -> Any:
        """The handle for a token of program.Handles.describe; the same number is always the same object."""
        number, _, rest = text.partition(" ")
        flags, _, type_name = rest.partition(" ")
        if letter != "h" or not (number.isascii() and number.isdigit() and len(number) < 9):
            raise wire.WireError("unknown token")
        if number not in self._handles:
            kind = CallableHandle if flags[:1] == "c" else Handle
            self._handles[number] = kind(self, f"h{number}", type_name[:60], is_true=flags[1:] == "t")
        return self._handles[number]


class StandIn:
    """What tests use in place of something that lives in the jail."""

    __slots__ = ("_is_true", "_label", "_link", "_reference")

    def __init__(self, link: Link, reference: str, label: str, *, is_true: bool) -> None:
        """is_true: whether all of its type are true. A program that lies about it gains what returning True gains."""
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_reference", reference)
        object.__setattr__(self, "_label", label)
        object.__setattr__(self, "_is_true", is_true)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name != "__name__":
            raise AttributeError(name)  # Python's own protocols ask for these; none of them is the program's to answer
        return self._link.ask("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._link.ask("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._link.ask("delattr", self, name)

    def __getitem__(self, key: Any) -> Any:
        return self._link.ask("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._link.ask("setitem", self, key, value)

    def __delitem__(self, key: Any) -> None:
        self._link.ask("delitem", self, key)

    def __iter__(self) -> Iterator[Any]:
        """Item by item as the test asks for them, so that an endless generator is no more endless than in place."""
        iterator = self._link.ask("iter", self)
        if not isinstance(iterator, StandIn):  # an iterator is never data: the program answered something else
            raise self._link._broken("no iterator")
        while True:
            try:
                item = self._link.ask("next", iterator)
            except StopIteration:
                return
            yield item

    def __next__(self) -> Any:
        return self._link.ask("next", self)

    def __len__(self) -> int:
        return self._typed("len", int)

    def __int__(self) -> int:
        return self._typed("int", int)

    def __float__(self) -> float:
        return self._typed("float", float)

    def __str__(self) -> str:
        return self._typed("str", str)

    def __repr__(self) -> str:
        return f"<{self._label} in the sandbox>"

    def __bool__(self) -> bool:
        if self._is_true:
            return True
        raise TypeError(f"the truth of {self!r} is not the program's to decide")

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, StandIn) and self._link.ask("isinstance", value, self) is True

    def _typed(self, operation: str, kind: type[T]) -> T:
        value = self._link.ask(operation, self)
        if type(value) is not kind:
            raise self._link._broken(f"{operation} gave a {type(value).__name__}")
        return value


class CallableHandle(StandIn):
    """A stand-in that can be called: a name of the program, or a handle on a function or class."""

    __slots__ = ()

    def __call__(self, *positional: Any, **named: Any) -> Any:
        return self._link.ask("call", self, list(positional), named)


class Handle(StandIn):
    """A stand-in for an object that is neither data nor callable."""

    __slots__ = ()


class Name(CallableHandle):
    """The stand-in for a global name of the program, which is looked up at each use."""

    __slots__ = ()

    def __call__(self, *positional: Any, **named: Any) -> Any:
        return self._link.sent_call() if self._link.is_ahead else super().__call__(*positional, **named)


def name_stand_in(link: Link, name: str) -> Name:
    """The stand-in for a global name of the program."""
    return Name(link, f"n{name}", name, is_true=False)


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
