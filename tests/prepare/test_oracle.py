"""Tests made of a reference's answers: they accept the reference and what is as good, and nothing else."""

from typing import Any

import pytest

from components.prepare.oracle import Answer, Question, answers, make_test
from components.shared.errors import InfraError
from components.shared.grading import Grader
from components.shared.sandbox import Item, Outputs, SandboxClient
from tests.builders import make_problem

F = make_problem(entry_point="f", prompt="Do.\n\ndef f(x):", reference="def f(x):\n    return x\n")


def question(reference: str, *inputs: Any, timeout_s: float = 0.5) -> Question:
    problem = F.model_copy(update={"reference": reference})
    return Question(problem, [(each,) for each in inputs], timeout_s)


def grader(url: str, infra_limit: float = 0.02) -> Grader:
    return Grader(SandboxClient(url, retry_seconds=0.0), test_timeout_s=2.0, infra_limit=infra_limit)


def test_what_cannot_be_answered_is_left_out_and_the_rest_stays_in_order(sandbox_url: str) -> None:
    reference = (
        "import os\ndef f(x):\n    if x == 2:\n        while True: pass\n    if x == 3: return float('nan')\n"
        "    if x == 4: raise ValueError\n    if x == 5: return object()\n    if x == 6: os._exit(0)\n    return [x]\n"
    )
    found = answers(grader(sandbox_url), [question(reference, *range(9)), question("def f(x): return 0", 1)])
    assert found[0] == [Answer((n,), [n]) for n in (0, 1, 7, 8)]
    assert found[1] == [Answer((1,), 0)]


def test_a_reference_that_never_ends_costs_a_few_deadlines_and_no_more(sandbox_url: str) -> None:
    assert answers(grader(sandbox_url), [question("def f(x):\n    while 1: pass", *range(50), timeout_s=0.2)]) == [[]]


def test_a_sandbox_that_answers_nothing_is_an_infrastructure_failure() -> None:
    with pytest.raises(InfraError, match="1 of 1 programs could not be judged, more than infra_limit"):
        answers(grader("http://127.0.0.1:9"), [question("def f(x): return 0", 1)])


def test_a_reference_that_cannot_even_be_loaded_has_no_answers_and_is_nobodys_failure(sandbox_url: str) -> None:
    broken = [question("import no_such_module\ndef f(x): return x", 1), question("while True: pass\ndef f(x): 0", 1)]
    assert answers(grader(sandbox_url), broken) == [[], []]


class Losing(SandboxClient):
    """Loses the answers on programs that say LOST, so many times."""

    times = 0

    def outputs(self, items):
        found = super().outputs(items)
        for place, item in enumerate(items):
            if "LOST" in item.program and self.times > 0:
                self.times -= 1
                found[place] = Outputs(id=str(place), outcome="infra", detail="its worker died")
        return found


@pytest.mark.parametrize(("times", "infra_limit"), [(1, 0.0), (99, 0.5), (99, 0.02)])
def test_lost_answers_are_asked_for_again_and_too_many_stop_the_step(
    sandbox_url: str, times: int, infra_limit: float
) -> None:
    client = Losing(sandbox_url)
    client.times = times
    judge = Grader(client, test_timeout_s=2.0, infra_limit=infra_limit)
    judge.judged = 60  # programs, all of which got a verdict
    asked = [question(f"def f(x): return {n}  # {'LOST' * (n < 5)}", 1) for n in range(7)]
    if times > 5 and infra_limit < 0.05:
        with pytest.raises(InfraError, match=r"5 of 67 programs could not be judged.*its worker died"):
            answers(judge, asked)
        return
    found = answers(judge, asked)
    assert [len(each) for each in found] == ([1] * 7 if times == 1 else [0] * 5 + [1] * 2)
    assert judge.lost == (0 if times == 1 else 5)


ACCEPTED = [
    (3, [3, 3.0], [4, "3", None]),
    ("a", ["a"], ["b"]),
    (None, [None], [0, False]),
    (1.5, [1.5, 1.5 + 1e-9], [1.5001, "1.5", None, float("nan")]),
    (1e9, [1e9, 1e9 + 10], [1e9 + 1e5]),
    ([1, 0.1 + 0.2], [[1, 0.3]], [[1, 0.31], [1], [1, 0.3, 2], (1, 0.3)]),
    ({"a": 0.3, "b": 2}, [{"b": 2, "a": 0.1 + 0.2}], [{"a": 0.3}, {"a": 0.3, "b": 3}, {"a": 0.3, "c": 2}]),
    (([0.3], "x"), [([0.1 + 0.2], "x")], [([0.3], "y"), [[0.3], "x"]]),
    ({1, 2}, [{2, 1}], [{1}, [1, 2]]),
]


@pytest.mark.parametrize(("value", "right", "wrong"), ACCEPTED)
def test_a_test_accepts_the_answer_and_what_equals_it(
    sandbox_url: str, value: Any, right: list[Any], wrong: list[Any]
) -> None:
    test = make_test(F, Answer((1,), value))
    assert test is not None
    programs = [f"def f(x):\n    nan = float('nan')\n    return {each!r}\n" for each in [*right, *wrong]]
    verdicts = SandboxClient(sandbox_url).judge([Item(program, "f", "", [test], 1.0) for program in programs])
    assert [verdict.passed for verdict in verdicts] == [True] * len(right) + [False] * len(wrong), test


@pytest.mark.parametrize(
    ("view", "value", "expected"),
    [
        ("", [2, 1], "assert f(7) == [2, 1]"),
        ("set", [2, 1, 1], "assert set(f(7)) == {1, 2}"),
        ("sorted", (2, 1), "assert sorted(f(7)) == [1, 2]"),
        ("bool", [], "assert not f(7)"),
        ("bool", 3, "assert f(7)"),
        ("isclose", 3, "assert f(7) == 3"),
        ("len", 3, None),
        ("set", [[1]], None),
        ("", "x" * 3000, None),
    ],
)
def test_a_test_looks_at_the_answer_as_the_visible_ones_do(view: str, value: Any, expected: str | None) -> None:
    assert make_test(F, Answer((7,), value), view=view) == expected
