"""Honest programs whose values or objects are not everyday ones. Adding one is adding a row."""

from tests.sandbox.case import DEPTH, NODE, SQUARE, STACK, Case, returning

VALUES = [
    Case(
        "Counter", returning("Counter('aab')", "from collections import Counter"), ["assert f(1) == {'a': 2, 'b': 1}"]
    ),
    Case(
        "defaultdict",
        "from collections import defaultdict\ndef f(n):\n    d = defaultdict(list)\n    d[n].append(n)\n    return d",
        ["assert f(1) == {1: [1]}", "assert f(2)['missing'] == []"],
    ),
    Case(
        "OrderedDict",
        returning("OrderedDict(a=1, b=2)", "from collections import OrderedDict"),
        ["assert list(f(1)) == ['a', 'b']"],
    ),
    Case(
        "deque",
        returning("deque([1, 2], 2)", "from collections import deque"),
        ["assert list(f(1)) == [1, 2]\nassert f(1).maxlen == 2"],
    ),
    Case(
        "namedtuple",
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(n):\n    return P(n, n)",
        ["assert f(1) == (1, 1)"],
    ),
    Case(
        "enum",
        "import enum\nclass Color(enum.Enum):\n    RED = 1\ndef f(n):\n    return Color.RED",
        ["assert f(1) == Color.RED\nassert f(1) is f(2)"],
    ),
    Case(
        "IntEnum",
        "import enum\nclass Color(enum.IntEnum):\n    RED = 1\ndef f(n):\n    return Color.RED",
        ["assert f(1) == 1"],
    ),
    Case("dict keys", returning("{1: 2, 3: 4}.keys()"), ["assert f(1) == {1, 3}"]),
    Case("dict items", returning("{1: 2}.items()"), ["assert f(1) == {(1, 2)}"]),
    Case("dict values", returning("{1: 2}.values()"), ["assert list(f(1)) == [2]"]),
    Case("mapping proxy", returning("types.MappingProxyType({1: 2})", "import types"), ["assert f(1) == {1: 2}"]),
    Case("UserList", returning("collections.UserList([1])", "import collections"), ["assert f(1) == [1]"]),
    Case(
        "ChainMap",
        returning("collections.ChainMap({1: 2}, {3: 4})", "import collections"),
        ["assert f(1) == {1: 2, 3: 4}"],
    ),
    Case("bytes", returning("bytes(range(256))"), ["assert f(1) == bytes(range(256))"]),
    Case("bytearray", returning("bytearray(b'ab')"), ["assert f(1) == b'ab'"]),
    Case("complex", returning("complex(n, -0.0)"), ["assert f(1) == 1"]),
    Case("range", returning("range(n)"), ["assert f(3) == range(3)", "assert list(f(3)) == [0, 1, 2]"]),
    Case("frozenset", returning("frozenset([frozenset([n])])"), ["assert f(1) == {frozenset({1})}"]),
    Case("array", returning("array.array('i', [1, 2])", "import array"), ["assert list(f(1)) == [1, 2]"]),
    Case("Decimal", returning("Decimal('0.1') + n", "from decimal import Decimal"), ["assert str(f(1)) == '1.1'"]),
    Case("Fraction", returning("Fraction(n, 3)", "from fractions import Fraction"), ["assert f(1) * 3 == 1"]),
    Case("datetime", returning("datetime(2020, 1, n)", "from datetime import datetime"), ["assert f(2).day == 2"]),
    Case("timedelta", returning("timedelta(days=n)", "from datetime import timedelta"), ["assert f(2).days == 2"]),
    Case("infinity", returning("[float('inf'), -float('inf')]"), ["assert f(1) == [float('inf'), -float('inf')]"]),
    Case("nan", returning("float('nan')"), ["assert f(1) != f(1)"]),
    Case("minus zero", returning("-0.0"), ["assert str(f(1)) == '-0.0'"]),
    Case("a large number", returning("10 ** 3000 + n"), ["assert f(1) == 10 ** 3000 + 1"]),
    Case("a larger number", returning("1 << 500_000"), ["assert f(1) == 1 << 500_000"]),
    Case("half a surrogate pair", returning("'\\ud800' + str(n)"), ["assert f(1) == '\\ud8001'"]),
    Case(
        "a generator",
        "def f(n):\n    for i in range(n): yield i",
        ["assert list(f(3)) == [0, 1, 2]", "assert sum(f(4)) == 6"],
    ),
    Case(
        "an endless generator",
        "def f(n):\n    while True:\n        yield n\n        n += 1",
        ["g = f(3)\nassert [next(g), next(g)] == [3, 4]", "assert [x for x, _ in zip(f(1), range(3))] == [1, 2, 3]"],
    ),
    Case(
        "map and filter", "def f(n):\n    return map(str, filter(None, range(n)))", ["assert list(f(3)) == ['1', '2']"]
    ),
    Case("a function", "def f(n):\n    return lambda x: x + n", ["assert f(1)(2) == 3", "assert callable(f(1))"]),
    Case(
        "deep nesting",
        "def f(n):\n    x = []\n    for _ in range(n): x = [x]\n    return x",
        ["x = []\nfor _ in range(500): x = [x]\nassert f(500) == x"],
    ),
    Case("a long list", returning("list(range(n))"), ["assert f(300_000) == list(range(300_000))"]),
    Case(
        "types as arguments",
        "def f(values, kind):\n    return sum(isinstance(v, kind) for v in values)",
        ["assert f([1, 'a', 'b'], str) == 2"],
    ),
    Case(
        "a builtin as argument",
        "def f(values, key):\n    return sorted(values, key=key)",
        ["assert f(['aa', 'b'], len) == ['b', 'aa']"],
    ),
    Case("keywords", "def f(a, *, b=1, **c):\n    return [a, b, c]", ["assert f(1, b=2, c=3) == [1, 2, {'c': 3}]"]),
    Case(
        "its own function as argument",
        "def g(x):\n    return x + 1\ndef f(function, x):\n    return function(x)",
        ["assert f(g, 1) == 2"],
    ),
]

# Truth that no program decides: that of types written in C which are never false.
TRUTHS = [
    Case(
        "a match",
        "import re\ndef f(x):\n    return re.search('a', x)",
        ["assert f('ab')", "assert not f('b')", "assert not f('b') and bool(f('a')) is True"],
    ),
    Case("an empty match", "import re\ndef f(x):\n    return re.match('', x)", ["assert f('')"]),
    Case("a function for truth", "def f(n):\n    return lambda: 0", ["assert f(1)"]),
    Case("an empty generator", "def f(n):\n    return (x for x in [])", ["assert f(1)"]),
    Case("an iterator at its end", returning("iter([])"), ["assert f(1)"]),
    Case("a class without more", returning("P", "class P: pass"), ["assert f(1)"]),
    Case("a partial", returning("functools.partial(max, n)", "import functools"), ["assert f(1) and f(2)(1)"]),
    Case("a lock", returning("threading.Lock()", "import threading"), ["assert f(1)"]),
    Case("an object()", returning("object()"), ["assert f(1)"]),
    Case("a match in a list", "import re\ndef f(x):\n    return [re.search('a', x)]", ["assert all(f('a'))"]),
    Case("no match", "import re\ndef f(x):\n    return re.search('a', x)", ["assert f('b')"], "failed"),
]

# Built-ins as values: those that only compute cross, the others stay behind a handle and work from there.
BUILT_INS = [
    Case("a type", returning("[int, type(None), ValueError]"), ["assert f(1) == [int, type(None), ValueError]"]),
    Case("a function that computes", returning("max"), ["assert f(1)([1, 3, 2]) == 3\nassert f(1) is max"]),
    Case("a function that does not", returning("eval"), ["assert f(1)('n', {'n': 7}) == 7"]),
    Case("getattr", returning("getattr"), ["assert f(1)(f, '__name__') == 'f'"]),
    Case("print as an argument", "def f(g):\n    return g('x')", ["assert f(print) is None"]),
    Case("eval as an argument", "def f(g):\n    return g('1 + 1')", ["assert f(eval) == 2"]),
    Case(
        "a method of a codec",
        "class C:\n    def encode(self, x):\n        return x[::-1]\n    decode = encode\ndef f(n):\n    return C()",
        ["t = f(1)\nassert t.decode(t.encode('abc')) == 'abc'"],
    ),
]

OBJECTS = [
    Case(
        "a tree built by the tests",
        DEPTH,
        ["root = Node(1)\nroot.left = Node(2)\nroot.left.right = Node(3)\nassert f(root) == 3"],
    ),
    Case("a tree built by setup", DEPTH, ["assert f(root) == 2"], setup="root = Node(1)\nroot.left = Node(2)"),
    Case(
        "objects in a list",
        NODE + "def f(nodes):\n    return [n.value for n in nodes]",
        ["assert f([Node(1), Node(2)]) == [1, 2]"],
    ),
    Case(
        "an object that comes back",
        NODE + "def f(node):\n    return node",
        ["n = Node(1)\nassert f(n) is n\nassert f(n) == n\nassert f(n) != Node(1)"],
    ),
    Case(
        "isinstance",
        NODE + "def f(x):\n    return Node(x)",
        ["assert isinstance(f(1), Node)", "assert not isinstance(1, Node)"],
    ),
    Case(
        "a class under test",
        STACK,
        ["s = f()\ns.push(1)\ns.push([2])\nassert len(s) == 2\nassert s.pop() == [2]\nassert s.items == [1]"],
    ),
    Case(
        "item access",
        "class f:\n"
        "    def __init__(self): self.d = {}\n"
        "    def __getitem__(self, k): return self.d[k]\n"
        "    def __setitem__(self, k, v): self.d[k] = v\n"
        "    def __delitem__(self, k): del self.d[k]",
        ["x = f()\nx['a'] = 1\nassert x['a'] == 1\ndel x['a']\nassert x.d == {}"],
    ),
    Case(
        "text and numbers of an object",
        "class f:\n"
        "    def __init__(self, n): self.n = n\n"
        "    def __str__(self): return 'n=' + str(self.n)\n"
        "    def __int__(self): return self.n\n"
        "    def __float__(self): return self.n / 2",
        ["assert str(f(3)) == 'n=3'\nassert int(f(3)) == 3\nassert float(f(3)) == 1.5"],
    ),
    Case(
        "membership is compared here",
        "class f:\n    def __init__(self, n): self.n = n\n    def __iter__(self): return iter([self.n])",
        ["assert 3 in f(3)\nassert 4 not in f(3)"],
    ),
    Case(
        "a module that setup imports",
        SQUARE,
        ["assert math.isclose(f(3), 9)\nassert sys.getsizeof(f(3)) > 0"],
        setup="import math\nimport sys",
    ),
    Case(
        "a module that only the program imports",
        "import math\ndef f(n):\n    return math.sqrt(n)",
        ["assert math.isclose(f(9), 3)\nassert math.floor(f(10)) == 3"],
    ),
    Case(
        "a global named like a module",
        "class queue:\n    items = []\nstring = 'ab'\ndef f(n):\n    return n",
        ["assert string == 'ab' and [string] == ['ab']\nassert queue.items == []"],
    ),
    Case("a test that imports", SQUARE, ["import math\nassert math.isclose(f(3), 9.0)"]),
    Case("names carried between tests", SQUARE, ["x = f(3)", "assert x == 9"]),
]
