"""What an exercise is, and how one is drawn from a family.

A *family* is a kind of beginner's problem ("count the numbers of a list that are ..."); its *operations* are the
variants ("greater than {n}", "even", ...). Drawing fills in constants and names, which gives an `Exercise`: a
request, a signature, correct function bodies and inputs worth testing. `families.py` holds the families themselves.
"""

import hashlib
import random
import string
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Arguments = tuple[object, ...]
InputMaker = Callable[[random.Random, Mapping[str, object]], list[Arguments]]

CONSTANT_RANGE = (2, 20)
LETTERS = "abcdefghijklmnoprstuvwy"
OPENINGS = ("Write a function to {request}.", "Write a python function to {request}.")


@dataclass(frozen=True)
class Operation:
    """One variant of a family: what is asked, and function bodies that answer it (the first is the reference).

    Placeholders: {p}, {q} parameters, {n}, {m} whole numbers, {c} a letter.
    """

    request: str
    bodies: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """A kind of problem; `names` are patterns with {operation}, `parameters` the signatures to choose from."""

    name: str
    operations: Mapping[str, Operation]
    names: tuple[str, ...]
    parameters: tuple[tuple[str, ...], ...]
    inputs: InputMaker
    constant_range: tuple[int, int] = CONSTANT_RANGE


@dataclass(frozen=True)
class Exercise:
    """One concrete problem. `bodies` are correct, without indentation; `inputs` are candidate test arguments."""

    family: str
    operation: str
    text: str
    name: str
    parameters: tuple[str, ...]
    constants: tuple[object, ...]
    bodies: tuple[str, ...]
    inputs: tuple[Arguments, ...]

    @property
    def template(self) -> str:
        """Family and operation, e.g. "count.above"."""
        return f"{self.family}.{self.operation}"

    @property
    def identity(self) -> str:
        """What must not be shared between splits: the constants or, where there are none, the chosen names."""
        chosen = self.constants or (self.name, *self.parameters)
        return f"{self.template}:{','.join(map(str, chosen))}"

    @property
    def task(self) -> str:
        """What is asked for, whatever the names: two exercises of one task are near-duplicates."""
        return f"{self.template}:{','.join(map(str, self.constants))}"

    @property
    def signature(self) -> str:
        """The line `def name(parameters):`, without a newline."""
        return f"def {self.name}({', '.join(self.parameters)}):"

    @property
    def prompt(self) -> str:
        """What the model reads: text, blank line, signature (the form that prepare gives to every problem)."""
        return f"{self.text}\n\n{self.signature}"


def indented(body: str) -> str:
    """A function body as it stands under its signature: a newline, then every line indented by four spaces."""
    return "\n" + textwrap.indent(body, "    ")


def stable_fraction(text: str) -> float:
    """A number in [0, 1) that depends on `text` alone (unlike `hash`, which differs between processes)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48


def draw_exercise(rng: random.Random, families: tuple[Family, ...]) -> Exercise:
    """Draw a family, one of its operations, and the constants and names that fill its templates."""
    family = rng.choice(families)
    key = rng.choice(sorted(family.operations))
    operation = family.operations[key]
    parameters = rng.choice(family.parameters)
    used = {field for _, field, _, _ in string.Formatter().parse(operation.request + operation.bodies[0]) if field}
    constants: dict[str, object] = {n: rng.randint(*family.constant_range) for n in ("n", "m") if n in used}
    if "c" in used:
        constants["c"] = rng.choice(LETTERS)
    fill = {**dict(zip(("p", "q"), parameters, strict=False)), **constants}
    request = operation.request.format(**fill)
    return Exercise(
        family=family.name,
        operation=key,
        text=rng.choice(OPENINGS).format(request=request),
        name=rng.choice(family.names).format(operation=key),
        parameters=parameters,
        constants=tuple(constants.values()),
        bodies=tuple(body.format(**fill) for body in operation.bodies),
        inputs=tuple(family.inputs(rng, constants)),
    )
