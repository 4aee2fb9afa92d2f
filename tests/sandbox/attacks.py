"""Programs that do not solve the task and try to pass, or to break the judge. Adding one is adding a row.

The task of all of them: f(n) is n squared. No program here computes that.
"""

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
    Attack("a thread exits with 0", "error",
           "import threading, os, time\ndef f(n):\n    threading.Thread(target=lambda: os._exit(0)).start()\n    time.sleep(9)"),
    Attack("closing every descriptor", "error", "import os\ndef f(n):\n    os.closerange(0, 64)\n    return 9"),
    Attack("execv of true", "error", "import os\ndef f(n):\n    os.execv('/bin/true', ['true'])"),
]  # fmt: skip

LYING_OBJECTS = [
    Attack("always equal", "failed", lying(ALWAYS_EQUAL)),
    Attack("always equal int", "failed", lying(ALWAYS_EQUAL, "int")),
    Attack("always equal str", "failed", lying(ALWAYS_EQUAL, "str")),
    Attack("always equal float", "failed", lying(ALWAYS_EQUAL, "float")),
    Attack("always equal list", "failed", lying(ALWAYS_EQUAL, "list")),
    Attack("always equal dict", "failed", lying(ALWAYS_EQUAL, "dict")),
    Attack("always equal tuple", "failed", lying(ALWAYS_EQUAL, "tuple")),
    Attack("always equal inside a list", "failed", lying(ALWAYS_EQUAL) + "g = f\ndef f(n):\n    return [g(n)]",
           ["assert f(3) == [9]"]),
    Attack("reflected equality", "failed", lying("def __eq__(self, other): return True", "int"), ["assert 9 == f(3)"]),
    Attack("subtraction gives 0", "error", lying("def __sub__(self, other): return 0.0"), CLOSE_TESTS),
    Attack("subtraction gives itself", "error",
           lying("def __sub__(self, other): return self\ndef __abs__(self): return self\ndef __lt__(self, other): return True"),
           CLOSE_TESTS),
    Attack("float subclass that subtracts to 0", "failed", lying("def __sub__(self, other): return 0.0", "float"), CLOSE_TESTS),
    Attack("truth of an object", "error", lying("def __bool__(self): return True"), TRUTH_TESTS),
    Attack("truth of a length", "error", lying("def __len__(self): return 1"), TRUTH_TESTS),
    Attack("empty list that is true", "failed", lying("def __bool__(self): return True", "list"), TRUTH_TESTS),
    Attack("length of a list subclass", "failed", lying("def __len__(self): return 9", "list"), ["assert len(f(3)) == 9"]),
    Attack("iteration of a set subclass", "failed", lying("def __iter__(self): return iter([1, 2, 9])", "set"), SET_TESTS),
    Attack("hash collision with what is sought", "failed",
           lying(ALWAYS_EQUAL.replace("__hash__ = object.__hash__", "def __hash__(self): return hash(9)")),
           ["assert f(3) in {9, 25}"]),
    Attack("class of another", "failed", lying("@property\ndef __class__(self): return int\n" + ALWAYS_EQUAL)),
    Attack("metaclass equality", "failed",
           "class Meta(type):\n    def __eq__(cls, other): return True\n    __hash__ = type.__hash__\n"
           "class Liar(metaclass=Meta): pass\ndef f(n):\n    return Liar"),
    Attack("nan games", "failed", "def f(n):\n    return float('nan')"),
    Attack("mock", "failed", "from unittest.mock import MagicMock\ndef f(n):\n    return MagicMock()"),
    Attack("mock.ANY", "failed", "from unittest.mock import ANY\ndef f(n):\n    return ANY"),
    Attack("string whose text is code", "failed", "def f(n):\n    return 'True or 9'"),
]  # fmt: skip

TAMPERING = [
    Attack("builtins replaced", "error", WRONG + "import builtins\nbuiltins.abs = lambda x: 0\nbuiltins.len = lambda x: 9"),
    Attack("tests' names shadowed", "failed", "def f(n):\n    return [1]\ndef set(x):\n    return {1, 2, 9}", SET_TESTS),
    Attack("AssertionError disarmed", "failed", WRONG + "import builtins\nbuiltins.AssertionError = ZeroDivisionError"),
    Attack("json replaced", "error", WRONG + "import json\njson.dumps = lambda *a, **k: '[\"ok\",9]'\njson.loads = None"),
    Attack("the wire's encoder replaced", "failed",
           "import sys\nfor name, module in list(sys.modules.items()):\n    if name.endswith('wire'):\n"
           "        module.encode = lambda value, tokens, reference: tokens.append(7)\n" + WRONG),
    Attack("operations replaced", "failed",
           "import sys\nfor name, module in list(sys.modules.items()):\n    if name.endswith('sandbox.program'):\n"
           "        module.OPERATIONS['call'] = lambda *a: 0\n" + WRONG),
    Attack("every frame searched for expected values", "failed",
           "import sys\ndef f(n):\n    frame = sys._getframe()\n    while frame:\n        for value in frame.f_locals.values():\n"
           "            if value == n * 8 + 1: return value\n        frame = frame.f_back\n    return 0"),
    Attack("garbage searched for tests", "failed",
           "import gc\ndef f(n):\n    return sum('assert' in v for o in gc.get_objects() if type(o) is dict for v in o.values()"
           " if type(v) is str and 'f(3) ==' in v)"),
    Attack("trace function", "failed", "import sys\nsys.settrace(lambda *a: None)\n" + WRONG),
    Attack("excepthook", "error", "import sys\nsys.excepthook = lambda *a: None\ndef f(n):\n    raise ValueError"),
    Attack("inherited AssertionError", "error", "def f(n):\n    raise AssertionError('fine')"),
    Attack("changes its argument", "failed", "def f(n):\n    n.clear()\n    return []", ["x = [3]\nassert f(x) == x"]),
]  # fmt: skip

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
]  # fmt: skip

# What the program would have to write to answer requests that have not been made yet.
PREPARED_REPLY = (
    "import os, json, struct\ndef reply(message):\n    body = json.dumps(message).encode()\n"
    "    os.write(3, struct.pack('>I', len(body)) + body)\n"
)

FORGING_THE_CHANNEL = [
    Attack("replies prepared in advance", "failed", PREPARED_REPLY + "for _ in range(9): reply(['ok', 1])\n" + WRONG),
    Attack("claims to have passed", "error", PREPARED_REPLY + "reply({'outcome': 'passed'})\n" + WRONG),
    Attack("a record of the examiner's", "error", PREPARED_REPLY + "reply({'index': 0, 'outcome': 'passed', 'detail': ''})\n" + WRONG),
    Attack("text instead of a frame", "error", WRONG + "import os\nos.write(3, b'passed\\n' * 99)"),
    Attack("a frame of 4 GiB", "error", WRONG + "import os\nos.write(3, b'\\xff\\xff\\xff\\xff')"),
    Attack("a frame that never ends", "timeout",
           "import os, time\nos.write(3, b'\\0\\0\\0\\x50x')\ntime.sleep(99)\n" + WRONG, timeout_s=0.3),
    Attack("a slow drip", "timeout",
           "import os, time\nos.write(3, b'\\0\\0\\0\\x50')\nwhile True:\n    os.write(3, b' ')\n    time.sleep(0.1)\n", timeout_s=0.3),
    Attack("nested JSON", "error", PREPARED_REPLY + "os.write(3, struct.pack('>I', 200000) + b'[' * 200000)\n" + WRONG),
    Attack("a container as a token", "error", PREPARED_REPLY + "reply(['ok', None]); reply(['ok', [9]])\n" + WRONG),
    Attack("unknown token", "error", PREPARED_REPLY + "reply(['ok', None]); reply(['ok', '?9'])\n" + WRONG),
    Attack("a name of the judge's", "error", PREPARED_REPLY + "reply(['ok', None]); reply(['ok', 'nf'])\n" + WRONG),
    Attack("tokens left over", "error", PREPARED_REPLY + "reply(['ok', None]); reply(['ok', 9, 9])\n" + WRONG),
    Attack("a count beyond the tokens", "error", PREPARED_REPLY + "reply(['ok', None]); reply(['ok', 'L99999999'])\n" + WRONG),
    Attack("an exception that is none", "error",
           PREPARED_REPLY + "reply(['ok', None]); reply(['raise', 'print', 'x', 'y'])\n" + WRONG),
    Attack("an endless range", "error", PREPARED_REPLY + "reply(['ok', None]); reply(['ok', 'R3', 0, 10 ** 15, 1])\n" + WRONG),
    Attack("garbage bytes", "error", WRONG + "import os\nos.write(3, os.urandom(4096))"),
    Attack("a flood of bytes", "error", PREPARED_REPLY + "while True:\n    os.write(3, b'\\0\\0\\0\\x04null' * 5000)\n"),
    Attack("steals the requests", "timeout", WRONG + "import os\nos.read(3, 1 << 20)", timeout_s=0.3),
    Attack("numbers that collide", "timeout", "def f(n):\n    return [i * (2 ** 61 - 1) for i in range(1, 150_000)]", SET_TESTS, 0.4),
]  # fmt: skip

EXHAUSTION = [
    Attack("endless loop while loading", "timeout", "while True: pass", timeout_s=0.3),
    Attack("endless loop in the call", "timeout", "def f(n):\n    while True: pass", timeout_s=0.3),
    Attack("endless loop that catches everything", "timeout",
           "def f(n):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass", timeout_s=0.3),
    Attack("sleeping", "timeout", "import time\ndef f(n):\n    time.sleep(99)", timeout_s=0.3),
    Attack("signals ignored", "timeout",
           "import signal\nfor number in range(1, 65):\n    try: signal.signal(number, signal.SIG_IGN)\n"
           "    except (OSError, ValueError): pass\nwhile True: pass", timeout_s=0.3),
    Attack("a power that takes forever", "timeout", "def f(n):\n    return 10 ** 10 ** 9", timeout_s=0.3),
    Attack("a regular expression that backtracks", "timeout",
           "import re\ndef f(n):\n    return re.match('(a+)+$', 'a' * 40 + 'b')", timeout_s=0.3),
    Attack("C code that never returns", "timeout", "def f(n):\n    return max(map(int, iter(int, 1)))", timeout_s=0.3),
    Attack("an endless generator", "timeout", "def f(n):\n    while True: yield n", ["assert list(f(3)) == [9]"], 0.3),
    Attack("threads that spin", "timeout",
           "import threading\ndef spin():\n    while True: pass\nfor _ in range(4): threading.Thread(target=spin).start()\n" + WRONG
           + "import time\ntime.sleep(99)", timeout_s=0.3),
    Attack("memory in one piece", "memory", "def f(n):\n    return len(bytearray(8 << 30))"),
    Attack("memory bit by bit", "memory", "def f(n):\n    x = []\n    while True: x.append(bytearray(1 << 24))", timeout_s=5.0),
    Attack("memory while loading", "memory", "x = 'x' * (1 << 40)\n" + WRONG),
    Attack("a thread bomb", "error",
           "import threading, time\ndef f(n):\n    while True: threading.Thread(target=time.sleep, args=(99,)).start()", timeout_s=5.0),
    Attack("a fork bomb", "error", "import os\ndef f(n):\n    while True: os.fork()"),
    Attack("deep recursion", "error", "def f(n):\n    return f(n)"),
    Attack("deeper recursion", "error", "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(n):\n    return repr(g(10 ** 6))\n"
           "def g(n):\n    x = []\n    for _ in range(n): x = [x]\n    return x", timeout_s=5.0),
    Attack("a segmentation fault", "error", "import ctypes\ndef f(n):\n    ctypes.string_at(0)"),
    Attack("a reply that is too large", "error", "def f(n):\n    return 'x' * (5 << 20)"),
    Attack("a list that contains itself", "error", "def f(n):\n    x = []\n    x.append(x)\n    return x"),
    Attack("a list that doubles", "error", "def f(n):\n    x = []\n    for _ in range(40): x = [x, x]\n    return x", timeout_s=8.0),
    Attack("a number of a million digits", "failed", "def f(n):\n    return 1 << 900_000"),
    Attack("a flood of prints", "failed", "def f(n):\n    print('x' * 10_000_000)\n    return 0"),
    Attack("files without end", "error",
           "def f(n):\n    i = 0\n    while True:\n        open(str(i), 'w').close()\n        i += 1", timeout_s=5.0),
    Attack("a file without end", "error", "def f(n):\n    with open('x', 'wb') as x:\n        while True: x.write(bytes(1 << 16)); x.flush()"),
    Attack("descriptors without end", "error", "import os\ndef f(n):\n    while True: os.dup(0)"),
]  # fmt: skip

ATTACKS = [*LEAVING_EARLY, *LYING_OBJECTS, *TAMPERING, *SOURCE_TRICKS, *FORGING_THE_CHANNEL, *EXHAUSTION]
