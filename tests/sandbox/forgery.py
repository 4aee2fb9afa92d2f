"""A grammar of forgeries: from a seed, a program that is wrong by construction and tries to pass all the same.

Every task has a test whose answer occurs in nothing that a program here can say, so only a forgery could pass; what
varies is everything else: what is returned, in which disguise, what is tampered with before and after, and what is
written straight to the channel. Some seeds give a right program in odd company instead: those must pass.
"""

import random
from typing import NamedTuple

RIGHT_SHARE = 0.1
MOVE_SHARE = 0.25  # of each place for a move: most programs should come as far as a comparison


class Task(NamedTuple):
    """Tests, what a right f(n) returns, and what setup they need."""

    tests: list[str]
    right: str
    setup: str = ""


class Forgery(NamedTuple):
    """A generated program, the task whose tests it meets, and whether it is right."""

    program: str
    task: Task
    is_right: bool


_HOLDER = "type('P', (), {'value': n * n})()"
_PAIR = "type('C', (), {'once': lambda self, x: x * 2, 'twice': lambda self, x: x * 2})()"
TASKS = [
    Task(["assert f(3) == 9", "assert f(5) == 25"], "n * n"),
    Task(["assert 9 == f(3)", "assert not f(5) != 25"], "n * n"),
    Task(["assert abs(f(3) - 9) < 1e-6", "assert abs(f(5) - 25) < 1e-6"], "n * n + 1e-9"),
    Task(["assert math.isclose(f(3), 9.0)", "assert math.isclose(f(5), 25.0)"], "float(n * n)", "import math"),
    Task(["assert math.isclose(f(3), 9.0)", "assert math.isclose(f(5), 25.0)"], "float(n * n)"),
    Task(["assert set(f(3)) == {1, 2, 9}", "assert set(f(5)) == {1, 2, 25}"], "[1, 2, n * n, 2]"),
    Task(["assert f(3)", "assert f(5) == 25"], "n * n"),
    Task(["assert not f(3)", "assert f(4) == 16"], "0 if n % 2 else n * n"),
    Task(["assert str(f(3)) == '9'", "assert f'{f(5)}' == '25'"], "n * n"),
    Task(["assert len(f(3)) == 3", "assert f(2) == [2, 2]"], "[n] * n"),
    Task(["assert all(f(n) == n * n for n in range(3, 6))"], "n * n"),
    Task(["assert all(map(lambda n: f(n) == n * n, [3, 5]))"], "n * n"),
    Task(["assert not any(map(lambda n: f(n) != n * n, [3, 5]))"], "n * n"),
    Task(["assert f(3) in {9, 10}", "assert f(5) in [25, 26]"], "n * n"),
    Task(["assert 25 in f(5)", "assert 9 in f(3)"], "iter([n * n])"),
    Task(["assert 8 < f(3) < 10", "assert 24 < f(5) < 26"], "n * n"),
    Task(["assert f(3).value == 9", "assert f(5).value == 25"], _HOLDER),
    Task(["t = f(1)\nassert t.twice(t.once(2)) == 8", "assert f(2).once(4) == 8"], _PAIR),
    Task(["assert sorted(map(f, [3, 5])) == [9, 25]", "assert max(f(3), f(5)) == 25"], "n * n"),
    Task(["assert isinstance(f(3), int) and f(3) == 9", "assert type(f(5)) is int and f(5) == 25"], "n * n"),
    Task(["def check(c):\n    assert c(3) == 9\n    assert c(5) == 25\ncheck(f)"], "n * n"),
    Task(["try:\n    x = f(5)\nexcept Exception:\n    x = None\nassert x == 25"], "n * n"),
    Task(["x = [f(n) for n in (3, 5)]\nassert x == [9, 25]", "assert dict([x]) == {9: 25}"], "n * n"),
]  # fmt: skip

WRONG_VALUES = [
    *("0", "7", "-1", "None", "''", "'passed'", "[]", "[7]", "{}", "True", "False", "float('nan')", "object()", "n"),
    *(
        "9",
        "9 if n != 3 else 7",
        "f",
        "lambda *a: True",
        "NotImplemented",
        "...",
        "print",
        "eval",
        "type",
        "int",
        "max",
    ),
    *("AssertionError", "SystemExit(0)", "range(10**15)", "b'ok'", "1j", "frozenset()", "slice(1)", "globals()"),
    *("(x for x in [7])", "iter([7, 7])", "map(int, '77')", "__import__('sys')", "memoryview(b'7')", "10 ** 5000"),
    *("__import__('functools').partial(int, 7)", "__import__('unittest.mock').mock.ANY", "type('T', (), {})()"),
    *("__import__('unittest.mock').mock.MagicMock()", "__import__('collections').UserList([7])", "'\\ud800'"),
    *("__import__('decimal').Decimal('7')", "__import__('types').MappingProxyType({7: 7})", "exit", "setattr"),
]
BASES = ["", "", "int", "str", "float", "list", "dict", "tuple", "set", "bytes", "complex", "Exception", "type"]
METHODS = [
    *("__eq__", "__ne__", "__lt__", "__gt__", "__le__", "__ge__", "__hash__", "__bool__", "__len__", "__iter__"),
    *("__next__", "__contains__", "__getitem__", "__getattr__", "__getattribute__", "__call__", "__sub__", "__rsub__"),
    *("__abs__", "__int__", "__float__", "__index__", "__str__", "__repr__", "__format__", "__round__", "__add__"),
    *("__instancecheck__", "__class__", "__reduce__", "__del__", "__set_name__", "__mro__", "once", "twice", "value"),
]
ANSWERS = [
    *("True", "False", "9", "1", "7", "self", "0.0", "'9'", "NotImplemented", "a[0] if a else self", "iter([self])"),
    *("iter([9])", "Liar", "object.__new__(Liar)", "a", "int", "hash(9)", "exec", "eval", "exit(0)"),
]
WRAPPERS = ["{}", "{}", "{}", "Liar({})", "Liar()", "Liar()", "Liar", "[Liar()]", "{{9: Liar()}}", "(Liar(), Liar())",
            "iter([Liar()])", "(Liar() for _ in [1])", "[{}]", "lambda *a: Liar()", "memoryview(b'9')"]  # fmt: skip

TAMPERING = [
    "import builtins\nbuiltins.{builtin} = lambda *a, **k: {answer_value}",
    "import builtins\nbuiltins.AssertionError = builtins.ZeroDivisionError",
    "import builtins\nbuiltins.__build_class__ = None",
    "import sys\nsys.settrace(lambda *a: None)",
    "import sys\nsys.setprofile(lambda *a: None)",
    "import sys\nsys.modules.clear()",
    "import sys\nsys.setrecursionlimit(10 ** 6)",
    "import sys\nsys.modules['sandbox.wire'].encode = lambda v, t, r: t.append({token!r})",
    "import sys\nsys.modules['sandbox.wire'].decode = lambda *a: [{value}]",
    "import sys\nsys.modules['sandbox.program'].OPERATIONS['{operation}'] = lambda *a: {value}",
    "import sys\nsys.modules['sandbox.program'].is_always_true = lambda kind: True",
    "import sys\nsys.modules['sandbox.program'].Program.answer = lambda *a: {reply!r}",
    "import sys\nsys.modules['sandbox.program'].raised = lambda error: {reply!r}",
    "import json\njson.dumps = lambda *a, **k: '{text}'",
    "import json.encoder\njson.encoder.encode_basestring_ascii = lambda s: '\"h0 ot P\"'",
    "import struct\nstruct.Struct = None",
    "import socket\nsocket.socket.sendall = lambda self, data: None",
    "import ctypes\nctypes.c_int.from_address(id({small}) + 24).value = 9",
    "import gc\ngc.unfreeze()\ngc.disable()",
    "import atexit, os\natexit.register(os._exit, 0)",
    "import threading, os\nthreading.Thread(target=lambda: os._exit(0)).start()",
    "import threading\nthreading.Thread(target=lambda: reply({reply!r})).start()",
    "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.01)",
    "import os\nos.environ['PYTHONOPTIMIZE'] = '2'",
    "import codecs\ncodecs.register_error('strict', lambda e: ('9', e.end))",
    "import sys\nsys.excepthook = sys.unraisablehook = lambda *a: exit(0)",
    "import sys\nsys.addaudithook(lambda *a: None)",
    "class math:\n    isclose = staticmethod(lambda *a, **k: True)",
    "set = len = abs = all = any = sorted = max = str = isinstance = lambda *a, **k: {answer_value}",
    "def check(*a): pass",
    "t = x = f = n = {value}",
    "reply({reply!r})",
    "reply({reply!r}); reply({reply2!r})",
    "reply(['ok', None]); reply({reply!r}); reply({reply2!r})",
]
ENDINGS = [
    *("exit()", "raise SystemExit(0)", "import os\nos._exit(0)", "raise KeyboardInterrupt"),
    *(
        "import os\nos.close({channel})",
        "import os\nos.dup2(0, {channel})",
        "import os\nos.dup2(3, 4)",
        "import os\nos.write({channel}, {raw!r})",
        "reply({reply!r})",
    ),
    *("'''", "@staticmethod", "if True:", "x = (", "del f", "f = {value}", "f.__code__ = (lambda n: {value}).__code__"),
    *("import sys\nsys.modules[__name__] = Liar()", "raise StopIteration", "assert False", "import os\nos.abort()"),
    *("import os\nos.read(3, 1 << 16)", "__name__ = '__main__'", "import time\ntime.sleep(0.01)", "\\"),
]
IN_THE_CALL = [
    *("raise StopIteration", "raise StopIteration({value})", "raise AssertionError", "exit(0)"),
    *("import os\n    os._exit(0)", "raise GeneratorExit", "yield {value}", "reply({reply!r})", "raise SystemExit(0)"),
    *(
        "reply({reply!r}); reply({reply2!r})",
        "import os\n    os.write({channel}, {raw!r})",
        "raise type('E', (Exception,), {{}})",
    ),
    *("import sys\n    sys._getframe(1).f_locals.clear()", "raise MemoryError", "raise RecursionError", "del n"),
    (
        "import sys\n    frame = sys._getframe()\n    while frame:\n        for v in frame.f_locals.values():\n"
        "            if v == n * n: return v\n        frame = frame.f_back"
    ),
]
TOKENS = [None, True, False, 0, 7, -1, 9, 7.5, "s", "spassed", "s9", "h0 ot P", "h0 ct P", "h1 c? P", "h9 o? P", "i7",
          "@len", "@exec", "@None", "@__import__", "nf", "L0", "T0", "D0", "S0", "?", "", "b", "R0"]  # fmt: skip
REPLIES = [
    ["ok"], ["raise", "StopIteration", "x", ""], ["raise", "AssertionError", "AssertionError", ""], ["ok", "L2", 9, 9],
    ["raise", "SystemExit", "SystemExit", "0"], ["raise", "eval", "x", "y"], ["raise"], ["syntax", "x"], ["passed"], 9,
    {"index": 0, "outcome": "passed", "detail": ""}, ["end", "fresh"], ["ok", "L1", "L1", "h1 ot P"], ["ok", [9]],
    ["ok", "R3", 0, 10**15, 1], ["ok", "L3", 9, 1, 2], ["ok", "D2", "svalue", 9], ["ok", "U1", "@int"], ["ok", 9, 9],
]  # fmt: skip
CHANNELS = [3, 4]  # the socket, and the pipe for replies that nobody waits for
RAW = [b"\xff" * 4, b"\0\0\0\x08[\"ok\",9]",
       b"\0\0\0\x50x", b"passed\n", b"\0" * 4, b"\0\0\0\x02[]", b"[" * 9]  # fmt: skip
COMPANY = [  # what a right program may do without becoming wrong
    *("print('passed' * 1000)", "import gc\ngc.disable()", "import sys\nsys.setrecursionlimit(5000)", "x = t = None"),
    *("import warnings\nwarnings.warn('x')", "import atexit\natexit.register(print, 1)", "import sys\nsys.argv = [1]"),
    *("import threading\nthreading.Thread(target=print).start()", "import sys\nsys.settrace(lambda *a: None)"),
    *("import signal\nsignal.signal(15, signal.SIG_IGN)", "open('note', 'w').close()", "import os\nos.umask(0)"),
    *("list = dict = len = sorted = abs = None", "class math: isclose = None", "def check(*a): return False"),
    *("import sys\nsys.stdout.write('x')", "import random\nrandom.seed(1)", "if __name__ == '__main__':\n    exit()"),
]
_REPLY = (
    "import json as _json, os as _os, struct as _struct\ndef reply(message, dumps=_json.dumps, pack=_struct.pack, "
    "write=_os.write):\n    body = dumps(message).encode()\n    write(CHANNEL, pack('>I', len(body)) + body)\n"
)


def generate(seed: int) -> Forgery:
    """The forgery, or right program, of a seed."""
    choose = random.Random(seed)
    task = choose.choice(TASKS)
    if choose.random() < RIGHT_SHARE:
        company = "".join(part + "\n" for part in choose.sample(COMPANY, choose.randrange(3)))
        return Forgery(f"{company}def f(n):\n    return {task.right}\n", task, True)
    parts = [_REPLY.replace("CHANNEL", str(choose.choice(CHANNELS))), _liar(choose)]
    parts += [_filled(part, choose) for part in choose.sample(TAMPERING, choose.choice((0, 0, 0, 1, 1, 2, 3)))]
    value = choose.choice(WRAPPERS).format(choose.choice(WRONG_VALUES))
    parts.append(f"def f(n):\n    {_perhaps(IN_THE_CALL, choose)}\n    return {value}")
    parts.append(_perhaps(ENDINGS, choose))
    return Forgery("\n".join(parts), task, False)


def _perhaps(moves: list[str], choose: random.Random) -> str:
    return _filled(choose.choice(moves), choose) if choose.random() < MOVE_SHARE else ""


def _liar(choose: random.Random) -> str:
    methods = choose.sample(METHODS, choose.randrange(1, 6))
    lines = [f"    def {name}(self, *a, **k): return {choose.choice(ANSWERS)}" for name in methods]
    if choose.random() < 0.2:
        lines.append(f"    {choose.choice(METHODS)} = property(lambda self: {choose.choice(ANSWERS[:9])})")
    return "\n".join([f"class Liar({choose.choice(BASES)}):", *lines])


def _filled(part: str, choose: random.Random) -> str:
    def reply() -> object:
        return choose.choice(REPLIES) if choose.random() < 0.4 else ["ok", choose.choice(TOKENS)]

    return part.format(
        builtin=choose.choice(["len", "abs", "isinstance", "str", "int", "getattr", "callable", "type", "id", "iter"]),
        answer_value=choose.choice(["True", "9", "0", "{1, 2, 9}", "a[0]"]),
        operation=choose.choice(["call", "getattr", "iter", "next", "len", "str", "isinstance"]),
        value=choose.choice(WRONG_VALUES),
        token=choose.choice(TOKENS),
        reply=reply(),
        reply2=reply(),
        text=choose.choice(['["ok",9]', '["ok",true]', '["ok","h0 ot P"]', '"passed"']),
        small=choose.choice([0, 1, 7]),
        raw=choose.choice(RAW),
        channel=choose.choice(CHANNELS),
    )
