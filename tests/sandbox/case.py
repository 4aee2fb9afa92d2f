"""What the tables of honest programs are made of: a row, and programs that several rows share."""

from typing import NamedTuple

SQUARE = "def f(n):\n    return n * n\n"
SQUARE_TESTS = ["assert f(3) == 9", "assert f(-2) == 4"]
CHECK = (
    "def check(candidate):\n"
    "    assert candidate(3) == 9\n"
    "    for n in range(4):\n"
    "        assert candidate(n) == n * n\n\n"
    "check(f)"
)
NODE = "class Node:\n    def __init__(self, value):\n        self.value, self.left, self.right = value, None, None\n"
DEPTH = NODE + "def f(root):\n    return 1 + max(f(root.left), f(root.right)) if root else 0\n"
STACK = (
    "class f:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n"
    "    def pop(self): return self.items.pop()\n    def __len__(self): return len(self.items)\n"
)


class Case(NamedTuple):
    """A program, its tests, and what it must come to."""

    name: str
    program: str
    tests: list[str]
    outcome: str = "passed"
    setup: str = ""
    detail: str = ""
    entry_point: str = "f"


def returning(value: str, imports: str = "") -> str:
    """A program whose f(n) returns this expression."""
    return f"{imports}\ndef f(n):\n    return {value}\n"
