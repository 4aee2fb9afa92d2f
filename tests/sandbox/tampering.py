"""Programs that tamper with what they find in their process, and programs whose source is the trick.

The task of all of them: f(n) is n squared. No program here computes that. Adding one is adding a row.
"""

from tests.sandbox.attack import SET_TESTS, WRONG, Attack

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
        "json replaced", "failed", WRONG + ("import json\njson.dumps = lambda *a, **k: '[\"ok\",9]'\njson.loads = None")
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
    Attack(
        "__build_class__ replaced",
        "error",
        "import builtins\nbuiltins.__build_class__ = lambda *a, **k: None\nclass P: pass\ndef f(n):\n    return P(n)",
    ),
    Attack(
        "__import__ replaced",
        "failed",
        "import builtins\nreal = builtins.__import__\nbuiltins.__import__ = lambda *a, **k: real('math')\n" + WRONG,
    ),
    Attack(
        "an import hook",
        "failed",
        "import sys\nclass Hook:\n    def find_spec(self, *a): raise SystemExit(0)\n"
        "sys.meta_path.insert(0, Hook())\nsys.modules.clear()\n" + WRONG,
    ),
    Attack(
        "a false module of the judge's name",
        "failed",
        "import sys, types\nsys.modules['sandbox.examiner'] = m = types.ModuleType('sandbox.examiner')\n"
        "m.run_block = lambda *a, **k: ('passed', '')\n" + WRONG,
    ),
    Attack("profile function", "failed", "import sys\nsys.setprofile(lambda *a: None)\n" + WRONG),
    Attack(
        "a trace that jumps",
        "failed",
        "import sys\ndef t(frame, *a):\n    frame.f_trace_lines = False\n    return t\nsys.settrace(t)\n" + WRONG,
    ),
    Attack(
        "locals of the frames above changed",
        "failed",
        "import sys, ctypes\ndef f(n):\n    frame = sys._getframe(1)\n    while frame:\n"
        "        if 'tokens' in frame.f_locals: frame.f_locals['tokens'] = 9\n"
        "        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), 0)\n        frame = frame.f_back\n",
        ["assert f(3) == 9", "assert f(5) == 25"],
    ),
    Attack(
        "the code of the caller replaced",
        "failed",
        "import sys\nprogram = sys.modules['sandbox.program']\ndef answer(self, request):\n    return ['ok', 9]\n"
        "program.Program.answer.__code__ = answer.__code__\n" + WRONG,
    ),
    Attack(
        "frames that are always nine",
        "failed",
        "import sys, struct\nwire = sys.modules['sandbox.wire']\n"
        "wire.frame = lambda *a, **k: struct.pack('>I', 8) + b'[\"ok\",9]'\n" + WRONG,
    ),
    Attack(
        "every channel says passed",
        "error",
        "import os\nreal = os.write\nos.write = lambda channel, data: real(channel, b'\\0\\0\\0\\x08\"passed\"')\n"
        + WRONG,
    ),
    Attack(
        "all calls are late",
        "failed",
        "import sys\nsys.modules['sandbox.program'].Program.call_ahead = lambda self, call: ['late']\n" + WRONG,
    ),
    Attack(
        "small integers rewritten",
        "failed",
        "import ctypes\nctypes.c_int.from_address(id(0) + 24).value = 9\n" + WRONG,
        ["assert f(5) == 25"],
    ),
    Attack(
        "True rewritten",
        "failed",
        "import ctypes\nctypes.c_int.from_address(id(False) + 24).value = 1\ndef f(n):\n    return False",
        ["assert f(3) == True", "assert f(3) == 2"],
    ),
    Attack(
        "gc's referrers searched for tests",
        "failed",
        "import gc, sys\ndef f(n):\n    link = sys.modules['sandbox.wire'].Reader\n"
        "    return any('== 9' in repr(r) for r in gc.get_referrers(link))",
    ),
    Attack(
        "memory scanned for tests",
        "failed",
        "import gc\ndef f(n):\n    gc.unfreeze()\n    return sum('== 144' in v for o in gc.get_objects() if type(o) in "
        "(list, tuple) for v in o if type(v) is str)",
    ),
    Attack("its own memory by /proc", "error", "def f(n):\n    return open('/proc/self/mem', 'rb').read(1)"),
    Attack("its command line by /proc", "error", "def f(n):\n    return open('/proc/self/cmdline').read()"),
    Attack(
        "the parent's descriptors", "error", "import os\ndef f(n):\n    return os.open(f'/proc/{os.getppid()}/fd/3', 2)"
    ),
    Attack(
        "argv searched for tests", "failed", "import sys\ndef f(n):\n    return [a for a in sys.argv if 'f(3)' in a]"
    ),
    Attack(
        "original argv searched for tests",
        "failed",
        "import sys\ndef f(n):\n    return [a for a in sys.orig_argv if 'assert' in a] or 0",
    ),
    Attack("environment searched for tests", "failed", "import os\ndef f(n):\n    return os.environ.get('TESTS', 0)"),
    Attack(
        "environment set for the judge",
        "failed",
        "import os\nos.environ['PYTHONOPTIMIZE'] = '2'\nos.putenv('PYTHONSTARTUP', 'x.py')\n" + WRONG,
    ),
    Attack("every descriptor read", "error", "import os\ndef f(n):\n    return [os.read(d, 99) for d in range(4, 64)]"),
    Attack("debug switched off", "syntax", "__debug__ = False\n" + WRONG),
    Attack("optimisation claimed", "error", WRONG + "import sys\nsys.flags.optimize = 2"),
    Attack(
        "display and warnings hooks",
        "failed",
        "import sys, warnings\nsys.displayhook = print\nwarnings.showwarning = print\nwarnings.warn('x')\n" + WRONG,
        ["assert f(3) == 9"],
    ),
    Attack(
        "codecs that lie",
        "failed",
        "import codecs\ncodecs.register(lambda name: codecs.lookup('rot13'))\n"
        "codecs.register_error('strict', lambda e: ('9', e.end))\n" + WRONG,
    ),
    Attack(
        "audit hook that leaves",
        "error",
        "import sys, os\ndef f(n):\n    sys.addaudithook(lambda *a: os._exit(0))\n    return open('x', 'w')",
    ),
    Attack("recursion limit of the judge", "error", "import sys\nsys.setrecursionlimit(1)\n" + WRONG),
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
    Attack("byte order mark", "syntax", "\ufeff" + WRONG),
    Attack("end of file in the middle", "syntax", WRONG + "\x1a\nimport os; os._exit(0)"),
    Attack("utf-7 cookie", "failed", "# coding: utf-7\n" + WRONG + "# +AAo-assert False"),
    Attack("unknown cookie", "failed", "# coding: nothing-like-that\n" + WRONG),
    Attack("mixed tabs and spaces", "syntax", "def f(n):\n\tx = 0\n        return 9"),
    Attack("a name that looks like the entry point", "error", "def \u0493(n):\n    return n * n"),
    Attack("a name that normalises to the entry point", "failed", "def \uff46(n):\n    return 0"),
    Attack("entry point deleted", "error", WRONG + "del f"),
    Attack("entry point is a property", "error", "f = property(lambda self: 9)"),
    Attack(
        "entry point is a class",
        "failed",
        "class f(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__",
    ),
    Attack(
        "entry point answers every call",
        "failed",
        "class F:\n    def __call__(self, *a): return self\n"
        "    def __eq__(self, other): return True\n    __hash__ = object.__hash__\nf = F()",
    ),
    Attack("module with __getattr__", "error", "def __getattr__(name):\n    return lambda n: n * n"),
    Attack(
        "module replaced by an object",
        "error",
        "import sys\nclass M:\n    def f(self, n): return 0\nsys.modules[__name__] = M()",
    ),
    Attack(
        "math of its own",
        "failed",
        WRONG + "class math:\n    isclose = staticmethod(lambda *a, **k: True)",
        ["assert math.isclose(f(3), 9.0)", "assert math.isclose(f(5), 25.0)"],
    ),
    Attack(
        "collections of its own",
        "failed",
        WRONG + "class collections:\n    Counter = staticmethod(lambda x: 0)",
        ["assert collections.Counter([f(3)]) == collections.Counter([9])"],
    ),
    Attack("tests in a string left open", "syntax", 'def f(n):\n    return 0\ntests = """\n'),
    Attack("an assertion of its own named like one of the tests", "failed", WRONG + "assert f(3) == 0\n"),
    Attack("__main__ claimed", "failed", WRONG + "__name__ = '__main__'\nprint('passed')"),
    Attack(
        "__builtins__ replaced",
        "error",
        "__builtins__ = {'__build_class__': None}\ndef f(n):\n    return len",
    ),
    Attack("exec of more source", "failed", "exec('def f(n): return 0')"),
]
