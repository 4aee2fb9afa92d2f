"""Data sets that attack the judge: their tests and setup do, and sometimes the program is in league with them.

A hostile test may decide its own item, which is its data set's loss. It must not decide another item, learn anything
of one, or reach a network, a file or a process. Adding one is adding a row.
"""

from typing import NamedTuple

SQUARE = "def f(n):\n    return n * n\n"
MARK = "neighbour-answer"  # in every neighbour's program and tests; hostile tests look for it
_SOUGHT = "'neighbour' + '-answer'"  # the same, so that a hostile item does not find itself
ANY = ("passed", "failed", "error", "infra", "timeout", "memory")
HARMLESS_END = ("failed", "error", "infra")  # what it tried did not succeed, and its test says so

# On descriptor 3 an examiner gets its items and says that it is done with one; records go to descriptor 4.
_RECORDS = (
    "import json, os, socket, time\n"
    "def record(**fields): os.write(4, json.dumps(fields).encode() + b'\\n')\n"
    "def loading(): os.write(4, b'.\\n')\n"
    "def mark(what=b'E'): os.write(3, what)\n"
    "PASSED = {'outcome': 'passed', 'detail': ''}\n"
)
_TAKE_OVER = (
    "for round in range(5):\n"
    "    _, descriptors, _, _ = socket.recv_fds(socket.socket(fileno=os.dup(3)), 1, 1)\n"
    "    socket.socket(fileno=os.dup(3)).recv(1 << 20)\n"
    "    loading(); record(index=0, **PASSED); mark()\n"
)
_PATCH = (
    "import sys\n"
    "examiner, wire, standins = (sys.modules['sandbox.' + name] for name in ('examiner', 'wire', 'standins'))\n"
    "examiner.run_block = lambda *a, **k: ('passed', '')\n"
    "examiner.load_program = lambda *a: ('passed', '')\n"
    "standins.StandIn.__call__ = lambda *a: 9\n"
)

# A system call can be asked for any address, and says so where nothing is. The pattern does not match itself.
_PAGES = (
    "import ctypes, gc, os, re\n"
    "libc, (end, start), page, found, seen = ctypes.CDLL(None), os.pipe(), 4096, [], set()\n"
    "libc.sbrk.restype = ctypes.c_void_p\n"
    "for near in {id(thing) // page for thing in gc.get_objects()} | {libc.sbrk(0) // page - 1}:\n"
    "    for step in (1, -1):\n"
    "        place = near if step == 1 else near - 1\n"
    "        while place not in seen and libc.write(start, ctypes.c_void_p(place * page), page) == page:\n"
    "            seen.add(place)\n"
    "            if re.search(b'[n]eighbour-answer', os.read(end, page)): found.append(place)\n"
    "            place += step\n"
    "if len(seen) < 1000: raise LookupError('it has not looked far')\n"
)


class Hostile(NamedTuple):
    """Setup, tests and program of a hostile item, and the outcomes that it may come to."""

    name: str
    tests: list[str]
    setup: str = ""
    program: str = SQUARE
    outcomes: tuple[str, ...] = ANY
    timeout_s: float = 1.0


def trying(name: str, action: str, imports: str = "os") -> Hostile:
    """A test that passes only if `action`, a statement, goes through."""
    return Hostile(name, [f"import {imports}\n{action}"], outcomes=HARMLESS_END)


FORGED_RECORDS = [
    Hostile("takes the examiner over", [_RECORDS + "record(index=0, **PASSED); mark()\n" + _TAKE_OVER]),
    Hostile("the same from setup", ["assert f(3) == 9"], _RECORDS + "mark()\n" + _TAKE_OVER),
    Hostile("declines, to be given another", [_RECORDS + "loading(); mark(b'D'); time.sleep(9)"], timeout_s=0.3),
    Hostile("every mark there is", [_RECORDS + "loading(); record(index=0, **PASSED); mark(b'DSEDF'); time.sleep(9)"]),
    Hostile("ends twice", [_RECORDS + "mark(); mark(); record(index=0, **PASSED)"]),
    Hostile("ends fresh, then exits", [_RECORDS + "mark(); os._exit(0)"]),
    Hostile(
        "reads back what it has said",
        [_RECORDS + "os.read(os.open('/proc/self/fd/4', os.O_RDONLY), 999); loading(); mark()"],
    ),
    Hostile("a flood of marks", [_RECORDS + "while True: mark(b'x' * 4096)"], timeout_s=0.3),
    Hostile("no outcome", [_RECORDS + "record(index=0)"]),
    Hostile("an outcome that is a table", [_RECORDS + "record(index=0, outcome={}, detail='')"]),
    Hostile("an outcome of its own making", [_RECORDS + "record(index=0, outcome='won', detail='', retry=True)"]),
    Hostile("a detail that is a number", [_RECORDS + "record(index=0, outcome='failed', detail=7)"]),
    Hostile("a detail of megabytes", [_RECORDS + "record(index=0, outcome='failed', detail='x' * (900 << 10))"]),
    Hostile("records of tests to come", [_RECORDS + "for i in range(99): record(index=i, **PASSED)"]),
    Hostile(
        "goes on after the program went away",
        [
            _RECORDS + "record(index=0, outcome='gone', detail=''); record(index=1, **PASSED); mark()",
            "assert f(3) == 9",
        ],
    ),
    Hostile(
        "megabytes for every test to come",
        [_RECORDS + "for i in range(8): record(index=i, outcome='passed', detail='x' * (1 << 19))"],
        timeout_s=2.0,
    ),
    Hostile("trouble with the jail", [_RECORDS + "record(jail='x' * (900 << 10)); os._exit(0)"]),
    Hostile("a record that nests", [_RECORDS + "os.write(4, b'[' * (500 << 10) + b'\\n'); mark()"]),
    Hostile("another item's id", [_RECORDS + "record(index=0, id='neighbour-0', passed=False, **PASSED)"]),
    Hostile("half a record", [_RECORDS + 'os.write(4, b\'{"index": 0, "outco\'); os._exit(0)']),
    Hostile("no JSON", [_RECORDS + "os.write(4, b'passed\\n\\xff\\n[[[[\\n7\\n')"]),
    Hostile("a flood of records", [_RECORDS + "while True: record(index=-1, **PASSED)"], timeout_s=0.3),
    Hostile("a record without end", [_RECORDS + "while True: os.write(4, b'x' * 65536)"], timeout_s=0.3),
]

LEFT_BEHIND = [
    Hostile("patches the examiner", ["assert f(3) == 9"], _PATCH),
    Hostile("patches json", ["assert f(3) == 9"], "import json\njson.loads = json.dumps = lambda *a, **k: '{}'"),
    Hostile("patches built-ins", ["assert f(3) == 9"], "import builtins\nbuiltins.len = builtins.isinstance = None"),
    Hostile("patches AssertionError", ["assert f(3) == 8"], "import builtins\nbuiltins.AssertionError = ValueError"),
    Hostile("patches the socket", ["assert f(3) == 9"], "import socket\nsocket.socket.sendall = lambda *a: None"),
    Hostile(
        "a frame's way to exec, without an underscore",
        [
            ("g = (g.gi_frame.f_back.f_back.f_globals for _ in [1])\n"
            f"assert list(g)[0]['builtins'].exec({_PATCH!r}) is None\nassert f(3) == 9")
        ],
    ),
    Hostile("exec by way of __builtins__", [f"assert __builtins__['exec']({_PATCH!r}) is None"]),
    Hostile(
        "the program hands out exec",
        ["assert f(1)(f(2)) is None"],
        program=f"def f(n):\n    return exec if n == 1 else {_PATCH!r}\n",
        outcomes=HARMLESS_END,
    ),
    Hostile(
        "a method that is eval",
        ["t = T()\nassert t.decode(t.encode()) is None"],
        program=f"class T:\n    decode = staticmethod(exec)\n    def encode(self):\n        return {_PATCH!r}\n",
        outcomes=HARMLESS_END,
    ),
    Hostile("a thread that reports", [
        _RECORDS + "import threading\ndef spam():\n    while True: record(index=0, **PASSED)\n"
        "threading.Thread(target=spam, daemon=True).start(); time.sleep(0.1)"
    ]),
    Hostile("exits late", ["assert f(3) == 9"], "import atexit, os\natexit.register(os._exit, 0)"),
    Hostile("lowers its limits", ["assert f(3) == 9"], "import resource\nresource.setrlimit(7, (4, 4))"),
    Hostile("traces", ["assert f(3) == 9"], "import sys, threading\nsys.settrace(lambda *a: None)"),
    Hostile("handles every signal", ["assert f(3) == 9"], "import signal\nfor n in (2, 15, 24): signal.signal(n, 1)"),
    Hostile("an alarm", ["assert f(3) == 9"], "import signal\nsignal.alarm(1)"),
    Hostile("no garbage collection, no recursion", ["assert f(3) == 9"], "import gc, sys\nsys.setrecursionlimit(60)"),
]  # fmt: skip

ENDING_BADLY = [
    Hostile("os._exit(0) in setup", ["assert f(3) == 9"], "import os\nos._exit(0)", outcomes=("infra",)),
    Hostile("os._exit(0) in a test", ["import os\nos._exit(0)"], outcomes=("infra",)),
    Hostile("abort", ["import os\nos.abort()"], outcomes=("error",)),
    Hostile("a segmentation fault", ["import ctypes\nctypes.string_at(0)"], outcomes=("error",)),
    Hostile("closes everything", ["import os\nos.closerange(0, 64)\nassert f(3) == 9"]),
    Hostile("closes its reports and waits", ["import os, time\nos.close(3)\ntime.sleep(9)"], timeout_s=0.3),
    Hostile("swaps its descriptors", ["import os\nos.dup2(0, 3)\nassert f(3) == 9"], timeout_s=0.3),
    Hostile("never ends", ["while True: pass"], timeout_s=0.3, outcomes=("timeout",)),
    Hostile("setup never ends", ["assert f(3) == 9"], "while True: pass", timeout_s=0.3),
    Hostile("sleeps", ["import time\ntime.sleep(9)"], timeout_s=0.3, outcomes=("timeout",)),
    Hostile("eats memory", ["x = []\nwhile True: x.append(bytearray(1 << 24))"], outcomes=("memory",), timeout_s=5.0),
    Hostile("nested beyond the parser", ["assert f(3) == " + "(" * 5000 + "9" + ")" * 5000], outcomes=("infra",)),
    Hostile("nested beyond the compiler", ["assert f(3) == " + "-" * 90_000 + "9"], outcomes=("infra",)),
    Hostile("stops the program by raw bytes", [
        ("import os, json\nfor n in range(4, 16):\n    try: os.write(n, b'\\xff' * 64)\n    except OSError: pass\n"
        "assert f(3) == 9")
    ]),
]  # fmt: skip

REACHING_OUT = [
    trying("a socket", "socket.socket()", "socket"),
    trying("a name", "socket.getaddrinfo('localhost', 80)[0]; socket.create_connection(('localhost', 80))", "socket"),
    trying("fork", "os.fork()"),
    trying("another program", "os.execv('/bin/true', ['true'])"),
    trying("a subprocess", "subprocess.run(['true'])", "subprocess"),
    trying("kill the judge", "os.kill(os.getppid(), 9)"),
    trying("kill everyone", "os.kill(-1, 9)"),
    trying("a file in /tmp", "open('/tmp/hostile', 'w')"),
    trying("a file right here", "open('hostile', 'w')"),
    trying("a folder", "os.mkdir('hostile')"),
    trying("passwords", "open('/etc/passwd')"),
    trying("a listing", "os.listdir('/')"),
    trying("the judge's environment", "open(f'/proc/{os.getppid()}/environ')"),
    trying("the judge's memory", "open(f'/proc/{os.getppid()}/mem', 'rb')"),
    trying("its own memory", "open('/proc/self/mem', 'rb')"),
    trying("an environment", "assert os.environ"),
    trying("an environment below Python", "assert ctypes.c_void_p.in_dll(ctypes.CDLL(None), 'environ').value\n"
           "assert ctypes.c_char_p.from_address(ctypes.c_void_p.in_dll(ctypes.CDLL(None), 'environ').value).value",
           "ctypes"),
    trying("arguments", "assert sys.argv != ['']", "sys"),
    trying("shared memory", "shared_memory.SharedMemory(create=True, size=9)", "multiprocessing.shared_memory as "
           "shared_memory"),
    trying("more descriptors", "assert [n for n in range(7, 999) if os.path.exists(f'/proc/self/fd/{n}')]"),
    trying("privileges", "os.setuid(0)"),
    trying("ptrace", "assert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0", "ctypes, os"),
]  # fmt: skip

# Nothing below keeps the mark in a variable: it would find that.
LOOKING_FOR_OTHERS = [
    Hostile(
        "through every frame",
        [
            (
                "import sys\nframe, found = sys._getframe(), []\nwhile frame:\n"
                f"    found += [name for name, value in frame.f_locals.items() if {_SOUGHT} in repr(value)]\n"
                "    frame = frame.f_back\n"
                "assert found"
            )
        ],
        outcomes=("failed",),
    ),
    Hostile(
        "through the garbage collector",
        [
            (
                "import gc\ngc.unfreeze()\nfound = []\nfor thing in gc.get_objects():\n"
                "    if type(thing) in (dict, list, tuple, set, frozenset):\n"
                "        for value in list(thing.values() if type(thing) is dict else thing):\n"
                f"            if type(value) is str and {_SOUGHT} in value: found.append(len(value))\n"
                f"assert [n for n in found if n != len({_SOUGHT})]"
            )  # its own constant is not what it looks for
        ],
        outcomes=("failed",),
        timeout_s=5.0,
    ),
    Hostile(
        "by formatting, without an underscore",
        [f"assert {_SOUGHT} in '{{0.gi_frame.f_back.f_back.f_back.f_locals}}'.format(x for x in [1])"],
        outcomes=HARMLESS_END,
    ),
    Hostile("through every page of its memory", [_PAGES + "assert found"], outcomes=("failed",), timeout_s=5.0),
    Hostile(
        "by formatting, while a generator runs",
        [
            (
                "g = ('{0.gi_frame.f_back.f_back.f_back.f_globals}'.format(g) for _ in [1])\n"
                "found = list(g)[0]\nif 'examin' not in found: raise LookupError('it sees nothing')\n"
                f"assert {_SOUGHT} in found.replace({_SOUGHT!r}, '')"
            )
        ],
        outcomes=("failed",),
    ),
    Hostile(
        "among what the judge calls its own",
        [
            (
                "import sys\nfound = []\nfor name, module in list(sys.modules.items()):\n"
                "    if name.startswith('sandbox'):\n"
                f"        found += [name for name, value in vars(module).items() if {_SOUGHT} in repr(value)]\n"
                "assert found"
            )
        ],
        outcomes=("failed",),
        timeout_s=5.0,
    ),
]

HOSTILE = [*FORGED_RECORDS, *LEFT_BEHIND, *ENDING_BADLY, *REACHING_OUT, *LOOKING_FOR_OTHERS]
