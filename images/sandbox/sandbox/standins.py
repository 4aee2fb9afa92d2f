"""What tests use in place of what lives in the jail: stand-ins, used like the real thing.

A stand-in is a name of the program, or an object of its that cannot travel as data (a handle). Using one sends a
request into the jail, and what comes back is plain data or another handle. Whatever would let the program decide the
outcome is not passed on: stand-ins are equal to themselves alone, hash by identity, and have no truth value but the
one that is the same for all of their type.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sandbox.link import Link

T = TypeVar("T")


class StandIn:
    """What tests use in place of something that lives in the jail."""

    __slots__ = ("_is_true", "_label", "_link", "_reference")

    def __init__(self, link: "Link", reference: str, label: str, *, is_true: bool) -> None:
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

    def __call__(self, /, *positional: Any, **named: Any) -> Any:
        return self._link.ask("call", self, list(positional), named)


class Handle(StandIn):
    """A stand-in for an object that is neither data nor callable."""

    __slots__ = ()


class Name(CallableHandle):
    """The stand-in for a global name of the program, which is looked up at each use."""

    __slots__ = ()

    def __call__(self, /, *positional: Any, **named: Any) -> Any:
        return self._link.sent_call() if self._link.is_ahead else super().__call__(*positional, **named)


def name_reference(name: str) -> str:
    """The token of a global name of the program."""
    return f"n{name}"


def name_stand_in(link: "Link", name: str) -> Name:
    """The stand-in for a global name of the program."""
    return Name(link, name_reference(name), name, is_true=False)
