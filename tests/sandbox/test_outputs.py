"""What programs return, written down: the contract of /v1/outputs, and that nobody comes to harm through it."""

import ast
from collections.abc import Callable
from typing import Any

import pytest
from sandbox.calls import MAX_LITERALS

from components.shared.sandbox import CallsItem, SandboxClient
from tests.sandbox import running
from tests.sandbox.attacks import ATTACKS
from tests.sandbox.conftest import make_item, post

COUNTING = "count = 0\ndef f(x):\n    global count\n    count += 1\n    return x, count\n"
VALUES = [
    *("1", "-1.5", "'it\\'s'", "b'\\xff'", "None", "True", "(1+2j)", "[]", "()", "{}", "set()", "'\\ud800'", "'ä'"),
    *("[1, (2, {3: {4}}), 'x']", "{(1, 2): [None, False]}", "{'a', 'b'}", "10**4000", "1e300"),
]
Ask = Callable[..., dict[str, Any]]


def calls_item(program: str, calls: list[str], **changes: Any) -> dict[str, Any]:
    item = make_item(program, [], calls=calls, **changes)
    del item["tests"]
    return item


def ask_all(url: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    status, answer, _ = post(url, {"items": items}, path="/v1/outputs")
    assert status == 200, answer
    outputs: list[dict[str, Any]] = answer["outputs"]
    return outputs


@pytest.fixture
def ask(sandbox_url: str) -> Ask:
    """The outputs of one program at the session's sandbox."""
    return lambda program, calls, **changes: ask_all(sandbox_url, [calls_item(program, calls, **changes)])[0]


def came_of(outputs: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(call["outcome"], call["value"]) for call in outputs["calls"]]


def test_values_come_as_literals_in_order_from_one_process(ask: Ask) -> None:
    outputs = ask(COUNTING, ["f('a')", "f([1, 2])", "f(f(3)[0])"], id="a b/ü")
    assert came_of(outputs) == [("returned", "('a', 1)"), ("returned", "([1, 2], 2)"), ("returned", "(3, 4)")]
    assert (outputs["id"], outputs["outcome"], outputs["detail"]) == ("a b/ü", "passed", "")
    assert set(outputs) == {"id", "outcome", "calls", "detail", "cpu_ms", "wall_ms"}
    assert [call["index"] for call in outputs["calls"]] == [0, 1, 2]
    assert outputs["cpu_ms"] > 0


def test_every_kind_of_plain_value_is_read_back_as_it_was(ask: Ask) -> None:
    outputs = ask("def f(x):\n    return x", [f"f({value})" for value in VALUES])
    for value, call in zip(VALUES, outputs["calls"], strict=True):
        assert call["outcome"] == "returned", call
        expected = eval(value)
        got = ast.literal_eval(call["value"])
        assert (got, type(got)) == (expected, type(expected))


def test_what_is_a_dict_but_for_its_type_comes_as_one(ask: Ask) -> None:
    program = (
        "from collections import Counter, OrderedDict, defaultdict\n"
        "def f(x):\n    return [Counter(x), OrderedDict(a=1), defaultdict(int, b=2)]"
    )
    assert came_of(ask(program, ["f('aab')"])) == [("returned", "[{'a': 2, 'b': 1}, {'a': 1}, {'b': 2}]")]


@pytest.mark.parametrize(
    ("body", "outcome", "said"),
    [
        ("raise ValueError('no')", "raised", "ValueError: no"),
        ("raise ValueError('\\ud800')", "raised", "ValueError: \\ud800"),
        ("exit()", "raised", "SystemExit"),
        ("return object()", "opaque", "Handle"),
        ("return (i for i in [x])", "opaque", "Handle"),
        ("return [float('nan')]", "opaque", "nan"),
        ("return float('inf')", "opaque", "inf"),
        ("return 'x' * 20000", "opaque", "above the limit"),
        ("return 10 ** 6000", "opaque", "limit"),
        ("x = []\n    for _ in range(500): x = [x]\n    return x", "opaque", "levels deep"),
        ("return [0] * 2_000_000", "raised", "it returned"),
        ("return bytearray(9) and frozenset({1})", "opaque", "frozenset"),
        ("return [0] * 10 ** 12", "raised", "memory"),
    ],
)
def test_a_call_without_a_value_says_why_and_the_next_goes_on(ask: Ask, body: str, outcome: str, said: str) -> None:
    outputs = ask(f"def f(x):\n    if x: return x\n    {body}", ["f(0)", "f(5)"])
    assert came_of(outputs) == [(outcome, None), ("returned", "5")]
    assert said in outputs["calls"][0]["detail"]
    assert outputs["outcome"] == "passed"


@pytest.mark.parametrize(
    ("program", "calls", "outcome", "at"),
    [
        ("def f(x):\n    while x: pass\n    return 1", ["f(0)", "f(1)", "f(0)"], "timeout", 1),
        ("import os\ndef f(x):\n    return os._exit(0) if x else 1", ["f(0)", "f(1)", "f(0)"], "error", 1),
        ("def f(x:", ["f(0)", "f(1)"], "syntax", 0),
        ("f = 1 / 0", ["f(0)"], "error", 0),
        ("\0", ["f(0)"], "rejected", 0),
        ("def f(x):\n    return x", ["f(0)", "f(", "f(1)"], "infra", 0),
        ("def f(x):\n    return x", ["1)\nimport os\n(2"], "infra", 0),
        ("def f(x):\n    return x", ["f(lambda: 1)", "f(1)"], "infra", 0),
    ],
)
def test_what_ends_the_program_ends_the_item(ask: Ask, program: str, calls: list[str], outcome: str, at: int) -> None:
    outputs = ask(program, calls, timeout_s=0.5)
    assert outputs["outcome"] == outcome
    found = [call["outcome"] for call in outputs["calls"]]
    assert found == ["returned"] * at + [outcome] + ["not_run"] * (len(calls) - at - 1)
    assert outputs["calls"][at]["detail"] == outputs["detail"] != ""


def test_space_around_a_call_means_nothing(ask: Ask) -> None:
    outputs = ask(COUNTING, [" f(1)", "\tf(2)\n", "\n f(3)  # the third", "f(\n  4)"])
    assert came_of(outputs) == [("returned", f"({n}, {n})") for n in range(1, 5)]


def test_no_call_takes_what_came_of_another(ask: Ask) -> None:
    program = "def f(n=0, self=9):\n    return n, self\ndef g(n):\n    return -n\n"
    outputs = ask(program, ["f(self=2)", "g(3)", "f(1 / 0)", "f(4)"])
    expected = [("returned", "(0, 2)"), ("returned", "-3"), ("raised", None), ("returned", "(4, 9)")]
    assert came_of(outputs) == expected


def test_large_outputs_are_no_sleep_and_have_an_end(ask: Ask) -> None:
    outputs = ask("def f(n):\n    return '\\\\' * 8000", [f"f({n})" for n in range(70)], timeout_s=0.15)
    assert outputs["outcome"] == "passed", outputs["detail"]
    found = came_of(outputs)
    fitting = MAX_LITERALS // 16_002
    assert found == [("returned", repr("\\" * 8000))] * fitting + [("opaque", None)] * (70 - fitting)
    assert "of this item" in outputs["calls"][-1]["detail"]


def test_a_verdict_and_outputs_of_the_same_texts_are_two_things(sandbox_url: str) -> None:
    """They share a queue, in which the same items are judged once."""
    for _ in range(3):
        (outputs,) = ask_all(sandbox_url, [calls_item(COUNTING, ["f(1)"])])
        _, answer, _ = post(sandbox_url, {"items": [make_item(COUNTING, ["f(1)"])]})
        assert came_of(outputs) == [("returned", "(1, 1)")]
        assert set(answer["verdicts"][0]["tests"][0]) == {"index", "outcome", "detail"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"calls": []}, "calls"),
        ({"calls": ["f()"] * 1001}, "1000"),
        ({"entry_point": "not a name"}, "no Python name"),
        ({"timeout_s": 61}, "60"),
        ({"tests": ["assert f(1)"]}, "tests"),
    ],
)
def test_what_is_no_request_is_refused(sandbox_url: str, change: dict[str, Any], said: str) -> None:
    item = calls_item(COUNTING, ["f(1)"]) | change
    status, answer, _ = post(sandbox_url, {"items": [item]}, path="/v1/outputs")
    assert (status, said in answer["detail"]) == (422, True), answer
    status, answer, _ = post(sandbox_url, {"items": [calls_item(COUNTING, ["f(1)"])] * 2}, path="/v1/outputs")
    assert (status, "ids must be unique" in answer["detail"]) == (422, True)


_RECORD = "__import__('os').write(4, b'{}\\n')"
HOSTILE_CALLS = [
    "__import__('os')._exit(0)",
    "__import__('os').write(4, b'+\\n') and __import__('os')._exit(0)",
    _RECORD.format('{"index": 0, "outcome": "passed", "detail": "", "output": ["returned", "6*7", ""]}'),
    _RECORD.format('{"index": 0, "outcome": "passed", "detail": "", "output": ["returned", 5, ""]}'),
    _RECORD.format('{"index": 0, "outcome": "passed", "detail": "", "output": {}}'),
    _RECORD.format('{"index": 0, "outcome": "passed", "detail": "", "output": ["returned", "\\\\ud800", ""]}'),
    _RECORD.format('{"index": 0, "outcome": "passed", "detail": "", "output": ["raised", "", "\\\\ud800"]}'),
    _RECORD.format('{"index": 0, "outcome": "passed", "detail": "", "output": ["stolen", "", ""]}'),
    f"__import__('os').write(4, b'[\"' + b'x' * 70000) and {_RECORD.format('')}",
    "__import__('sys').modules['sandbox.calls'].__dict__.update(output_of=lambda *a: ('returned', 'forged', ''))",
    "[0 for _ in iter(int, 1)]",
    "open('/etc/passwd').read()",
    "__import__('socket').socket().connect(('127.0.0.1', 1))",
]


@pytest.mark.slow
def test_neither_hostile_calls_nor_hostile_programs_reach_their_neighbours() -> None:
    """At one worker: every other item is honest, and every honest one gets its values."""
    programs = [(attack.program, ["f(3)", "f(5)"]) for attack in ATTACKS[::4]]
    programs += [(COUNTING, [call, "f(1)"]) for call in HOSTILE_CALLS]
    items = []
    for number, (program, calls) in enumerate(programs):
        items.append(calls_item(program, calls, id=f"hostile-{number}", timeout_s=0.5))
        items.append(calls_item(COUNTING, ["f(1)", f"f('{number}')"], id=f"honest-{number}"))
    with running.service("--workers", "1") as service:
        assert running.wait_until(lambda: post(service.url, {"items": [make_item(COUNTING, ["f(1)"])]})[0] == 200)
        found = [each for start in range(0, len(items), 64) for each in ask_all(service.url, items[start : start + 64])]
    assert [each["id"] for each in found] == [item["id"] for item in items]
    for number, outputs in enumerate(found[1::2]):
        assert came_of(outputs) == [("returned", "(1, 1)"), ("returned", f"('{number}', 2)")]
    for item, outputs in zip(items[::2], found[::2], strict=True):
        assert len(outputs["calls"]) == len(item["calls"])
        assert len(str(outputs)) < 40_000
        assert "root:" not in str(outputs)


def test_the_client_asks_in_parts_and_keeps_the_order(sandbox_url: str) -> None:
    client = SandboxClient(sandbox_url)
    items = [CallsItem(COUNTING, "f", "", [f"f({n})", "f(0)"], 2.0) for n in range(40)]
    outputs = client.outputs(items)
    assert [each.calls[0].value for each in outputs] == [f"({n}, 1)" for n in range(40)]
    assert {each.outcome for each in outputs} == {"passed"}
    assert client.outputs([]) == []


def test_without_a_sandbox_the_client_invents_nothing(unused_port: int) -> None:
    client = SandboxClient(f"http://127.0.0.1:{unused_port}", retry_seconds=0.0)
    (outputs,) = client.outputs([CallsItem(COUNTING, "f", "", ["f(1)"], 2.0)])
    assert (outputs.outcome, outputs.calls) == ("infra", [])
    assert "no verdict" in outputs.detail
