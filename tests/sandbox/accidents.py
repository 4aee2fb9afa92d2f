"""Programs that are honest, and what plain execution makes of them. Adding one is adding a row.

Where plain execution would pass, so must the sandbox, but for the exceptions that images/sandbox/README.md lists:
those have a table of their own here.
"""

from tests.sandbox.case import CHECK, SQUARE, SQUARE_TESTS, Case, returning
from tests.sandbox.values import BUILT_INS, OBJECTS, TRUTHS, VALUES

ACCIDENTS = [
    Case("plain", SQUARE, SQUARE_TESTS),
    Case("check function", SQUARE, [CHECK]),
    Case("a demo under main", SQUARE + "if __name__ == '__main__':\n    print(f(int(input())))", SQUARE_TESTS),
    Case("a demo that prints", SQUARE + "print(f(3))\nprint('x' * 10 ** 6)", SQUARE_TESTS),
    Case(
        "writes to stdout's buffer",
        SQUARE + "import sys\nsys.stdout.buffer.write(b'\\xff')\nsys.stdout.flush()",
        SQUARE_TESTS,
    ),
    Case("writes to stderr", SQUARE + "import sys\nprint('debug', file=sys.stderr)", SQUARE_TESTS),
    Case("reads input", SQUARE + "input()", SQUARE_TESTS, "error", detail="EOFError"),
    Case("exits after its demo", SQUARE + "print(f(3))\nexit()", SQUARE_TESTS, "error", detail="exit()"),
    Case("wrong", "def f(n):\n    return n + n", SQUARE_TESTS, "failed", detail="last value: 6"),
    Case("a typing mistake", "def f(n):\n    return m * n", SQUARE_TESTS, "error", detail="NameError"),
    Case("mentions passed", SQUARE + "print('All tests passed')", SQUARE_TESTS),
    Case("named like a builtin", "def sum(n):\n    return n * n", ["assert sum(3) == 9"], entry_point="sum"),
    Case(
        "named like a builtin that a test uses on the way to another call",
        "def len(n):\n    return 40\ndef g(n):\n    return n + 1",
        ["assert g(len([1])) == 41", "assert g(1) == 2"],
        entry_point="len",
    ),
    Case("changes its argument", "def f(x):\n    x.sort()\n    return x", ["assert f([3, 1, 2]) == [1, 2, 3]"]),
    Case(
        "a thread it leaves behind",
        SQUARE + ("import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()"),
        SQUARE_TESTS,
    ),
    Case(
        "a pool of threads",
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def f(n):\n"
        "    with ThreadPoolExecutor(4) as pool:\n"
        "        return sum(pool.map(lambda x: n, range(n)))",
        ["assert f(3) == 9"],
    ),
    Case(
        "asyncio",
        "import asyncio\n"
        "async def g(n):\n"
        "    await asyncio.sleep(0)\n"
        "    return n * n\n"
        "def f(n):\n"
        "    return asyncio.run(g(n))",
        SQUARE_TESTS,
    ),
    Case(
        "raises the recursion limit",
        "import sys\nsys.setrecursionlimit(10 ** 6)\ndef f(n):\n    return n * n if n < 20000 else 0\n",
        SQUARE_TESTS,
    ),
    Case("recursion within the limit", "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)", ["assert f(900) == 900"]),
    Case(
        "dataclass",
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class P:\n"
        "    x: int\n"
        "def f(n):\n"
        "    return P(n).x * n",
        SQUARE_TESTS,
    ),
    Case(
        "imports from the library",
        "import statistics, random, json, csv, hashlib, sqlite3, unicodedata, zlib\n" + SQUARE,
        SQUARE_TESTS,
    ),
    Case(
        "writes a file of its own",
        "def f(n):\n    with open('x.txt', 'w') as x: x.write(str(n * n))\n"
        "    with open('x.txt') as x: return int(x.read())",
        SQUARE_TESTS,
    ),
    Case("catches everything", "def f(n):\n    try:\n        return n * n\n    except:\n        pass", SQUARE_TESTS),
    Case("logs", "import logging\nlogging.basicConfig(level=10)\nlogging.info('x')\n" + SQUARE, SQUARE_TESTS),
    Case("warns", "import warnings\nwarnings.warn('x')\nx = 1 is 1\n" + SQUARE, SQUARE_TESTS),
    Case("windows line ends", SQUARE.replace("\n", "\r\n"), SQUARE_TESTS),
    Case("sleeps a little", "import time\ndef f(n):\n    time.sleep(0.2)\n    return n * n", ["assert f(3) == 9"]),
    Case("an alarm of its own", "import signal\nsignal.alarm(60)\n" + SQUARE, SQUARE_TESTS),
    Case("int for float", returning("float(n * n)"), SQUARE_TESTS),
    Case("True for 1", returning("n == 3"), ["assert f(3) == 1"]),
    Case(
        "raises what is asked for",
        "def f(n):\n    raise ValueError('negative')",
        ["try:\n    f(1)\n    assert False\nexcept ValueError as error:\n    assert str(error) == 'negative'"],
    ),
    Case(
        "raises an exception of its own",
        "class Odd(KeyError): pass\ndef f(n):\n    raise Odd(n)",
        ["try:\n    f(1)\n    assert False\nexcept LookupError:\n    pass"],
    ),
    Case(
        "raises one that is hard to make",
        "def f(n):\n    return b'\\xff'.decode()",
        ["try:\n    f(1)\n    assert False\nexcept ValueError:\n    pass"],
    ),
    Case(
        "counts its calls",
        "calls = []\ndef f(n):\n    calls.append(n)\n    return len(calls)",
        ["assert f(5) == 1", "assert f(5) == 2"],
    ),
    Case("a subclass of int", "class I(int): pass\ndef f(n):\n    return I(n * n)", SQUARE_TESTS),
    Case(
        "an endless iterator in a comparison",
        "import itertools\ndef f(n):\n    return itertools.count()",
        ["assert f(1) == [0]"],
        "failed",
    ),
    Case("prints broken text", SQUARE + "print('\\ud800')", SQUARE_TESTS, "error", detail="UnicodeEncodeError"),
    Case(
        "more digits than Python prints",
        SQUARE + "x = 10 ** 5000\nprint(len(str(x)))",
        SQUARE_TESTS,
        "error",
        detail="ValueError",
    ),
    Case(
        "a check of HumanEval's form",
        SQUARE,
        [
            (
                "METADATA = {'author': 'jt'}\n\ndef check(candidate):\n    assert candidate(3) == 9, 'three'\n"
                "    assert True, 'always'\ncheck(f)"
            )
        ],
    ),
    Case("a check that fails", "def f(n):\n    return n", [CHECK], "failed"),
    Case(
        "a check with modules and helpers",
        "def f(xs):\n    return sum(xs) / len(xs)",
        [
            (
                "def check(candidate):\n    import math, random\n    for _ in range(5):\n"
                "        xs = [random.random() for _ in range(9)]\n"
                "        assert math.isclose(candidate(xs), math.fsum(xs) / 9)\n"
                "    assert abs(candidate([1, 2]) - 1.5) < 1e-6\ncheck(f)"
            )
        ],
    ),
    Case("its own assertion fails", "def f(n):\n    assert n < 0", SQUARE_TESTS, "error", detail="AssertionError"),
]

# Here the sandbox differs from plain execution, and README.md says why.
EXCEPTIONS = [
    Case(
        "builtins that the program shadows",
        "list = sum = None\n" + SQUARE,
        ["assert sum([f(1), f(2)]) == 5", "assert list((f(1),)) == [1]"],
    ),
    Case(
        "equality of the program's own",
        "class P:\n"
        "    def __init__(self, x): self.x = x\n"
        "    def __eq__(self, other): return self.x == other.x\n"
        "def f(n):\n"
        "    return P(n)",
        ["assert f(1) == P(1)"],
        "failed",
    ),
    Case(
        "truth of the program's own",
        "class P: pass\ndef f(n):\n    return P()",
        ["assert f(1)"],
        "error",
        detail="truth",
    ),
    Case(
        "order of the program's own",
        "class P:\n    def __lt__(self, other): return True\ndef f(n):\n    return P()",
        ["assert f(1) < f(2)"],
        "error",
    ),
    Case(
        "arithmetic of the program's own",
        "class f:\n    def __init__(self, x): self.x = x\n    def __add__(self, other): return self.x + other.x",
        ["assert f(1) + f(2) == 3"],
        "error",
    ),
    Case(
        "a subprocess",
        "import subprocess\ndef f(n):\n    return subprocess.run(['true']).returncode",
        ["assert f(1) == 0"],
        "error",
    ),
    Case("a socket", "import socket\ndef f(n):\n    return socket.socket().fileno()", ["assert f(1) > 0"], "error"),
    Case(
        "a reply beyond the limit",
        returning("'x' * (5 << 20)"),
        ["assert len(f(1)) == 5 << 20"],
        "error",
        detail="limit",
    ),
    Case(
        "too deep",
        "def f(n):\n    x = []\n    for _ in range(n): x = [x]\n    return x",
        ["assert f(950) is not None"],
        "error",
        detail="nested",
    ),
    Case(
        "StopIteration out of a call",
        "def f(n):\n    raise StopIteration",
        ["assert list(map(f, [1, 2])) == []"],
        "error",
        detail="StopIteration",
    ),
    Case(
        "an exception class of its own, caught by name",
        "class Odd(Exception): pass\ndef f(n):\n    raise Odd",
        ["try:\n    f(1)\n    assert False\nexcept Odd:\n    pass"],
        "error",
    ),
    Case(
        "a computing module of its own",
        "class math:\n    pi = 3\ndef f(n):\n    return math.pi",
        ["assert f(1) == math.pi"],
        "failed",
    ),
    Case("third-party packages", "import numpy\n" + SQUARE, SQUARE_TESTS, "error", detail="ModuleNotFoundError"),
    Case("what an argument became", "def f(x):\n    x.append(1)", ["x = []\nf(x)\nassert x == [1]"], "failed"),
    Case(
        "a demo that must run",
        "def f(n):\n    return g(n)\nif __name__ == '__main__':\n    g = abs",
        ["assert f(-1) == 1"],
        "error",
        detail="NameError",
    ),
]

ALIKE = [*ACCIDENTS, *VALUES, *TRUTHS, *BUILT_INS, *OBJECTS]
