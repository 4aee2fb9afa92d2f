"""No program passes that does not solve the task, whatever it tries; each attempt comes to the outcome it should."""

from typing import Any

import pytest

from tests.sandbox import running
from tests.sandbox.attack import TESTS, Attack
from tests.sandbox.attacks import ATTACKS, FAMILIES
from tests.sandbox.conftest import Judge, make_item, post
from tests.sandbox.side_doors import SIDE_DOORS


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_comes_to_its_outcome(judge: Judge, attack: Attack) -> None:
    verdict = judge(attack.program, attack.tests, timeout_s=attack.timeout_s)
    assert (verdict["outcome"], verdict["passed"]) == (attack.outcome, False), verdict
    assert verdict["detail"], "an outcome that is not explained"


def test_every_family_is_there() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 200
    assert {name: len(attacks) for name, attacks in FAMILIES.items() if len(attacks) < 20} == {}


def test_neighbours_do_not_notice(sandbox_url: str) -> None:
    """Attacks between honest programs, in one batch: the honest ones pass, and everything keeps its place."""
    honest = "def f(n):\n    return n * n"
    items: list[dict[str, Any]] = []
    for attack in ATTACKS[::3]:
        items.append(make_item(attack.program, attack.tests, timeout_s=attack.timeout_s))
        items.append(make_item(honest, TESTS))
    for index, item in enumerate(items):
        item["id"] = str(index)
    status, answer, _ = post(sandbox_url, {"items": items})
    assert status == 200
    verdicts = answer["verdicts"]
    assert [verdict["id"] for verdict in verdicts] == [str(index) for index in range(len(items))]
    assert [verdict["outcome"] for verdict in verdicts[1::2]] == ["passed"] * (len(items) // 2)
    assert not any(verdict["passed"] for verdict in verdicts[::2])


def test_nothing_is_left_for_the_next(sandbox_url: str) -> None:
    """Whoever comes second, third or fourth finds what the first found."""
    for attack in SIDE_DOORS:
        item = make_item(attack.program, attack.tests, timeout_s=attack.timeout_s)
        items = [item | {"id": str(number), "program": attack.program + f"\n# {number}"} for number in range(4)]
        status, answer, _ = post(sandbox_url, {"items": items})
        assert status == 200
        assert [verdict["outcome"] for verdict in answer["verdicts"]] == [attack.outcome] * 4, attack.name


@pytest.mark.parametrize(
    "program",
    [
        "def Node(value):\n    return value\ndef f(root):\n    return 9",
        "def Node(value):\n    raise ValueError\ndef f(root):\n    return 9",
        "class Node:\n    def __init__(self, *a): pass\n    def __setattr__(self, *a): raise SystemExit\nf = Node",
        "import os\ndef Node(value):\n    os._exit(0)\n",
        "def f(root):\n    return 9",
    ],
)
def test_breaking_setup_does_not_get_a_program_out_of_being_judged(judge: Judge, program: str) -> None:
    verdict = judge(program, ["assert f(root) == 2"], setup="root = Node(1)\nroot.left = Node(2)")
    assert (verdict["outcome"], verdict["passed"]) == ("error", False), verdict


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("os._exit(0)", "error"),
        ("raise ValueError", "failed"),
        ("raise SystemExit(0)", "failed"),
        ("return 9", "failed"),
        ("\n        while True: pass", "timeout"),
    ],
)
def test_a_value_that_a_test_shows_when_it_fails_spoils_no_verdict(judge: Judge, text: str, outcome: str) -> None:
    """A program that could make its tests end their process would go unjudged."""
    program = f"import os\nclass Odd:\n    def __str__(self): {text}\ndef f(n):\n    return Odd()\n"
    verdict = judge(program, ["value = f(3)\nassert value == 9, value"], timeout_s=0.5)
    assert (verdict["outcome"], verdict["passed"]) == (outcome, False), verdict
    assert verdict["detail"]


def test_no_program_has_the_kernel_kill_it_before_its_time(judge: Judge) -> None:
    """SIGKILL before the deadline can only come from outside, and says nothing about a program."""
    limit = "import resource\ntry: resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nexcept ValueError: pass\n"
    verdict = judge(limit + "def f(n):\n    while True: pass", ["assert f(3) == 9"], timeout_s=1.5)
    assert (verdict["outcome"], verdict["passed"]) == ("timeout", False), verdict
    depth = "import resource\nresource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))\n"
    assert judge(depth + "def f(n):\n    return n * n", ["assert f(3) == 9"])["outcome"] == "passed"


def test_a_reply_too_large_for_the_tests_memory_gets_a_program_judged_all_the_same() -> None:
    flood = (
        "import os, struct, time\nbody = b'[' + b'[[[[]]]],' * 460_000 + b'[]]'\n"  # 180 MB once it is read
        "message = struct.pack('>I', len(body)) + body\nwhile message: message = message[os.write(3, message) :]\n"
    )
    loading, called = flood + "time.sleep(9)", "def f(n):\n    " + flood.replace("\n", "\n    ") + "time.sleep(9)\n"
    items = [make_item(program, ["value = f(3)\nassert value == 9"]) for program in (loading, called)]
    with running.service("--workers", "1", "--memory-mib", "128") as service:
        for item in items:
            status, answer, _ = post(service.url, {"items": [item]})
            assert (status, answer["verdicts"][0]["outcome"]) == (200, "memory"), answer


WRONG_FORMS = (
    '["raise", [], "E", "text"]',
    '["raise", "ValueError"]',
    "[[], [], []]",
    '["syntax", {}]',
    '["syntax"]',
    "[1]",
)


@pytest.mark.parametrize("reply", WRONG_FORMS)
def test_a_reply_of_the_wrong_form_is_told_as_that(judge: Judge, reply: str) -> None:
    """Whether it comes in place of the reply to being loaded, or of that to a call."""
    forge = f"import os, struct, time\nbody = {reply!r}.encode()\nos.write(3, struct.pack('>I', len(body)) + body)\n"
    called = "def f(n):\n    " + forge.replace("\n", "\n    ")
    for program in (forge + "time.sleep(9)", called + "time.sleep(9)"):
        verdict = judge(program, ["value = f(3)\nassert value == 9"])
        assert verdict["outcome"] == "error", verdict
        assert "the program's reply breaks the protocol" in verdict["detail"], verdict


_THREADS = (
    "import _thread\n_thread.stack_size(32 << 10)\nlock = _thread.allocate_lock()\nlock.acquire()\n"
    "for _ in range(2000): _thread.start_new_thread(lock.acquire, ())\n"
)


def test_nobody_has_so_many_threads_that_others_could_not_fork(judge: Judge) -> None:
    """A container may have a few thousand tasks in all, and small stacks leave room for more than that."""
    verdict = judge(f"{_THREADS}import time\ntime.sleep(1)\ndef f(n):\n    return n * n", ["assert f(3) == 9"])
    assert (verdict["outcome"], "threads" in verdict["detail"]) == ("error", True), verdict
    verdict = judge("def f(n):\n    return n * n", [f"{_THREADS}import time\ntime.sleep(1)\nassert f(3) == 9"])
    assert (verdict["outcome"], "threads" in verdict["detail"]) == ("timeout", True), verdict
    few = _THREADS.replace("2000", "200")
    assert judge(f"{few}def f(n):\n    return n * n", ["assert f(3) == 9"])["outcome"] == "passed"
