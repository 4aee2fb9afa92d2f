"""Near-duplicates by text and by renamed program: what counts as one, and what does not."""

import os
from pathlib import Path

import pytest

from components.prepare.duplicates import Index, renamed, repeats_within
from components.prepare.rows import check_row, to_problem
from components.prepare.sources import read_dataset
from components.prepare.splits import official_split
from components.shared.problem import Problem
from tests.builders import make_problem

TEXT = "Write a function to find the first repeated character in a given string."


def problem(text: str = TEXT, body: str = "return x", task_id: str = "1", names: str = "x") -> Problem:
    signature = f"def f_{task_id}({names}):"
    return make_problem(
        task_id, prompt=f"{text}\n\n{signature}", entry_point=f"f_{task_id}", reference=f"{signature}\n    {body}\n"
    )


def reasons(one: Problem, other: Problem) -> list[str]:
    return [found.why for found in Index([other]).repeated_by(one)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEXT, ["the text"]),
        (TEXT.replace("a function", "a python function"), ["the text"]),
        (TEXT.replace("in a given string", "in the given string"), []),
        (TEXT.replace("the first", "the very first").replace("given ", ""), []),
        (TEXT[:-1] + " of words in the file", []),
        (TEXT[:-1] + " 3", []),
        ("Write a function to sort a list.", []),
    ],
)
def test_texts(text: str, expected: list[str]) -> None:
    assert reasons(problem(text, "return x + 1"), problem(task_id="2")) == expected


def test_a_long_text_with_one_word_changed_is_a_near_duplicate_unless_it_is_a_number() -> None:
    text = "Write a function to count the pairs of numbers in a list of integers whose sum is at least 7 and not more."
    near = problem(text.replace("integers", "values"), "return x + 1")
    (why,) = reasons(near, problem(text, task_id="2"))
    assert why.endswith("% of the text")
    assert reasons(problem(text.replace("7", "9"), "return x + 1"), problem(text, task_id="2")) == []
    assert reasons(problem(text.replace("7", "-7"), "return x + 1"), problem(text, task_id="2")) == []


SAME = "total = 0\n    for v in x:\n        total += v\n    return total"


@pytest.mark.parametrize(
    ("body", "names", "expected"),
    [
        ("s = 0\n    for each in x:\n        s += each\n    return s", "x", True),
        ("s = 0\n    for each in items:\n        s += each\n    return s", "items: list", True),
        ('"""Sum."""\n    s = 0\n    for each in x:\n        s += each\n    return s', "x", True),
        ("s = 1\n    for each in x:\n        s += each\n    return s", "x", False),
        ("s = 0\n    for each in x:\n        s += s\n    return s", "x", False),
        ("s = 0\n    for each in x:\n        s -= each\n    return s", "x", False),
        ("return sum(x)", "x", False),
    ],
)
def test_programs(body: str, names: str, expected: bool) -> None:
    found = reasons(problem("Add up.", body, names=names), problem("Sum a list.", SAME, "2"))
    assert found == ["the program but for its names"] * expected


def test_builtins_and_attributes_keep_their_names_and_no_python_has_no_print() -> None:
    assert renamed("def f(x):\n    return len(x)") != renamed("def f(x):\n    return sum(x)")
    assert renamed("def f(x):\n    return x.real") != renamed("def f(x):\n    return x.imag")
    assert renamed("def f(x:") == ""


def test_pairs_within_a_list_are_given_once_and_nothing_repeats_itself() -> None:
    problems = [problem(task_id=str(n), body=f"return x + {n}") for n in range(3)]
    pairs = [(pair.problem.task_id, pair.other.task_id) for pair in repeats_within(problems)]
    assert sorted(pairs) == [("1", "0"), ("2", "0"), ("2", "1")]


def test_mbpps_training_problems_that_repeat_test_problems() -> None:
    """The pairs with the same text, or the same program, as a count by other means found them."""
    path = os.environ.get("GRPO_MBPP_JSONL")
    if not path:
        pytest.skip("$GRPO_MBPP_JSONL does not name the full MBPP file")
    rows = [check_row(raw) for raw in read_dataset(str(Path(path)), "").rows]
    problems = [to_problem(row, split=official_split(row.task_id), source="mbpp") for row in rows]
    index = Index(each for each in problems if each.split == "test")
    found = {each.task_id for each in problems if each.split == "train" and index.repeated_by(each)}
    assert {"602", "704", "872"} <= found
    assert {"608", "649", "658", "666", "676", "703", "708", "716", "800", "841", "842"} <= found
    assert len(found) < 30
