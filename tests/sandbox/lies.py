"""More programs that stop before their tests do, and more values that lie about themselves. Adding one is adding a row.

The task of all of them: f(n) is n squared. No program here computes that.
"""

from tests.sandbox.attack import ALWAYS_EQUAL, SET_TESTS, TRUTH_TESTS, WRONG, Attack, lying

STOPPING = [
    Attack("a finaliser that exits", "failed", "class D:\n    def __del__(self): raise SystemExit(0)\n"
           "def f(n):\n    D()\n    return 0"),
    Attack("a finaliser that ends the process", "error", "import os\nclass D:\n    def __del__(self): os._exit(0)\n"
           "def f(n):\n    D()\n    return 0"),
    Attack("a finaliser at the end", "failed",
           WRONG + "import os, weakref\nclass D: pass\nd = D()\nweakref.finalize(d, os._exit, 0)"),
    Attack("kills the parent", "error", "import os\ndef f(n):\n    os.kill(os.getppid(), 9)\n    return 9"),
    Attack("kills its group", "error", "import os\ndef f(n):\n    os.killpg(0, 9)\n    return 9"),
    Attack("kills everyone", "error", "import os\ndef f(n):\n    os.kill(-1, 9)\n    return 9"),
    Attack("raises a signal", "error", "import signal\ndef f(n):\n    signal.raise_signal(9)\n    return 9"),
    Attack("hangs up", "error", "import socket\ndef f(n):\n    socket.socket(fileno=3).shutdown(2)\n    return 9"),
    Attack("hangs up after answering", "error",
           "import os, threading, time\ndef f(n):\n"
           "    threading.Thread(target=lambda: (time.sleep(0.05), os.close(3), os._exit(0))).start()\n"
           "    return n * n\n", ["assert f(3) == 9", "while True: f(4)"]),
    Attack("an exception whose text exits", "error",
           "class E(Exception):\n    def __str__(self): raise SystemExit(0)\ndef f(n):\n    raise E"),
    Attack("an exception that claims another class", "error",
           "class M(type):\n    @property\n    def __mro__(cls): return (StopIteration,)\n"
           "class E(Exception, metaclass=M): pass\ndef f(n):\n    raise E"),
    Attack("a group of exits", "error", "def f(n):\n    raise BaseExceptionGroup('x', [SystemExit(0)])"),
    Attack("StopIteration ends the test's own loop", "error", "def f(n):\n    raise StopIteration",
           ["assert all(map(lambda n: f(n) == n * n, [3, 5]))"]),
    Attack("a subclass of StopIteration does", "error", "class S(StopIteration): pass\ndef f(n):\n    raise S",
           ["assert list(map(f, [3, 5])) == []"]),
    Attack("a generator that ends at once", "failed", "def f(n):\n    return\n    yield"),
    Attack("exit by way of a property", "error",
           "class P:\n    @property\n    def value(self): raise SystemExit(0)\ndef f(n):\n    return P()",
           ["assert f(3).value == 9"]),
    Attack("exit while it is iterated", "error",
           "class P:\n    def __iter__(self): raise SystemExit(0)\ndef f(n):\n    return P()", SET_TESTS),
]  # fmt: skip

_PROPERTY = "class Equal:\n    def __eq__(self, other): return True\n    __hash__ = object.__hash__\n"
LYING_VALUES = [
    *(
        Attack(f"always equal {base}", "failed", f"import {module}\nclass Liar({module}.{base}):\n"
               "    def __eq__(self, other): return True\n    def __hash__(self): return 1\n"
               f"def f(n):\n    return Liar({value})")
        for module, base, value in (
            ("decimal", "Decimal", "1"), ("fractions", "Fraction", "1"), ("datetime", "timedelta", "1"),
            ("collections", "Counter", ""), ("collections", "OrderedDict", ""), ("collections", "deque", ""),
            ("collections", "UserList", "[1]"), ("collections", "UserDict", "{}"), ("array", "array", "'i', [1]"),
        )
    ),
    *(
        Attack(f"always equal {base}", "failed", lying(ALWAYS_EQUAL, base))
        for base in ("set", "frozenset", "bytes", "bytearray", "complex", "Exception")
    ),
    Attack("a property that is always equal", "failed",
           _PROPERTY + "class P:\n    value = property(lambda self: Equal())\ndef f(n):\n    return P()",
           ["assert f(3).value == 9"]),
    Attack("every attribute is always equal", "failed",
           _PROPERTY + "class P:\n    def __getattr__(self, name): return Equal()\ndef f(n):\n    return P()",
           ["assert f(3).value == 9"]),
    Attack("a descriptor that is always equal", "failed",
           _PROPERTY + "class D:\n    def __get__(self, *a): return Equal()\nclass P:\n    value = D()\n"
           "def f(n):\n    return P", ["assert f(3).value == 9"]),
    Attack("every item is always equal", "failed",
           _PROPERTY + "class P:\n    def __getitem__(self, key): return Equal()\ndef f(n):\n    return P()",
           ["assert f(3)[0] == 9"]),
    Attack("iteration gives what is always equal", "failed",
           _PROPERTY + "class P:\n    def __iter__(self): return iter([Equal()])\ndef f(n):\n    return P()",
           ["assert 9 in f(3)"]),
    Attack("contains everything", "error", lying("def __contains__(self, x): return True"), ["assert 9 in f(3)"]),
    Attack("what is missing is always equal", "error",
           _PROPERTY + "class P(dict):\n    def __missing__(self, key): return Equal()\ndef f(n):\n    return P()",
           ["assert f(3)['x'] == 9"]),
    Attack("a default that is always equal", "error",
           _PROPERTY + "import collections\ndef f(n):\n    return collections.defaultdict(Equal)",
           ["assert f(3)['x'] == 9"]),
    Attack("text of its own", "failed", lying("def __str__(self): return L('9')") + "class L(str):\n"
           "    def __eq__(self, other): return True\n    __hash__ = str.__hash__\n    def __new__(cls, x): return "
           "str.__new__(cls, 'no')\n", ["assert str(f(3)) == '9'"]),
    Attack("text that is no text", "error", lying("def __str__(self): return 9"), ["assert str(f(3)) == '9'"]),
    Attack("an int of its own", "failed", lying("def __int__(self): return L(8)") + "class L(int):\n"
           "    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n", ["assert int(f(3)) == 9"]),
    Attack("between everything", "failed", lying("def __lt__(self, x): return True\ndef __gt__(self, x): return True",
                                                 "int"), ["assert 8 < f(3) < 10"]),
    Attack("order of an object", "error", lying("def __lt__(self, x): return True\ndef __gt__(self, x): return True"),
           ["assert 8 < f(3) < 10"]),
    Attack("rounds to what is sought", "failed", lying("def __round__(self, *a): return 9", "float"),
           ["assert round(f(3)) == 9"]),
    Attack("index of its own", "error", lying("def __index__(self): return 0"), ["assert [9][f(3)] == 9"]),
    Attack("an instance of everything", "failed",
           "class M(type):\n    def __instancecheck__(cls, x): return True\nclass P(metaclass=M): pass\n"
           "def f(n):\n    return P()", ["assert isinstance(f(3), int)"]),
    Attack("an enumeration that lies", "failed",
           "import enum\nclass E(enum.IntEnum):\n    A = 1\n    def __eq__(self, other): return True\n"
           "    __hash__ = int.__hash__\ndef f(n):\n    return E.A"),
    Attack("a named tuple that lies", "failed",
           "import collections\nclass P(collections.namedtuple('P', 'x')):\n    def __eq__(self, other): return True\n"
           "    __hash__ = tuple.__hash__\ndef f(n):\n    return P(n)", ["assert f(3) == (9,)"]),
    Attack("a proxy for truth", "error", "import weakref\n" + lying("def __bool__(self): return True") +
           "keep = Liar()\ng = f\ndef f(n):\n    return weakref.proxy(keep)", TRUTH_TESTS),
    Attack("a class for truth", "error", "class M(type):\n    def __bool__(cls): return True\n"
           "class P(metaclass=M): pass\ndef f(n):\n    return P", TRUTH_TESTS),
    Attack("a function is true, but no more", "failed", "def f(n):\n    return f", TRUTH_TESTS),
    Attack("falsehood denied", "failed", WRONG.replace("0", "1"), ["assert not f(3)"]),
    Attack("a partial that is called for the test", "failed",
           "import functools\ndef f(n):\n    return functools.partial(int, 9)", ["assert f(3)() == 10"]),
    Attack("eval handed to the test", "failed",
           "class P:\n    decode = eval\n    def encode(self, x): return 'print(1)'\ndef f(n):\n    return P",
           ["assert f(3).decode(f(3)().encode(1)) == 1"]),
    Attack("setattr handed to the test", "error", "class P:\n    put = setattr\ndef f(n):\n    return P()",
           ["p = f(3)\np.put(p, '_is_true', True)\nassert p"]),
]  # fmt: skip
