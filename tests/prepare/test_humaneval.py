"""HumanEval's and EvalPlus's rows become problems like any other."""

import json
from typing import Any

import pytest

from components.prepare.hidden import HiddenTests
from components.prepare.humaneval import PlusRow, with_plus_tests
from components.prepare.raw import RawRow
from components.prepare.references import References
from components.prepare.regression import answered
from components.prepare.rows import check_row, to_problem
from components.prepare.signature import UnusableRow
from components.shared.errors import UserError
from components.shared.grading import Grader
from components.shared.problem import PUBLISHED, Problem
from components.shared.sandbox import Item, SandboxClient

HUMANEVAL: dict[str, Any] = {
    "task_id": "HumanEval/999",
    "prompt": "from typing import List\n\n\ndef helper(x: int) -> int:\n    return x + 1\n\n\n"
    'def lift(numbers: List[int]) -> List[int]:\n    """ Lift each by one.\n    >>> lift([1])\n    [2]\n    """\n',
    "entry_point": "lift",
    "canonical_solution": "    return [helper(x) for x in numbers]\n",
    "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert candidate([1]) == [2]\n"
    "    assert candidate([]) == []\n    assert helper(1) == 2\n",
}
PLUS: dict[str, Any] = {
    "task_id": "Mbpp/999",
    "prompt": '"""\nWrite a function to find what two tuples share.\n'
    'assert set(shared((1, 2),(2, 3))) == set((2,))\n"""\n',
    "entry_point": "shared",
    "canonical_solution": "\ndef shared(a, b):\n  if not a: raise ValueError\n  return tuple(x for x in a if x in b)\n",
    "base_input": [[[1, 2], [2, 3]], [[4], [5]]],
    "plus_input": [[[1], [1]], [[], [1]], [[7, 8], [8, 7]], [[4], [5]]],
    "contract": "",
    "assertion": "\nassert set(shared((1, 2),(2, 3))) == set((2,))\n",
    "atol": 0,
}


def problem_of(fields: dict[str, Any]) -> Problem:
    return to_problem(check_row(RawRow("rows.jsonl, line 1", "", fields)), split="test", source="own")


def passes(url: str, problem: Problem, program: str, tests: list[str]) -> bool | None:
    return SandboxClient(url).judge([Item(program, problem.entry_point, problem.setup, tests, 2.0)])[0].passed


def grader(url: str) -> Grader:
    return Grader(SandboxClient(url), test_timeout_s=2.0, infra_limit=0.02)


def test_a_row_of_evalplus_that_its_own_reference_does_not_answer_is_put_aside_alone(sandbox_url: str) -> None:
    """A problem without tests would be refused by the sandbox, and the whole request with it."""
    broken = {**PLUS, "task_id": "Mbpp/998", "canonical_solution": "\ndef shared(a, b):\n  raise ValueError\n"}
    judge = grader(sandbox_url)
    references = References(judge, HiddenTests(judge, 5, 1))
    rows = [RawRow("rows.jsonl", "", fields) for fields in (broken, PLUS)]
    left = answered(references, [problem_of(row.fields) for row in rows], rows)
    assert [each.task_id for each in references.take(left, 2, task="checking", keep_weak=True)] == ["Mbpp/999"]
    (aside,) = references.quarantined
    assert (aside["task_id"], aside["kind"]) == ("Mbpp/998", "reference")
    assert aside["reason"] == "its reference answers none of its inputs"


def test_a_row_of_humaneval(sandbox_url: str) -> None:
    problem = problem_of(HUMANEVAL)
    prelude = "from typing import List\n\ndef helper(x: int) -> int:\n    return x + 1"
    assert problem.prelude == prelude
    assert problem.prompt == (
        f"Lift each by one.\n>>> lift([1])\n[2]\n\n{prelude}\n\ndef lift(numbers: List[int]) -> List[int]:"
    )
    assert (problem.task_id, problem.entry_point, len(problem.tests)) == ("HumanEval/999", "lift", 1)
    assert passes(sandbox_url, problem, problem.reference, problem.tests) is True
    body = f"{problem.prelude}\n\n{problem.signature}\n    return [helper(x) for x in numbers]\n"
    assert passes(sandbox_url, problem, body, problem.tests) is True
    assert passes(sandbox_url, problem, body.replace("helper(x) for", "x for"), problem.tests) is False


def test_a_row_of_evalplus_gets_its_tests_from_its_reference(sandbox_url: str) -> None:
    problem = problem_of(PLUS)
    assert problem.prompt == "Write a function to find what two tuples share.\n\ndef shared(a, b):"
    assert problem.tests == []
    (tested,) = with_plus_tests(grader(sandbox_url), [problem], [PlusRow.model_validate(PLUS)])
    assert tested.tests == ["assert set(shared((1, 2), (2, 3))) == {2}", "assert set(shared((4,), (5,))) == set()"]
    assert tested.hidden_tests == [
        "assert set(shared((1,), (1,))) == {1}",
        "assert set(shared((7, 8), (8, 7))) == {8, 7}",
    ]
    assert tested.hidden_tests_from == [PUBLISHED] * 2
    assert passes(sandbox_url, tested, tested.reference, tested.tests + tested.hidden_tests) is True
    other_order = "def shared(a, b):\n    return [x for x in b if x in a]\n"
    assert passes(sandbox_url, tested, other_order, tested.tests + tested.hidden_tests) is True
    assert passes(sandbox_url, tested, "def shared(a, b): return ()", tested.hidden_tests) is False


def test_humaneval_plus_has_a_body_for_a_solution_and_its_tolerance(sandbox_url: str) -> None:
    row = {
        **{name: value for name, value in HUMANEVAL.items() if name != "test"},
        "prompt": 'def third(x):\n    """A third of x."""\n',
        "entry_point": "third",
        "canonical_solution": "    return x / 3\n",
        "base_input": [[1], [2]],
        "plus_input": [[10]],
        "atol": 1e-3,
    }
    problem = problem_of(row)
    (tested,) = with_plus_tests(grader(sandbox_url), [problem], [PlusRow.model_validate(row)])
    assert (len(tested.tests), len(tested.hidden_tests)) == (2, 1)
    rounded = "def third(x):\n    return round(x / 3, {})\n"
    assert passes(sandbox_url, tested, rounded.format(3), tested.tests + tested.hidden_tests) is True
    assert passes(sandbox_url, tested, rounded.format(1), tested.tests) is False


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"entry_point": "drop"}, UnusableRow, "defines no function drop"),
        ({"canonical_solution": "    return ("}, UnusableRow, "no Python"),
        ({"test": None}, UserError, "test: Input should be a valid string"),
    ],
)
def test_what_makes_no_problem(change: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        problem_of({**HUMANEVAL, **change})


def test_a_row_of_no_known_kind_is_told_what_there_is() -> None:
    with pytest.raises(UserError, match=r"HumanEval's \(task_id, prompt, entry_point"):
        problem_of(json.loads('{"prompt": "x", "entry_point": "f"}'))
