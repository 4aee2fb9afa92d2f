"""Weak problems are found: what a program passes that does nothing of what is asked."""

import pytest

from components.prepare.weak import possible_programs, weak_problems
from components.shared.grading import Grader
from components.shared.problem import Problem
from components.shared.sandbox import SandboxClient
from tests.builders import make_problem


def problem_of(*tests: str, **changes: str) -> Problem:
    return make_problem(tests=list(tests), prompt="Do.\n\ndef f(x, y=0):", entry_point="f", **changes)


WEAK = {
    "always returns 7": problem_of("assert f(1) == 7", "assert f(2) == 7"),
    "always returns True": problem_of("assert f(1)", "assert f(2) == True"),
    "always returns None": problem_of("assert f(1) is None"),
    "always returns []": problem_of("assert len(f(1)) == 0", "assert f(3) == []"),
    "always returns 1.5": problem_of("import math\nassert math.isclose(f(1), 1.5)"),
    "returns its argument x": problem_of("assert f(1) == 1", "assert f('a', 2) == 'a'"),
    "returns its argument y": problem_of("assert f(1, 2) == 2", "assert f(3, 4) == 4"),
    "always returns 'k'": problem_of("def check(candidate):\n    assert candidate(1) == 'k'\n\ncheck(f)"),
    "always returns Pair": problem_of("assert isinstance(f(1), object)", prelude="class Pair:\n    pass"),
}
SOUND = [
    problem_of("assert f(1) == 2", "assert f(2) == 3"),
    problem_of("assert f(1) == True", "assert f(2) == False"),
    problem_of("assert f(1)", "assert not f(2)"),
    problem_of("assert sorted(f([2, 1])) == [1, 2, 3]", "assert f([]) == [0]"),
    problem_of("assert f(1) > 5", "assert f(2) < 3"),
]


@pytest.mark.parametrize("what", [what for what in WEAK if "Pair" not in what])
def test_a_weak_problem_is_named_with_what_passes(sandbox_url: str, what: str) -> None:
    grader = Grader(SandboxClient(sandbox_url), test_timeout_s=1.0, infra_limit=0.0)
    assert weak_problems(grader, [WEAK[what]]) == {"1": what}


def test_what_only_a_real_solution_passes_is_not_weak(sandbox_url: str) -> None:
    grader = Grader(SandboxClient(sandbox_url), test_timeout_s=1.0, infra_limit=0.0)
    problems = [problem.model_copy(update={"task_id": str(n)}) for n, problem in enumerate(SOUND)]
    assert weak_problems(grader, problems) == {}


def test_what_literals_contradict_is_not_run() -> None:
    assert possible_programs(make_problem()) == []
    lone = make_problem(tests=["assert double(1) == 7"])
    assert [what for what, _ in possible_programs(lone)] == ["always returns 7"]


def test_a_program_has_the_prelude_and_the_signature() -> None:
    programs = dict(possible_programs(WEAK["always returns Pair"]))
    assert programs["always returns None"] == "class Pair:\n    pass\n\ndef f(x, y=0):\n    return None\n"
