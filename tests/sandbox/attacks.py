"""Programs that do not solve the task and try to pass. Adding one is adding a row.

The task of all of them: f(n) is n squared. No program here computes that. Here are those that leave early and those
whose objects lie; the other families have modules of their own.
"""

from tests.sandbox.attack import ALWAYS_EQUAL, CLOSE_TESTS, SET_TESTS, TRUTH_TESTS, WRONG, Attack, lying
from tests.sandbox.exhaustion import EXHAUSTION, FORGING_THE_CHANNEL
from tests.sandbox.lies import LYING_VALUES, STOPPING
from tests.sandbox.side_doors import SIDE_DOORS
from tests.sandbox.tampering import SOURCE_TRICKS, TAMPERING

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

FAMILIES = {
    "leaving early": [*LEAVING_EARLY, *STOPPING],
    "objects that lie": [*LYING_OBJECTS, *LYING_VALUES],
    "tampering": TAMPERING,
    "source tricks": SOURCE_TRICKS,
    "forging the channel": FORGING_THE_CHANNEL,
    "side doors": SIDE_DOORS,
    "exhaustion": EXHAUSTION,
}
ATTACKS = [attack for family in FAMILIES.values() for attack in family]
