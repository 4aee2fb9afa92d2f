"""The encoding between judge and jailed program: plain data as a flat list of tokens, framed by its length.

A message is a 4-byte length and a JSON list whose elements are never containers. A value is one token (None, a bool,
a small int, a float, or a string whose first character says what it is) or a container's token, a letter and a count
("L3"), followed by that many values. Nothing refers back to anything, so a message cannot unfold into more than its
size; everything is capped; nothing is ever evaluated, imported by name or unpickled. Both sides use this module; the
judge's side is the one that must not be fooled, and `kinds` lists what it may build.
"""

import builtins
import json
import marshal
import socket
import struct
from collections.abc import Callable
from typing import Any

from sandbox import arrays, kinds

MAX_MESSAGE_BYTES = 4 << 20  # between examiner and program
MAX_ITEM_BYTES = 1 << 28  # between service and judge, which trust each other
MAX_TOKENS = 1_000_000
MAX_DEPTH = 900
MAX_INTEGER_BITS = 1 << 20
MARSHAL_VERSION = 2  # the last without references, which would make two equal objects one
PLAIN_INTEGER = 1 << 62  # larger ones travel in hexadecimal: JSON's decimal is quadratic, and limited by Python

_HEADER = struct.Struct(">I")
# Made once: json.dumps and json.loads look at their options anew every time, and each call touches memory that a fresh
# fork has to copy.
_encode_json = json.JSONEncoder(separators=(",", ":")).encode
_decode_json = json.JSONDecoder().decode
CHUNK = 1 << 16


class WireError(Exception):
    """The message is not one that this encoding can produce, or exceeds a limit."""


class TooLarge(Exception):
    """The value to be sent is too big, too deep or too long."""


Reference = Callable[[Any], list[Any] | None]  # tokens for a value that is not data, or None when it cannot travel
Resolve = Callable[[str, str], Any]  # the value behind a reference token: (its letter, the rest)


def frame(message: Any, *, limit: int) -> bytes:
    """The bytes of one message. Always ASCII, lone surrogates included. Raises TooLarge beyond `limit` bytes."""
    body = _encode_json(message).encode("ascii")
    if len(body) > limit:
        raise TooLarge(f"a message of {len(body)} bytes, above the limit of {limit}")
    return _HEADER.pack(len(body)) + body


def marshalled_frame(message: Any) -> bytes:
    """The same as `marshal` writes it: for the way into the jail alone, since what is marshalled must be trusted."""
    body = marshal.dumps(message, MARSHAL_VERSION)
    return _HEADER.pack(len(body)) + body


class Messages:
    """Cuts a stream of bytes into messages."""

    def __init__(self, *, limit: int) -> None:
        """limit: bytes of the longest message accepted."""
        self._limit = limit
        self._pending = bytearray()

    def feed(self, data: bytes) -> None:
        """Take in the next bytes of the stream."""
        self._pending += data

    @property
    def begun(self) -> bool:
        """Whether anything is there that has not been taken."""
        return bool(self._pending)

    @property
    def ready(self) -> bool:
        """Whether a whole message is there. Raises WireError when it is going to be too long."""
        if len(self._pending) < _HEADER.size:
            return False
        (length,) = _HEADER.unpack_from(self._pending)
        if length > self._limit:
            raise WireError(f"a message of {length} bytes, above the limit of {self._limit}")
        return len(self._pending) >= _HEADER.size + int(length)

    def take_bytes(self) -> bytes:
        """The next message, which is ready, as it is."""
        end = _HEADER.size + _HEADER.unpack_from(self._pending)[0]
        body = bytes(self._pending[_HEADER.size : end])
        del self._pending[:end]
        return body

    def take(self) -> Any:
        """The next message, which is ready, decoded from JSON. Raises WireError."""
        body = self.take_bytes()
        try:
            return _decode_json(body.decode("ascii"))
        except (ValueError, RecursionError) as error:
            raise WireError(f"not JSON: {type(error).__name__}") from None


class Reader(Messages):
    """Reads messages from a stream socket."""

    def __init__(self, connection: socket.socket, *, limit: int) -> None:
        """limit: bytes of the longest message accepted."""
        super().__init__(limit=limit)
        self._connection = connection

    def read(self) -> Any:
        """The next message. Raises EOFError at the end of the stream, WireError, OSError."""
        while not self.ready:
            data = self._connection.recv(CHUNK)
            if not data:
                raise EOFError
            self.feed(data)
        return self.take()


def encode(value: Any, tokens: list[Any], reference: Reference) -> None:
    """Append the tokens of `value`. Subclasses of plain data travel as their base value.

    Raises:
        TooLarge: beyond MAX_DEPTH, MAX_TOKENS or MAX_INTEGER_BITS.
        TypeError: `reference` does not know what to do with a part of it.
    """
    stack = [iter((value,))]
    while stack:
        for item in stack[-1]:
            kind = type(item)
            if kind is str:  # most of all there is, without a call for each
                tokens.append("s" + item)
                continue
            if (kind is int and -PLAIN_INTEGER < item < PLAIN_INTEGER) or kind in _PLAIN_TYPES:
                tokens.append(item)
                continue
            token = _scalar(item)
            if token is not _NOT_SCALAR:
                tokens.append(token)
                continue
            known = kinds.of(kind)
            if known is None:
                tokens += _reference_tokens(item, reference)
                continue
            parts = known.take(item)
            tokens.append(f"{known.letter}{len(parts)}")
            if len(stack) >= MAX_DEPTH or len(tokens) + len(parts) > MAX_TOKENS:
                raise TooLarge(f"a value nested deeper than {MAX_DEPTH} or of more than {MAX_TOKENS} parts")
            stack.append(iter(parts))
            break
        else:
            stack.pop()


_NOT_SCALAR = object()
_PLAIN_TYPES = frozenset({bool, float, type(None)})


def _scalar(value: Any) -> Any:
    """The token of a value that is one token, else _NOT_SCALAR. By type(value): an object may lie about its class."""
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return value
    if kind is not int and kind is not str and arrays.is_scalar_type(kind):
        return _NOT_SCALAR
    if issubclass(kind, str):
        return "s" + str.__str__(value)
    if issubclass(kind, int):
        number = int.__pos__(value)
        if -PLAIN_INTEGER < number < PLAIN_INTEGER:
            return number
        if number.bit_length() > MAX_INTEGER_BITS:
            raise TooLarge(f"an integer of {number.bit_length()} bits, above the limit of {MAX_INTEGER_BITS}")
        return f"i{number:x}"
    if issubclass(kind, float):
        return float.__pos__(value)
    if issubclass(kind, bytes):
        return "b" + bytes.decode(value, "latin-1")
    if issubclass(kind, bytearray):
        return "a" + bytearray.decode(value, "latin-1")
    if name_of_builtin(value) in kinds.HARMLESS_BUILTINS:
        return "@" + name_of_builtin(value)
    if value is type(None):
        return "@None"
    return _NOT_SCALAR


def name_of_builtin(value: Any) -> str:
    """The name of a built-in function or type, "" of anything else."""
    if type(value) not in (type, type(len)):
        return ""
    name = type.__getattribute__(value, "__name__") if type(value) is type else value.__name__
    return name if isinstance(name, str) and getattr(builtins, name, None) is value else ""


def builtin_reference(value: Any) -> list[Any] | None:
    """The token that stands for any built-in, None for anything else (a Reference)."""
    name = name_of_builtin(value)
    return ["@" + name] if name else None


def _reference_tokens(item: Any, reference: Reference) -> list[Any]:
    tokens = reference(item)
    if tokens is None:
        raise TypeError(f"a value of type {type(item).__name__} is not plain data")
    return tokens


def decode(tokens: list[Any], resolve: Resolve) -> Any:
    """The value that `tokens` spell; all of them must be used. Raises WireError, and whatever `resolve` raises."""
    if len(tokens) > 2 * MAX_TOKENS:
        raise WireError("too many tokens")
    stack: list[tuple[kinds.Kind, int, list[Any]]] = []
    last = len(tokens) - 1
    for place, token in enumerate(tokens):
        value = token
        if type(token) is str:
            letter = token[:1]
            if letter == "s":
                value = token[1:]
            elif letter in kinds.BY_LETTER:
                kind, count = kinds.BY_LETTER[letter], _count(token)
                if len(stack) >= MAX_DEPTH:
                    raise WireError("nested too deeply")
                if count:
                    stack.append((kind, count, []))
                    continue
                value = _build(kind, [])
            else:
                value = _special(letter, token[1:], resolve)
        elif not (token is None or type(token) in (int, bool, float)):
            raise WireError("a token that is a container")
        while stack:
            kind, count, parts = stack[-1]
            parts.append(value)
            if len(parts) < count:
                break
            stack.pop()
            value = _build(kind, parts)
        else:
            if place != last:
                raise WireError("tokens are left over")
            return value
    raise WireError("tokens are missing")


def _count(token: str) -> int:
    digits = token[1:]
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 8):
        raise WireError("a container without a count")
    return int(digits)


def _build(kind: kinds.Kind, parts: list[Any]) -> Any:
    try:
        return kind.make(parts)
    except (TypeError, ValueError, ArithmeticError, IndexError, LookupError) as error:
        raise WireError(f"not a {kind.name}: {type(error).__name__}") from None


def _special(letter: str, text: str, resolve: Resolve) -> Any:
    """The value of a one-token string that is neither a str nor a container."""
    try:
        if letter == "i":
            if len(text) > MAX_INTEGER_BITS // 4 + 2:
                raise WireError("an integer above the limit")
            return int(text, 16)
        if letter == "b":
            return text.encode("latin-1")
        if letter == "a":
            return bytearray(text.encode("latin-1"))
    except ValueError:
        raise WireError("not a number or bytes") from None
    if letter == "@" and text == "None":
        return type(None)
    if letter == "@" and text in kinds.HARMLESS_BUILTINS:
        return getattr(builtins, text)
    return resolve(letter, text)
