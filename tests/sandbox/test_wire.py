"""The encoding between judge and program: what goes in comes out, and nothing hostile comes in."""

import array
import collections
import contextlib
import datetime
import decimal
import fractions
import json
import socket
import struct
import time
import types
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sandbox import kinds, wire


def no_reference(value: Any) -> None:
    return None


def no_resolve(letter: str, text: str) -> Any:
    raise wire.WireError("unknown token")


def through(value: Any) -> Any:
    """Encode, frame, parse and decode."""
    tokens: list[Any] = []
    wire.encode(value, tokens, no_reference)
    return wire.decode(json.loads(wire.frame(tokens, limit=wire.MAX_MESSAGE_BYTES)[4:]), no_resolve)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.fractions()
    | st.decimals(allow_nan=False)
    | st.dates()
)
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4), max_leaves=8)
VALUES: st.SearchStrategy[Any] = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner) | st.dictionaries(HASHABLE, inner, max_size=4) | st.builds(collections.deque, st.lists(inner))
    ),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
def test_data_comes_back_equal_and_of_the_same_types(value: Any) -> None:
    back = through(value)
    assert type(back) is type(value)
    assert back == value


@pytest.mark.parametrize(
    "value",
    [
        {1: "a", (2, 3): [None, True, -0.0]},
        collections.Counter("hello"),
        collections.OrderedDict(b=1, a=2),
        collections.defaultdict(list, {1: [2]}),
        collections.deque([1, 2], 5),
        array.array("d", [1.5, 2.5]),
        decimal.Decimal("-0.10"),
        fractions.Fraction(-3, 7),
        datetime.datetime(2020, 2, 29, 12, 30, 1, 5, datetime.UTC),
        datetime.date(2020, 2, 29),
        datetime.time(1, 2, 3),
        datetime.timedelta(-1, 2, 3),
        range(3, -9, -2),
        range(0),
        slice(1, None, 2),
        bytearray(b"\0\xff"),
        10**4000,
        [int, str, type(None), object, ValueError, len],
        types.MappingProxyType({1: 2}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_kinds_keep_value_and_type(value: Any) -> None:
    back = through(value)
    assert type(back) is type(value)
    assert back == value


def test_views_keep_what_they_compare_by() -> None:
    source = {1: "a", 2: "b"}
    assert through(source.keys()) == source.keys()
    assert through(source.items()) == source.items()
    assert list(through(source.values())) == list(source.values())


def test_default_factories_survive_when_they_are_built_in() -> None:
    assert through(collections.defaultdict(int))["missing"] == 0
    with pytest.raises(KeyError):
        through(collections.defaultdict(lambda: 1))["missing"]


@pytest.mark.parametrize("base", [int, str, float, list, tuple, dict, set, bytes, complex])
def test_subclasses_travel_as_their_base_value(base: type) -> None:
    lies = {name: lambda self, *_: 9 for name in ("__eq__", "__len__", "__iter__", "__hash__", "__index__", "__str__")}
    back = through(type("Liar", (base,), lies)())
    assert type(back) is base
    assert back == base()


def test_what_is_no_data_needs_a_reference() -> None:
    with pytest.raises(TypeError, match="not plain data"):
        through([object()])
    tokens: list[Any] = []
    wire.encode([object()], tokens, lambda value: ["h1 o object"])
    assert tokens == ["L1", "h1 o object"]


def test_numbers_beyond_python_s_own_limit_of_digits() -> None:
    assert through(-(1 << 900_000)) == -(1 << 900_000)


def test_too_large_values_are_not_sent() -> None:
    for value in ([None] * wire.MAX_TOKENS, 1 << (wire.MAX_INTEGER_BITS + 1)):
        with pytest.raises(wire.TooLarge):
            through(value)


def test_endless_nesting_is_not_sent() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(wire.TooLarge, match="deeper"):
        through(value)


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        [1, 2],
        ["L2", 1],
        ["L0", 1],
        ["L-1"],
        ["L1e3"],
        ["L999999999999"],
        ["L٣"],
        ["?"],
        [""],
        [[1]],
        [{"a": 1}],
        ["nf"],
        ["h0"],
        ["ixyz"],
        ["i" + "f" * (wire.MAX_INTEGER_BITS // 2)],
        ["bł"],
        ["@nothing"],
        ["@__import__('os')"],
        ["@__name__"],
        ["S1", "L0"],
        ["D1", 1],
        ["D2", "L0", 1],
        ["R3", 0, 10**15, 1],
        ["R3", 0, 1, 0],
        ["R3", 0, 1],
        ["X2", 1, 2],
        ["B2", 1, 0],
        ["N1", "snot a number"],
        ["N1", "s" + "9" * (kinds.MAX_DIGITS + 1)],
        ["J1", "syesterday"],
        ["J1", 3],
        ["Q1", "sx"],
        ["Y1", "sq\0"],
        ["C2", "L0", 1],
        ["L1"] * (wire.MAX_DEPTH + 1),
    ],
    ids=lambda tokens: repr(tokens)[:30],
)
def test_hostile_tokens_are_refused(tokens: list[Any]) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(tokens, no_resolve)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.integers(-2, 9)
        | st.floats()
        | st.none()
        | st.builds(
            lambda letter, rest: letter + rest,
            st.sampled_from("LTDSFXRGCOUQAEPMKVIYNBJZWHsbai@nh"),
            st.text("0123x", max_size=3),
        ),
        max_size=12,
    )
)
def test_any_tokens_end_in_a_value_or_in_a_refusal(tokens: list[Any]) -> None:
    with contextlib.suppress(wire.WireError):
        wire.decode(tokens, no_resolve)


def read_raw(data: bytes, limit: int = 1000) -> Any:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        return wire.Reader(ours, limit=limit).read()


@pytest.mark.parametrize("body", [b"[" * 900, b"{", b"\xff", b"1" * 900 + b"x", b"9" * 5000])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(wire.WireError):
        read_raw(struct.pack(">I", len(body)) + body, 1 << 20)


def test_a_message_beyond_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(wire.WireError, match="limit"):
        read_raw(b"\xff\xff\xff\xff")


def test_a_message_cut_short_is_the_end() -> None:
    with pytest.raises(EOFError):
        read_raw(struct.pack(">I", 9) + b"123")


def test_messages_that_arrive_together_are_told_apart() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(wire.frame([1], limit=99) + wire.frame("ü\ud800", limit=99))
        reader = wire.Reader(ours, limit=99)
        assert [reader.read(), reader.read()] == [[1], "ü\ud800"]


def test_time_grows_with_size_only() -> None:
    """A message of the largest size, in the worst shapes, is decoded in seconds: nothing is quadratic."""
    started = time.process_time()
    for tokens in (["L0"] * 500_000, [f"L{500_000}", *["L0"] * 500_000], ["i" + "f" * (wire.MAX_INTEGER_BITS // 4)]):
        with contextlib.suppress(wire.WireError):
            wire.decode(tokens, no_resolve)
    assert time.process_time() - started < 20
