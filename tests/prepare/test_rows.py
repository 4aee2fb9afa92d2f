"""Both published schemas become the same record, and a malformed row says where it stands."""

from typing import Any

import pytest

from components.prepare.raw import RawRow
from components.prepare.rows import check_row, to_problem
from components.prepare.signature import UnusableRow
from components.shared.errors import UserError
from components.shared.problem import PUBLISHED, Problem
from tests.prepare.examples import full_row, sanitized_row


def problem_of(fields: dict[str, Any]) -> Problem:
    return to_problem(check_row(RawRow("data.jsonl, line 1", "", fields)), split="train", source="mbpp")


def test_a_full_row() -> None:
    row = full_row(7, text=" Write a function.\r\nTwice. ", challenge_test_list=["assert add_7(1) == 8\n"])
    assert problem_of(row) == Problem(
        task_id="7",
        source="mbpp",
        split="train",
        prompt="Write a function.\nTwice.\n\ndef add_7(x):",
        entry_point="add_7",
        prelude="",
        setup="",
        tests=["assert add_7(0) == 7", "assert add_7(5) == 12", "assert add_7(-3) == 4"],
        hidden_tests=["assert add_7(1) == 8"],
        hidden_tests_from=[PUBLISHED],
        reference="def add_7(x):\n    return x + 7\n",
        reference_cpu_ms=None,
    )


def test_a_sanitized_row() -> None:
    problem = problem_of(sanitized_row(3))
    assert problem.prompt == "Write a function to halve a number and add 3.\n\ndef half_3(x):"
    assert (problem.setup, problem.tests) == (
        "import math",
        ["assert math.isclose(half_3(3), 4.5)", "assert math.isclose(half_3(8), 7.0)"],
    )
    assert problem.hidden_tests == []


def test_columns_that_are_null_in_parquet_are_empty() -> None:
    nulls = {"test_setup_code": None, "challenge_test_list": None, "test_imports": None, "split": None}
    assert problem_of(full_row(7, **nulls)) == problem_of(full_row(7))


def test_a_prelude_is_shown_and_part_of_the_reference() -> None:
    in_reference = "class Pair:\r\n\tdef __init__(self, a):\r\n\t\tself.a = a\r\ndef first(pair):\r\n\treturn pair.a"
    test = ["assert first(Pair(3)) == 3"]
    problem = problem_of(full_row(1, code=in_reference, test_list=test))
    assert problem.prelude.startswith("class Pair:")
    assert problem.prompt.endswith(f"\n\n{problem.prelude}\n\ndef first(pair):")
    assert problem.reference.count("class Pair") == 1

    body, setup_code = "def first(pair):\n    return pair.a", in_reference.split("def first")[0]
    published = problem_of(full_row(1, code=body, test_list=test, test_setup_code=setup_code))
    assert published.prelude == problem.prelude
    assert published.reference == f"{problem.prelude}\n\n{body}\n"


def test_a_problem_record_is_taken_as_it_is_but_for_its_time() -> None:
    problem = problem_of(full_row(7)).model_copy(update={"reference_cpu_ms": 3.0, "split": "test"})
    again = to_problem(check_row(RawRow("x, line 1", "", problem.model_dump())), split="test", source="other")
    assert again == problem.model_copy(update={"reference_cpu_ms": None})


def test_a_problem_record_may_lack_what_only_we_fill() -> None:
    whole = problem_of(full_row(7)).model_dump()
    short = {key: whole[key] for key in ("task_id", "prompt", "entry_point", "tests", "reference")}
    assert problem_of(short) == problem_of(full_row(7))


PROBLEM = {"task_id": 1, "prompt": "x\n\ndef f(x):", "entry_point": "f", "tests": ["assert f(1)"], "reference": "x"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"question": "?", "answer": "!"}, "no field code and no field test_list"),
        ({**full_row(1), "test_list": "assert f()"}, "test_list: Input should be a valid list"),
        ({**full_row(1), "test_list": [1]}, "test_list.0"),
        ({key: value for key, value in full_row(1).items() if key != "task_id"}, "task_id: Field required"),
        ({key: value for key, value in full_row(1).items() if key != "text"}, "text"),
        ({**PROBLEM, "prompt": "x\n\ndef f(x):\n"}, "prompt must end with the line `def f"),
        ({**PROBLEM, "prompt": "x\n\ndef g(x):"}, "prompt must end with the line `def f"),
        ({**PROBLEM, "prompt": "x\n\ndef ff(x):"}, "prompt must end with the line `def f"),
        ({**PROBLEM, "hint": "?"}, "hint: Extra inputs are not permitted"),
        ({**PROBLEM, "task_id": None}, "task_id"),
    ],
)
def test_a_malformed_row_names_its_place_and_field(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        check_row(RawRow("data.jsonl, line 12", "", fields))
    assert str(refused.value).startswith("data.jsonl, line 12: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"code": "def add_1(x:"}, "its code is no Python"),
        ({"test_list": ["assert add_1(1) == 2", "assert add_1(1 == 2"]}, "test 2 is no Python"),
        ({"challenge_test_list": ["assert ("]}, "challenge test 1 is no Python"),
        ({"test_setup_code": "import"}, "its set-up code is no Python"),
        ({"test_list": []}, "it has no tests"),
        ({"test_list": ["assert subtract(1) == 2"]}, "the tests call no function"),
        ({"test_list": ["assert add_1(1) == 2\nnonlocal x"]}, "no Python"),
    ],
)
def test_a_complete_row_that_makes_no_problem_is_unusable_with_a_reason(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnusableRow, match=reason):
        problem_of(full_row(1, **changed))
