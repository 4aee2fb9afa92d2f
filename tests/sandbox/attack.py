"""What the tables of attacks are made of: the task, its tests, a row."""

from typing import NamedTuple

TESTS = ["assert f(3) == 9", "assert f(5) == 25", "assert f(12) == 144"]
TRUTH_TESTS = ["assert f(3)", "assert f(5) == 25"]
CLOSE_TESTS = ["assert abs(f(3) - 9) < 1e-6", "assert abs(f(5) - 25) < 1e-6"]
SET_TESTS = ["assert set(f(3)) == {1, 2, 9}"]
WRONG = "def f(n):\n    return 0\n"


class Attack(NamedTuple):
    """A program, what it must come to, and the tests it meets."""

    name: str
    outcome: str
    program: str
    tests: list[str] = TESTS
    timeout_s: float = 2.0


def lying(methods: str, base: str = "") -> str:
    """A program whose f returns an object with these methods."""
    body = "".join(f"    {line}\n" for line in methods.strip().splitlines())
    return f"class Liar({base}):\n{body}def f(n):\n    return Liar()\n"


ALWAYS_EQUAL = "def __eq__(self, other): return True\ndef __ne__(self, other): return False\n__hash__ = object.__hash__"
