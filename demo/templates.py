"""What the families of exercises share: parameter names, conditions, changes, and builders of operations.

`exercises.Operation` explains the placeholders.
"""

from collections.abc import Mapping

from demo.exercises import Operation

LIST = tuple((name,) for name in ("nums", "values", "items", "data", "numbers", "xs", "scores", "row"))
NUMBER = tuple((name,) for name in ("x", "n", "num", "value", "k", "number"))
WORD = tuple((name,) for name in ("s", "text", "word", "line", "name"))
PAIR = (("a", "b"), ("x", "y"), ("first", "second"), ("left", "right"), ("m", "n"))
TABLE = (("table", "key"), ("d", "k"), ("prices", "name"), ("ages", "name"))

# operation -> (how it reads after "is" or "are", the test of the value v)
CONDITIONS = {
    "above": ("greater than {n}", "v > {n}"),
    "below": ("smaller than {n}", "v < {n}"),
    "at_least": ("at least {n}", "v >= {n}"),
    "at_most": ("at most {n}", "v <= {n}"),
    "multiple": ("divisible by {n}", "v % {n} == 0"),
    "even": ("even", "v % 2 == 0"),
    "odd": ("odd", "v % 2 == 1"),
    "positive": ("positive", "v > 0"),
    "negative": ("negative", "v < 0"),
    "other": ("different from {n}", "v != {n}"),
}

# operation -> (what to do with THING, the new value of v)
CHANGES = {
    "plus": ("add {m} to THING", "v + {m}"),
    "minus": ("subtract {m} from THING", "v - {m}"),
    "times": ("multiply THING by {m}", "v * {m}"),
    "rest": ("get the rest of THING divided by {m}", "v % {m}"),
    "square": ("square THING", "v * v"),
    "double": ("double THING", "v * 2"),
    "negate": ("negate THING", "-v"),
    "cap": ("limit THING to at most {m}", "min(v, {m})"),
    "floor": ("raise THING to at least {m}", "max(v, {m})"),
}

KEEP_LOOP = "kept = []\nfor v in {p}:\n    if TEST:\n        kept.append(v)\nreturn kept"
COUNT_LOOP = "count = 0\nfor v in {p}:\n    if TEST:\n        count += 1\nreturn count"
TOTAL_LOOP = "total = 0\nfor v in {p}:\n    if TEST:\n        total += v\nreturn total"


def operations(table: Mapping[str, tuple[str, ...]]) -> dict[str, Operation]:
    """Operations from operation -> (request, right expression, other right expressions ...)."""
    return {
        key: Operation(request, tuple(f"return {expression}" for expression in expressions))
        for key, (request, *expressions) in table.items()
    }


def for_conditions(request: str, *bodies: str) -> dict[str, Operation]:
    """One operation for each condition, which replaces CONDITION in the request and TEST (of v) in the bodies."""
    return {
        key: Operation(request.replace("CONDITION", phrase), tuple(body.replace("TEST", test) for body in bodies))
        for key, (phrase, test) in CONDITIONS.items()
    }


def change_some() -> dict[str, Operation]:
    """Change the elements of a list that meet a condition, keep the others."""
    changes = {key: CHANGES[key] for key in ("plus", "times", "double", "negate")}
    conditions = {key: CONDITIONS[key] for key in ("above", "below", "multiple", "even", "odd")}
    return operations(
        {
            f"{change}_{condition}": (
                request.replace("THING", "each number of a list") + f" if it is {phrase}",
                f"[{value} if {test} else v for v in {{p}}]",
            )
            for change, (request, value) in changes.items()
            for condition, (phrase, test) in conditions.items()
        }
    )
