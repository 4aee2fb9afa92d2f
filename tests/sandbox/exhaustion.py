"""Programs that try to forge or break the channel, and to use up what the judge has. Adding one is adding a row."""

from tests.sandbox.attack import SET_TESTS, TESTS, TRUTH_TESTS, WRONG, Attack

# What the program would have to write to answer requests that have not been made yet.
PREPARED_REPLY = (
    "import os, json, struct\ndef reply(message):\n    body = json.dumps(message).encode()\n"
    "    os.write(3, struct.pack('>I', len(body)) + body)\n"
)

# Each is tried on both channels: replies are written quietly into the pipe, 4, while further calls have been sent
# already, and aloud into the socket, 3, after calls that nobody could foresee.
FORGED_REPLIES = [
    Attack("replies prepared in advance", "failed", PREPARED_REPLY + "for _ in range(9): reply(['ok', 1])\n" + WRONG),
    Attack("claims to have passed", "error", PREPARED_REPLY + "reply({'outcome': 'passed'})\n" + WRONG),
    Attack(
        "a record of the examiner's",
        "error",
        PREPARED_REPLY + "reply({'index': 0, 'outcome': 'passed', 'detail': ''})\n" + WRONG,
    ),
    Attack("text instead of a frame", "error", WRONG + "import os\nos.write(3, b'passed\\n' * 99)"),
    Attack("a frame of 4 GiB", "error", WRONG + "import os\nos.write(3, b'\\xff\\xff\\xff\\xff')"),
    Attack(
        "a frame that never ends",
        "timeout",
        "import os, time\nos.write(3, b'\\0\\0\\0\\x50x')\ntime.sleep(99)\n" + WRONG,
        timeout_s=0.3,
    ),
    Attack(
        "a slow drip",
        "timeout",
        "import os, time\nos.write(3, b'\\0\\0\\0\\x50')\nwhile True:\n    os.write(3, b' ')\n    time.sleep(0.1)\n",
        timeout_s=0.3,
    ),
    Attack("nested JSON", "error", PREPARED_REPLY + "os.write(3, struct.pack('>I', 200000) + b'[' * 200000)\n" + WRONG),
    Attack("a container as a token", "error", PREPARED_REPLY + "reply(['ok', None]); reply(['ok', [9]])\n" + WRONG),
    Attack("unknown token", "error", PREPARED_REPLY + "reply(['ok', None]); reply(['ok', '?9'])\n" + WRONG),
    Attack("a name of the judge's", "error", PREPARED_REPLY + "reply(['ok', None]); reply(['ok', 'nf'])\n" + WRONG),
    Attack("tokens left over", "error", PREPARED_REPLY + "reply(['ok', None]); reply(['ok', 9, 9])\n" + WRONG),
    Attack(
        "a count beyond the tokens",
        "error",
        PREPARED_REPLY + "reply(['ok', None]); reply(['ok', 'L99999999'])\n" + WRONG,
    ),
    Attack(
        "an exception that is none",
        "error",
        PREPARED_REPLY + "reply(['ok', None]); reply(['raise', 'print', 'x', 'y'])\n" + WRONG,
    ),
    Attack(
        "an endless range",
        "error",
        PREPARED_REPLY + "reply(['ok', None]); reply(['ok', 'R3', 0, 10 ** 15, 1])\n" + WRONG,
    ),
    Attack("exec by name", "error", PREPARED_REPLY + "reply(['ok', None]); reply(['ok', '@exec'])\n" + WRONG),
    Attack("a module by name", "error", PREPARED_REPLY + "reply(['ok', None]); reply(['ok', '@__import__'])\n" + WRONG),
    Attack(
        "a handle that claims to be true",
        "failed",
        PREPARED_REPLY + "reply(['ok', None]); reply(['ok', 'h0 ot Match'])\n" + WRONG,
        TRUTH_TESTS,
    ),
    Attack(
        "a handle that claims another truth later",
        "error",
        PREPARED_REPLY + "reply(['ok', None]); reply(['ok', 'T2', 'h0 o? P', 'h0 ot P'])\n" + WRONG,
        ["assert f(3)[1]"],
    ),
    Attack(
        "StopIteration to every request",
        "error",
        PREPARED_REPLY + "reply(['ok', None])\nfor _ in range(9): reply(['raise', 'StopIteration', 'x', ''])\n" + WRONG,
        ["assert all(map(lambda n: f(n) == n * n, [3, 5]))"],
    ),
    Attack(
        "an exit by its name",
        "error",
        PREPARED_REPLY + "reply(['ok', None]); reply(['raise', 'SystemExit', 'SystemExit', '0'])\n" + WRONG,
    ),
    Attack(
        "another encoding",
        "error",
        PREPARED_REPLY + "reply(['ok', None])\n"
        "body = '[\"ok\", 7]'.encode('utf-32')\nos.write(3, struct.pack('>I', len(body)) + body)\n" + WRONG,
    ),
    Attack(
        "keys that collide",
        "timeout",
        PREPARED_REPLY + "reply(['ok', None])\n"
        "reply(['ok', 'D200000', *[x for i in range(1, 100001) for x in ('i%x' % (i * (2 ** 61 - 1)), 0)]])\n" + WRONG,
        TESTS,
        0.4,
    ),
    Attack(
        "arrays of arrays of ranges",
        "memory",
        PREPARED_REPLY + "reply(['ok', None])\nreply(['ok', 'L400', *['R3', 0, 9999999, 1] * 400])\n" + WRONG,
        ["assert [[*r] for r in f(3)] == [9]"],
        20.0,
    ),
    Attack("garbage bytes", "error", WRONG + "import os\nos.write(3, os.urandom(4096))"),
    Attack(
        "a flood of bytes", "error", PREPARED_REPLY + "while True:\n    os.write(3, b'\\0\\0\\0\\x04null' * 5000)\n"
    ),
    Attack("steals the requests", "timeout", WRONG + "import os\nos.read(3, 1 << 20)", timeout_s=0.3),
    Attack(
        "numbers that collide",
        "timeout",
        "def f(n):\n    return [i * (2 ** 61 - 1) for i in range(1, 150_000)]",
        SET_TESTS,
        0.4,
    ),
]


def _aloud(attack: Attack) -> Attack:
    return attack._replace(tests=[f"if True:\n    {test}" for test in attack.tests])


def _quietly(attack: Attack) -> Attack:
    return attack._replace(name=f"{attack.name}, quietly", program=attack.program.replace("os.write(3,", "os.write(4,"))


FORGING_THE_CHANNEL = [
    *map(_aloud, FORGED_REPLIES),
    *(_quietly(one) for one in FORGED_REPLIES if "os.write(3," in one.program and one.tests in (TESTS, TRUTH_TESTS)),
]

EXHAUSTION = [
    Attack("endless loop while loading", "timeout", "while True: pass", timeout_s=0.3),
    Attack("endless loop in the call", "timeout", "def f(n):\n    while True: pass", timeout_s=0.3),
    Attack(
        "endless loop that catches everything",
        "timeout",
        "def f(n):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        timeout_s=0.3,
    ),
    Attack("sleeping", "timeout", "import time\ndef f(n):\n    time.sleep(99)", timeout_s=0.3),
    Attack(
        "signals ignored",
        "timeout",
        "import signal\nfor number in range(1, 65):\n    try: signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\nwhile True: pass",
        timeout_s=0.3,
    ),
    Attack("a power that takes forever", "timeout", "def f(n):\n    return 10 ** 10 ** 9", timeout_s=0.3),
    Attack(
        "a regular expression that backtracks",
        "timeout",
        "import re\ndef f(n):\n    return re.match('(a+)+$', 'a' * 40 + 'b')",
        timeout_s=0.3,
    ),
    Attack("C code that never returns", "timeout", "def f(n):\n    return max(map(int, iter(int, 1)))", timeout_s=0.3),
    Attack("an endless generator", "timeout", "def f(n):\n    while True: yield n", ["assert list(f(3)) == [9]"], 0.3),
    Attack(
        "threads that spin",
        "timeout",
        "import threading\n"
        "def spin():\n"
        "    while True: pass\n"
        "for _ in range(4): threading.Thread(target=spin).start()\n" + WRONG + "import time\ntime.sleep(99)",
        timeout_s=0.3,
    ),
    Attack("memory in one piece", "memory", "def f(n):\n    return len(bytearray(8 << 30))"),
    Attack(
        "memory bit by bit",
        "memory",
        "def f(n):\n    x = []\n    while True: x.append(bytearray(1 << 24))",
        timeout_s=5.0,
    ),
    Attack("memory while loading", "memory", "x = 'x' * (1 << 40)\n" + WRONG),
    Attack(
        "a thread bomb",
        "error",
        "import threading, time\ndef f(n):\n    while True: threading.Thread(target=time.sleep, args=(99,)).start()",
        timeout_s=5.0,
    ),
    Attack("a fork bomb", "error", "import os\ndef f(n):\n    while True: os.fork()"),
    Attack("deep recursion", "error", "def f(n):\n    return f(n)"),
    Attack(
        "deeper recursion",
        "error",
        "import sys\n"
        "sys.setrecursionlimit(10 ** 9)\n"
        "def f(n):\n"
        "    return repr(g(10 ** 6))\n"
        "def g(n):\n"
        "    x = []\n"
        "    for _ in range(n): x = [x]\n"
        "    return x",
        timeout_s=5.0,
    ),
    Attack("a segmentation fault", "error", "import ctypes\ndef f(n):\n    ctypes.string_at(0)"),
    Attack("a reply that is too large", "error", "def f(n):\n    return 'x' * (5 << 20)"),
    Attack("a list that contains itself", "error", "def f(n):\n    x = []\n    x.append(x)\n    return x"),
    Attack(
        "a list that doubles",
        "error",
        "def f(n):\n    x = []\n    for _ in range(40): x = [x, x]\n    return x",
        timeout_s=8.0,
    ),
    Attack("a number of a million digits", "failed", "def f(n):\n    return 1 << 900_000"),
    Attack("a flood of prints", "failed", "def f(n):\n    print('x' * 10_000_000)\n    return 0"),
    Attack(
        "files without end",
        "error",
        "def f(n):\n    i = 0\n    while True:\n        open(str(i), 'w').close()\n        i += 1",
        timeout_s=5.0,
    ),
    Attack(
        "a file without end",
        "error",
        "def f(n):\n    with open('x', 'wb') as x:\n        while True: x.write(bytes(1 << 16)); x.flush()",
    ),
    Attack("descriptors without end", "error", "import os\ndef f(n):\n    while True: os.dup(0)"),
]
