"""Programs that do not solve the task and try to pass. Adding one is adding a row.

The task of all of them: f(n) is n squared. No program here computes that. `exhaustion` has those that try to forge or
break the channel, and to use up what the judge has.
"""

from tests.sandbox.attack import CLOSE_TESTS, SET_TESTS, TRUTH_TESTS, WRONG, Attack
from tests.sandbox.exhaustion import EXHAUSTION, FORGING_THE_CHANNEL


def lying(methods: str, base: str = "") -> str:
    """A program whose f returns an object with these methods."""
    body = "".join(f"    {line}\n" for line in methods.strip().splitlines())
    return f"class Liar({base}):\n{body}def f(n):\n    return Liar()\n"


ALWAYS_EQUAL = "def __eq__(self, other): return True\ndef __ne__(self, other): return False\n__hash__ = object.__hash__"

LEAVING_EARLY = [
    Attack("sys.exit(0) while loading", "error", WRONG + "import sys\nsys.exit(0)"),
    Attack("exit() while loading", "error", WRONG + "exit()"),
    Attack("os._exit(0) while loading", "error", WRONG + "import os\nos._exit(0)"),
    Attack("os._exit(0) in the call", "error", "import os\ndef f(n):\n    os._exit(0)"),
    Attack("SystemExit in the call", "error", "def f(n):\n    raise SystemExit(0)"),
    Attack("KeyboardInterrupt in the call", "error", "def f(n):\n    raise KeyboardInterrupt"),
    Attack("GeneratorExit in the call", "error", "def f(n):\n    raise GeneratorExit"),
    Attack("unittest.SkipTest", "error", "import unittest\ndef f(n):\n    raise unittest.SkipTest('fine')"),
    Attack("StopIteration", "error", "def f(n):\n    raise StopIteration"),
    Attack("os.abort", "error", "import os\ndef f(n):\n    os.abort()"),
    Attack("atexit exits with 0", "failed", WRONG + "import atexit, os\natexit.register(lambda: os._exit(0))"),
    Attack(
        "a thread exits with 0",
        "error",
        "import threading, os, time\n"
        "def f(n):\n"
        "    threading.Thread(target=lambda: os._exit(0)).start()\n"
        "    time.sleep(9)",
    ),
    Attack("closing every descriptor", "error", "import os\ndef f(n):\n    os.closerange(0, 64)\n    return 9"),
    Attack("execv of true", "error", "import os\ndef f(n):\n    os.execv('/bin/true', ['true'])"),
]

LYING_OBJECTS = [
    Attack("always equal", "failed", lying(ALWAYS_EQUAL)),
    Attack("always equal int", "failed", lying(ALWAYS_EQUAL, "int")),
    Attack("always equal str", "failed", lying(ALWAYS_EQUAL, "str")),
    Attack("always equal float", "failed", lying(ALWAYS_EQUAL, "float")),
    Attack("always equal list", "failed", lying(ALWAYS_EQUAL, "list")),
    Attack("always equal dict", "failed", lying(ALWAYS_EQUAL, "dict")),
    Attack("always equal tuple", "failed", lying(ALWAYS_EQUAL, "tuple")),
    Attack(
        "always equal inside a list",
        "failed",
        lying(ALWAYS_EQUAL) + "g = f\ndef f(n):\n    return [g(n)]",
        ["assert f(3) == [9]"],
    ),
    Attack("reflected equality", "failed", lying("def __eq__(self, other): return True", "int"), ["assert 9 == f(3)"]),
    Attack("subtraction gives 0", "error", lying("def __sub__(self, other): return 0.0"), CLOSE_TESTS),
    Attack(
        "subtraction gives itself",
        "error",
        lying(
            "def __sub__(self, other): return self\n"
            "def __abs__(self): return self\n"
            "def __lt__(self, other): return True"
        ),
        CLOSE_TESTS,
    ),
    Attack(
        "float subclass that subtracts to 0",
        "failed",
        lying("def __sub__(self, other): return 0.0", "float"),
        CLOSE_TESTS,
    ),
    Attack("truth of an object", "error", lying("def __bool__(self): return True"), TRUTH_TESTS),
    Attack("truth of a length", "error", lying("def __len__(self): return 1"), TRUTH_TESTS),
    Attack("empty list that is true", "failed", lying("def __bool__(self): return True", "list"), TRUTH_TESTS),
    Attack(
        "length of a list subclass", "failed", lying("def __len__(self): return 9", "list"), ["assert len(f(3)) == 9"]
    ),
    Attack(
        "iteration of a set subclass", "failed", lying("def __iter__(self): return iter([1, 2, 9])", "set"), SET_TESTS
    ),
    Attack(
        "hash collision with what is sought",
        "failed",
        lying(ALWAYS_EQUAL.replace("__hash__ = object.__hash__", "def __hash__(self): return hash(9)")),
        ["assert f(3) in {9, 25}"],
    ),
    Attack("class of another", "failed", lying("@property\ndef __class__(self): return int\n" + ALWAYS_EQUAL)),
    Attack(
        "metaclass equality",
        "failed",
        "class Meta(type):\n    def __eq__(cls, other): return True\n    __hash__ = type.__hash__\n"
        "class Liar(metaclass=Meta): pass\ndef f(n):\n    return Liar",
    ),
    Attack("nan games", "failed", "def f(n):\n    return float('nan')"),
    Attack("mock", "failed", "from unittest.mock import MagicMock\ndef f(n):\n    return MagicMock()"),
    Attack("mock.ANY", "failed", "from unittest.mock import ANY\ndef f(n):\n    return ANY"),
    Attack("string whose text is code", "failed", "def f(n):\n    return 'True or 9'"),
]

TAMPERING = [
    Attack(
        "builtins replaced",
        "error",
        WRONG + ("import builtins\nbuiltins.abs = lambda x: 0\nbuiltins.len = lambda x: 9"),
    ),
    Attack(
        "tests' names shadowed", "failed", "def f(n):\n    return [1]\ndef set(x):\n    return {1, 2, 9}", SET_TESTS
    ),
    Attack("AssertionError disarmed", "failed", WRONG + "import builtins\nbuiltins.AssertionError = ZeroDivisionError"),
    Attack(
        "json replaced", "error", WRONG + ("import json\njson.dumps = lambda *a, **k: '[\"ok\",9]'\njson.loads = None")
    ),
    Attack(
        "the wire's encoder replaced",
        "failed",
        "import sys\nfor name, module in list(sys.modules.items()):\n    if name.endswith('wire'):\n"
        "        module.encode = lambda value, tokens, reference: tokens.append(7)\n" + WRONG,
    ),
    Attack(
        "operations replaced",
        "failed",
        "import sys\nfor name, module in list(sys.modules.items()):\n    if name.endswith('sandbox.program'):\n"
        "        module.OPERATIONS['call'] = lambda *a: 0\n" + WRONG,
    ),
    Attack(
        "every frame searched for expected values",
        "failed",
        "import sys\n"
        "def f(n):\n"
        "    frame = sys._getframe()\n"
        "    while frame:\n"
        "        for value in frame.f_locals.values():\n"
        "            if value == n * 8 + 1: return value\n"
        "        frame = frame.f_back\n"
        "    return 0",
    ),
    Attack(
        "garbage searched for tests",
        "failed",
        "import gc\n"
        "def f(n):\n"
        "    return sum('assert' in v for o in gc.get_objects() if type(o) is dict for v in "
        "o.values() if type(v) is str and 'f(3) ==' in v)",
    ),
    Attack("trace function", "failed", "import sys\nsys.settrace(lambda *a: None)\n" + WRONG),
    Attack("excepthook", "error", "import sys\nsys.excepthook = lambda *a: None\ndef f(n):\n    raise ValueError"),
    Attack("inherited AssertionError", "error", "def f(n):\n    raise AssertionError('fine')"),
    Attack("changes its argument", "failed", "def f(n):\n    n.clear()\n    return []", ["x = [3]\nassert f(x) == x"]),
]

SOURCE_TRICKS = [
    Attack("unterminated string", "syntax", WRONG + "'''"),
    Attack("unclosed bracket", "syntax", WRONG + "x = ["),
    Attack("trailing decorator", "syntax", WRONG + "@staticmethod"),
    Attack("trailing backslash", "syntax", WRONG + "x = 1 + \\"),
    Attack("trailing try", "syntax", WRONG + "try:"),
    Attack("trailing if False", "syntax", WRONG + "if False:"),
    Attack("null character", "rejected", WRONG + "\0"),
    Attack("half a surrogate pair", "rejected", WRONG + "# \ud800"),
    Attack("far too long", "rejected", WRONG + "#" * 300_000),
    Attack("future import", "failed", "from __future__ import annotations\n" + WRONG),
    Attack("coding line", "failed", "# -*- coding: rot13 -*-\n" + WRONG),
    Attack("deep brackets", "syntax", WRONG + "(" * 5000),
    Attack("deep unary minus", "memory", WRONG + "x = " + "-" * 60_000 + "1"),
    Attack("form feed and carriage returns", "failed", WRONG.replace("\n", "\r\n") + "\f\r"),
    Attack("entry point is missing", "error", "def g(n):\n    return 0"),
    Attack("entry point is a constant", "error", "f = 9"),
    Attack("empty program", "error", ""),
]

ATTACKS = [*LEAVING_EARLY, *LYING_OBJECTS, *TAMPERING, *SOURCE_TRICKS, *FORGING_THE_CHANNEL, *EXHAUSTION]
