"""Calls that are sent before their turn: the verdict is that of plain execution all the same."""

import ast
import os
import time
from pathlib import Path

import pytest
from sandbox import examination
from sandbox.foresight import foresee

from tests.sandbox.conftest import Judge

COUNTING = "calls = []\ndef f(n):\n    calls.append(n)\n    return len(calls)\n"
LAZY = "calls = []\ndef f(n):\n    calls.append(n)\n    def later():\n        yield len(calls)\n    return later()\n"


def foreseeable(*tests: str) -> int:
    return examination.compile_item("", list(tests)).foreseeable


@pytest.mark.parametrize(
    ("tests", "count"),
    [
        (["assert f(1) == 2", "assert 3 == f(2, [1, 2])", "assert not f(x=1)"], 3),
        (["assert set(f([1, 2])) == set([1])", "assert abs(f(2) - 1) < 1e-6", "assert -1 < f(3) < 9"], 3),
        (["assert f(1) == 2", "assert f(1) == f(2)", "assert f(3) == 4"], 1),
        (["assert f(f(1)) == 2"], 0),
        (["assert all(f(n) for n in [1, 2])"], 0),
        (["assert all(map(f, [1, 2]))"], 0),
        (["assert f(1) or f(2)", "assert f(1)"], 0),
        (["assert (f(1) if True else 2) == 2"], 0),
        (["value = f(1)", "assert value == 2"], 0),
        (["assert (lambda: f(1))() == 2"], 0),
        (["assert f(1) == 2", "print(f(2))"], 0),
        (["assert f.value == 2"], 1),  # which the attempt to foresee then ends at, without a call
        (["assert 1 == 1", "assert f(1)"], 0),
        (["assert f(g(1)) == 1"], 0),
    ],
)
def test_what_can_be_foreseen(tests: list[str], count: int) -> None:
    assert foreseeable(*tests) == count


@pytest.mark.parametrize(
    ("program", "tests"),
    [
        (COUNTING, ["assert f(5) == 1", "assert f(5) == 2", "assert [f(5), f(5)] == [3, 4]", "assert f(5) == 5"]),
        (LAZY, ["assert list(f(1)) == [1]", "assert list(f(1)) == [2]", "assert list(f(1)) == [3]"]),
        (
            "def f(n):\n    return lambda m: n + m",
            ["assert f(1)(2) == 3", "assert f(2)(3) == 5", "assert f(3)(4) == 7"],
        ),
        ("def f(n):\n    return n * 100_000", [f"assert f({c!r}) == {c!r} * 100_000" for c in "xyz"]),
        ("def f(v):\n    v.append(1)\n    return v", ["assert f([0]) == [0, 1]", "assert f([0]) == [0, 1]"]),
        (
            "def f(*values):\n    return [type(value).__name__ for value in values]",
            [
                "assert f((1,), {2: [3.5]}, 'x', None, True) == ['tuple', 'dict', 'str', 'NoneType', 'bool']",
                "assert f({1}, bytearray(b'x'), b'x', range(3)) == ['set', 'bytearray', 'bytes', 'range']",
                "assert f(len, int, 1j, 1 << 99) == ['builtin_function_or_method', 'type', 'complex', 'int']",
            ],
        ),
        ("def f(a, b):\n    a.append(1)\n    return b", ["assert f(*[[0]] * 2) == [0]"] * 2),  # two, where it was one
        (
            "def f(n):\n    return n\ndef g(n):\n    return -n",
            ["assert f(1) == 1", "assert g(2) == -2", "assert f(3) == 3"],
        ),
        ("def f(n=0, self=9):\n    return n, self", ["assert f(self=2) == (0, 2)", "assert f(3) == (3, 9)"]),
        ("def f(*a, **k):\n    return a, k", ["assert f(1, x=[2]) == ((1,), {'x': [2]})", "assert f() == ((), {})"]),
    ],
)
def test_calls_keep_their_order_and_their_answers(judge: Judge, program: str, tests: list[str]) -> None:
    verdict = judge(program, tests)
    assert verdict["outcome"] == "passed", verdict


def test_what_marshal_would_change_travels_as_tokens() -> None:
    tests = ["assert f((1, 'x'), {2: [None]}, k=-0.5)", "assert f({1, 2})", "assert f(bytearray())", "assert f([len])"]
    first, *others = foresee(examination.compile_item("", tests)).orders
    assert first == ("f", [(1, "x"), {2: [None]}], {"k": -0.5})
    assert [type(order) for order in others] == [list] * 3


def test_no_more_is_sent_ahead_than_there_is_room_for() -> None:
    tests = [f"assert f({letter!r} * 20_000)" for letter in "xyz"]
    assert len(foresee(examination.compile_item("", tests)).requests) == 1


def test_a_wrong_answer_is_seen_though_the_next_call_loops(judge: Judge) -> None:
    started = time.monotonic()
    verdict = judge(
        "def f(n):\n    while n > 1: pass\n    return 0", ["assert f(1) == 1", "assert f(2) == 2"], timeout_s=5
    )
    assert [test["outcome"] for test in verdict["tests"]] == ["failed", "not_run"]
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    ("second", "outcome"),
    [("exit()", "error"), ("os._exit(0)", "error"), ("1 / 0", "error"), ("time.sleep(9)", "timeout")],
)
def test_what_befalls_a_later_call_is_its_own_test_s(judge: Judge, second: str, outcome: str) -> None:
    program = f"import os, time\ndef f(n):\n    if n == 2: {second}\n    return n"
    verdict = judge(program, ["assert f(1) == 1", "assert f(2) == 2", "assert f(3) == 3"], timeout_s=0.5)
    assert [test["outcome"] for test in verdict["tests"]] == ["passed", outcome, "not_run"]


def test_a_test_that_cannot_come_to_its_call_is_the_data_set_s_fault(judge: Judge) -> None:
    verdict = judge("def f(n):\n    return n", ["assert f(sum(range(10 ** 12))) == 1"], timeout_s=0.3)
    assert (verdict["outcome"], verdict["passed"]) == ("infra", None)


def test_nodes_are_those_of_ast_walk() -> None:
    for name in ("ast", "dataclasses", "typing", "asyncio/base_events"):
        tree = ast.parse(Path(os.path.dirname(os.__file__), f"{name}.py").read_text())
        expected = [node for node in ast.walk(tree) if type(node) not in examination.UNTELLING]
        assert set(examination._nodes_of(tree)) == set(expected)
