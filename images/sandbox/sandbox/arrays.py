"""numpy's arrays and scalars as data, where the service offers numpy.

They travel as the name of their element type, their shape and their bytes; arrays of objects as a list of them. Only
element types that are numbers, text or dates do: any bytes of the right length are values of those.
"""

import math
import re
import sys
from typing import Any

# As dtype.str spells them. Structures ("V") could hold pointers, and other endianness of text cannot be checked simply.
ELEMENT_TYPES = re.compile(r"[<>|][iufc]\d{1,2}|\|b1|[<|][SU]\d{1,7}|<[mM]8(\[\d{0,9}[a-zA-Z]{1,2}\])?")
OBJECTS = "O"
LAST_CHARACTER = 0x10FFFF
Parts = list[Any]


def is_scalar_type(kind: type) -> bool:
    """Whether a type is one of numpy's scalars, some of which are subclasses of float, str or bytes."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(kind, getattr(numpy, "generic", ()))


def array_parts(value: Any) -> Parts:
    """Element type, shape and content of an array. Raises TypeError for element types that are not plain data."""
    plain = _numpy().asarray(value)  # a subclass travels as the base it is
    if plain.dtype.kind == OBJECTS:
        return [OBJECTS, plain.shape, plain.ravel().tolist()]
    if not ELEMENT_TYPES.fullmatch(plain.dtype.str):
        raise TypeError(f"an array of {plain.dtype} is not plain data")
    return [plain.dtype.str, plain.shape, plain.tobytes()]


def make_array(parts: Parts) -> Any:
    """The array of such parts. Raises TypeError, ValueError or LookupError for what is none."""
    name, shape, content = parts
    numpy = _numpy()
    if type(shape) is not tuple or any(type(length) is not int or length < 0 for length in shape):
        raise TypeError("not a shape")
    if name == OBJECTS:
        return _array_of_objects(shape, content)
    if type(name) is not str or not ELEMENT_TYPES.fullmatch(name) or type(content) is not bytes:
        raise TypeError("not an array's parts")
    element = numpy.dtype(name)
    if len(content) != math.prod(shape) * element.itemsize:
        raise ValueError("not as many bytes as elements need")
    array = numpy.ndarray(shape, element, content).copy()
    if element.kind == "b":
        return (
            numpy.ndarray(shape, "u1", content) != 0
        )  # a byte that is neither 0 nor 1 would be neither true nor false
    if element.kind == "U" and array.size and numpy.frombuffer(content, "<u4").max() > LAST_CHARACTER:
        raise ValueError("not text")
    return array


def _array_of_objects(shape: tuple[int, ...], content: Any) -> Any:
    if type(content) is not list or len(content) != math.prod(shape):
        raise ValueError("not as many objects as the shape says")
    array = _numpy().empty(len(content), OBJECTS)
    for place, item in enumerate(content):  # one by one: numpy would unpack sequences
        array[place] = item
    return array.reshape(shape)


def scalar_parts(value: Any) -> Parts:
    """Element type and content of a scalar."""
    name, _, content = array_parts(value)
    return [name, content]


def make_scalar(parts: Parts) -> Any:
    """The scalar of such parts."""
    name, content = parts
    return make_array([name, (), content])[()]


def _numpy() -> Any:
    """numpy, if the service offers it: it is loaded before the first fork, and never on a message's say-so."""
    return sys.modules["numpy"]
