"""The containers that travel as data: how each is taken apart and put together again.

One row a type, with the letter that stands for it on the wire. Taking apart uses the base type's own methods, so that
a subclass travels as its base value whatever it redefines. Kinds of modules that few programs use are looked up only
when the program has imported them: a jailed child should not pay for `decimal`.
"""

import builtins
import collections
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from sandbox import arrays

MAX_RANGE = 10_000_000  # a longer range would let a short message fill the judge
MAX_DIGITS = 100_000  # of a Decimal
Parts = list[Any]
# Built-ins that only compute. They travel as themselves; all others stay where they are, behind a handle: a test that
# calls what the program gave it (`t.decode(t.encode("x"))`) must not be made to call `eval` on the program's text.
HARMLESS_BUILTINS = frozenset(
    {
        *("abs", "all", "any", "bool", "bytearray", "bytes", "chr", "complex", "dict", "divmod", "enumerate", "filter"),
        *(
            "float",
            "frozenset",
            "hash",
            "int",
            "isinstance",
            "issubclass",
            "len",
            "list",
            "map",
            "max",
            "min",
            "object",
        ),
        *("ord", "pow", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "zip"),
        *(n for n, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)),
    }
)


class Kind(NamedTuple):
    """One container type: its letter on the wire, its name, and the two directions."""

    letter: str
    name: str
    take: Callable[[Any], Parts]
    make: Callable[[Parts], Any]


def _flat(mapping: Any) -> Parts:
    return [part for pair in dict.items(mapping) for part in pair]


def _pairs(parts: Parts) -> list[tuple[Any, Any]]:
    if len(parts) % 2:
        raise ValueError("a key without a value")
    return list(zip(parts[::2], parts[1::2], strict=True))


def _range(parts: Parts) -> range:
    start, stop, step = parts
    made = range(start, stop, step)
    if made and abs(made[-1] - made[0]) // abs(step) >= MAX_RANGE:
        raise ValueError("too long")
    return made


def _range_parts(value: range) -> Parts:
    return [value.start, value.stop, value.step]


def _complex(parts: Parts) -> complex:
    real, imaginary = parts
    if type(real) is not float or type(imaginary) is not float:
        raise TypeError("not two floats")
    return complex(real, imaginary)


def _complex_parts(value: complex) -> Parts:
    plain = complex.__pos__(value)
    return [plain.real, plain.imag]


def _defaultdict(parts: Parts) -> Any:
    factory = parts[0]
    return collections.defaultdict(factory if isinstance(factory, type) else None, _pairs(parts[1:]))


def _defaultdict_parts(value: Any) -> Parts:
    factory = value.default_factory
    known = factory if isinstance(factory, type) and factory.__module__ == "builtins" else None
    return [known, *_flat(value)]


def _deque(parts: Parts) -> Any:
    return collections.deque(parts[1:], parts[0])


def _slice_parts(value: slice) -> Parts:
    return [value.start, value.stop, value.step]


def _array(parts: Parts) -> Any:
    array = importlib.import_module("array")
    return array.array(parts[0], parts[1:])


def _decimal(parts: Parts) -> Any:
    (digits,) = parts
    if type(digits) is not str or len(digits) > MAX_DIGITS:
        raise ValueError("not a short text")
    return importlib.import_module("decimal").Decimal(digits)


def _fraction(parts: Parts) -> Any:
    numerator, denominator = parts
    if type(numerator) is not int or type(denominator) is not int:
        raise TypeError("not two integers")
    return importlib.import_module("fractions").Fraction(numerator, denominator)


def _moment(name: str) -> Callable[[Parts], Any]:
    def make(parts: Parts) -> Any:
        (text,) = parts
        return getattr(importlib.import_module("datetime"), name).fromisoformat(text)

    return make


def _moment_parts(value: Any) -> Parts:
    return [value.isoformat()]


def _duration(parts: Parts) -> Any:
    days, seconds, microseconds = parts
    return importlib.import_module("datetime").timedelta(days, seconds, microseconds)


def _duration_parts(value: Any) -> Parts:
    return [value.days, value.seconds, value.microseconds]


# `list(list.__iter__(v))`, not list(v): a subclass may redefine iteration.
_BUILTIN: dict[type, Kind] = {
    list: Kind("L", "list", lambda value: list(list.__iter__(value)), lambda parts: parts),
    tuple: Kind("T", "tuple", lambda value: list(tuple.__iter__(value)), tuple),
    dict: Kind("D", "dict", _flat, lambda parts: dict(_pairs(parts))),
    set: Kind("S", "set", lambda value: list(set.__iter__(value)), set),
    frozenset: Kind("F", "frozenset", lambda value: list(frozenset.__iter__(value)), frozenset),
    complex: Kind("X", "complex", _complex_parts, _complex),
    range: Kind("R", "range", _range_parts, _range),
    slice: Kind("G", "slice", _slice_parts, lambda parts: slice(*parts)),
    collections.Counter: Kind("C", "Counter", _flat, lambda parts: collections.Counter(dict(_pairs(parts)))),
    collections.OrderedDict: Kind("O", "OrderedDict", _flat, lambda parts: collections.OrderedDict(_pairs(parts))),
    collections.defaultdict: Kind("U", "defaultdict", _defaultdict_parts, _defaultdict),
    collections.deque: Kind("Q", "deque", lambda value: [value.maxlen, *collections.deque.__iter__(value)], _deque),
    collections.UserList: Kind("A", "UserList", lambda value: [*value.data], collections.UserList),
    collections.UserDict: Kind(
        "E", "UserDict", lambda value: _flat(value.data), lambda parts: collections.UserDict(dict(_pairs(parts)))
    ),
    collections.ChainMap: Kind(
        "P", "ChainMap", lambda value: [*value.maps], lambda parts: collections.ChainMap(*parts)
    ),
    types.MappingProxyType: Kind(
        "M", "mappingproxy", lambda value: _flat(dict(value)), lambda parts: types.MappingProxyType(dict(_pairs(parts)))
    ),
    type({}.keys()): Kind("K", "dict_keys", list, lambda parts: dict.fromkeys(parts).keys()),
    type({}.values()): Kind("V", "dict_values", list, lambda parts: dict(enumerate(parts)).values()),
    type({}.items()): Kind(
        "I",
        "dict_items",
        lambda value: [part for pair in value for part in pair],
        lambda parts: dict(_pairs(parts)).items(),
    ),
}

_IMPORTED: dict[tuple[str, str], Kind] = {
    ("array", "array"): Kind("Y", "array", lambda value: [value.typecode, *value], _array),
    ("decimal", "Decimal"): Kind("N", "Decimal", lambda value: [str(value)], _decimal),
    ("fractions", "Fraction"): Kind("B", "Fraction", lambda value: [value.numerator, value.denominator], _fraction),
    ("datetime", "datetime"): Kind("J", "datetime", _moment_parts, _moment("datetime")),
    ("datetime", "date"): Kind("Z", "date", _moment_parts, _moment("date")),
    ("datetime", "time"): Kind("W", "time", _moment_parts, _moment("time")),
    ("numpy", "ndarray"): Kind("m", "ndarray", arrays.array_parts, arrays.make_array),
    ("numpy", "generic"): Kind("v", "scalar", arrays.scalar_parts, arrays.make_scalar),
    ("datetime", "timedelta"): Kind("H", "timedelta", _duration_parts, _duration),
}

BY_LETTER = {kind.letter: kind for kind in [*_BUILTIN.values(), *_IMPORTED.values()]}
# User-defined subclasses of these are programs of their own; only the class itself is data.
_EXACT_ONLY = (collections.UserList, collections.UserDict, collections.ChainMap)


def of(kind: type) -> Kind | None:
    """How values of this type travel, by the nearest known base; None for what is not data."""
    found = _BUILTIN.get(kind)
    if found is not None:
        return found
    for base in type.__dict__["__mro__"].__get__(kind):
        found = _BUILTIN.get(base)
        if found is None:
            found = _of_imported(base)
        if found is not None:
            return None if base in _EXACT_ONLY and base is not kind else found
    return None


def _of_imported(base: type) -> Kind | None:
    key = (getattr(base, "__module__", ""), getattr(base, "__name__", ""))
    try:
        found = _IMPORTED.get(key)
    except TypeError:  # a class whose __module__ is no string
        return None
    if found is None or getattr(sys.modules.get(key[0]), key[1], None) is not base:
        return None
    return found
