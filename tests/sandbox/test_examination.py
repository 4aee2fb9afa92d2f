"""What is read off the tests' source: whether they can leave something behind, and whose each name is."""

import pytest
from sandbox.examination import compile_item
from sandbox.link import TestFault

ONLY_COMPUTE = [
    "assert f(3) == 9",
    "assert set(f((1, 2))) == set([1]) and not f(0)",
    "x = f(3)\nassert x.value[0] == sorted(x, key=lambda y: -y)",
    "assert all(f(n) == n for n in range(9)), 'text'",
    "assert f'{f(1):>3}'.strip() == '%s' % 2",
    "assert isinstance(f(1), int) and max(map(f, [1])) in {1: 2}",
    "t = T(1)\nassert t.decode(t.encode('x')) == 'x'",
]
LEAVE_TRACES = [
    "import math",
    "def g(): pass",
    "f.x = 3",
    "del f",
    "x = 0\nx += 1",
    "for x in f(1): pass",
    "try:\n    f(1)\nexcept Exception: pass",
    "assert f(1).__class__",
    "assert f(1)._private",
    "assert open",
    "assert getattr(f(1), 'x')",
    "exec('x')",
    "assert type(f(1))('x', (), {})",
    "assert __builtins__['exec']",
    "assert (x for x in f(1)).gi_frame.f_back",
    "assert f(1).f_globals",
    "assert f(1).co_code",
    "(lambda: (yield))().send(None)",
    "with f(1): pass",
    "assert '{0.gi_frame.f_back}'.format(x for x in f(1))",
    "assert list(map(str.format_map, f(1)))",
    "class C: pass",
    "global f",
    "assert math.isclose(f(1), 1)",
]


@pytest.mark.parametrize("test", ONLY_COMPUTE)
def test_what_only_computes_leaves_no_traces(test: str) -> None:
    assert not compile_item("", [test]).leaves_traces


@pytest.mark.parametrize("test", LEAVE_TRACES)
def test_what_may_do_more_is_taken_to_leave_traces(test: str) -> None:
    assert compile_item("", ["assert f(1) == 1", test]).leaves_traces
    assert compile_item("x = 1", ["assert f(1) == 1"]).leaves_traces, "any setup does"


def test_whose_each_name_is() -> None:
    found = compile_item(
        "import json\nROOT = Node(1)\ndef helper(a): return a",
        [
            "assert math.isclose(f(re), len(LIMIT)) and json and helper(string.x)",
            "string = 1",
            "Tree(1).go(lambda a: a)",
        ],
    )
    assert found.modules == {"math"}, "re is handed on, string is bound, so neither can only be the module"
    assert found.foreign == {"Node", "f", "re", "LIMIT", "string", "Tree", "a"}
    assert found.read == {"re", "LIMIT"}


@pytest.mark.parametrize("test", ["assert f(1) ==", "assert f(1) == '\0'", "assert " + "(" * 5000, "return 1"])
def test_what_does_not_compile_is_the_data_set_s_fault(test: str) -> None:
    with pytest.raises(TestFault, match="test 0 is no valid Python"):
        compile_item("", [test])
