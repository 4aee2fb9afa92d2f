"""The problem record and its files."""

from pathlib import Path

import pytest

from components.shared.errors import UserError
from components.shared.problem import KEPT, PROBLEMS, Problem, read_problems, training_problems, write_problems
from tests.builders import make_problem


def make(task_id: str) -> Problem:
    return make_problem(task_id, prompt="Say é.\n\ndef double(x):", tests=["assert double('\u2028') == 1"])


def test_problems_survive_the_file(tmp_path: Path) -> None:
    problems = [make("1"), make("2")]
    write_problems(tmp_path / "p.jsonl", problems)
    assert read_problems(tmp_path / "p.jsonl") == problems
    assert problems[0].signature == "def double(x):"


def test_a_malformed_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(make("1").model_dump_json() + "\n" + make("2").model_dump_json().replace("entry_point", "entry"))
    with pytest.raises(UserError, match=r"p\.jsonl, line 2: entry_point"):
        read_problems(file)
    with pytest.raises(UserError, match="does not exist"):
        read_problems(tmp_path / "none.jsonl")


def test_training_takes_what_the_filter_kept_where_it_ran(tmp_path: Path) -> None:
    write_problems(tmp_path / PROBLEMS, [make("1"), make("2")])
    assert [problem.task_id for problem in training_problems(tmp_path)] == ["1", "2"]
    write_problems(tmp_path / KEPT, [make("2")])
    assert [problem.task_id for problem in training_problems(tmp_path)] == ["2"]
