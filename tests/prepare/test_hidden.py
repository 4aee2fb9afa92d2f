"""Generated hidden tests: enough for the demo, right, new, labelled, never shown, and none of a flaky reference."""

import json
import os
from typing import Any

import pytest

from components.prepare.hidden import HiddenTests, varied
from components.prepare.oracle import Answer
from components.prepare.raw import RawRow
from components.prepare.references import References
from components.prepare.rows import check_row, to_problem
from components.prepare.sources import read_dataset
from components.prepare.splits import official_split
from components.shared.grading import Grader, reward_of, timeout_of
from components.shared.problem import GENERATED, Problem
from components.shared.sandbox import Item, SandboxClient
from tests.builders import make_problem
from tests.conftest import ROOT


def problems_of_the_demo(count: int) -> list[Problem]:
    lines = (ROOT / "demo/problems/test.jsonl").read_text().splitlines()[:count]
    return [to_problem(check_row(RawRow("", "", json.loads(line))), split="test", source="demo") for line in lines]


def taken(url: str, *problems: Problem, wanted: int = 20, timeout_s: float = 2.0) -> tuple[list[Problem], References]:
    grader = Grader(SandboxClient(url), test_timeout_s=timeout_s, infra_limit=0.0)
    references = References(grader, HiddenTests(grader, wanted, 1))
    return references.take(problems, len(problems), task="checking", keep_weak=True), references


def test_demo_problems_get_their_tests_and_references_pass_them_in_time(sandbox_url: str) -> None:
    problems = problems_of_the_demo(40)
    found, _ = taken(sandbox_url, *problems)
    assert [problem.task_id for problem in found] == [problem.task_id for problem in problems]
    assert sum(len(problem.hidden_tests) >= 20 for problem in found) >= 0.9 * len(found)
    items = [
        Item(each.reference, each.entry_point, each.setup, each.hidden_tests, timeout_of(each, 2.0)) for each in found
    ]
    for problem, verdict in zip(found, SandboxClient(sandbox_url).judge(items), strict=True):
        assert verdict.passed
        assert verdict.cpu_ms <= 250 * timeout_of(problem, 2.0)
        assert problem.hidden_tests_from == [GENERATED] * len(problem.hidden_tests)
        assert not set(problem.hidden_tests) & set(problem.tests)
        assert len(set(problem.hidden_tests)) == len(problem.hidden_tests)
    assert [problem.prompt for problem in found] == [problem.prompt for problem in problems]
    assert [problem.tests for problem in found] == [problem.tests for problem in problems]


@pytest.mark.slow
def test_of_mbpps_problems_nine_in_ten_get_twenty(sandbox_url: str) -> None:
    """Every seventh row of the whole file."""
    path = os.environ.get("GRPO_MBPP_JSONL")
    if not path:
        pytest.skip("$GRPO_MBPP_JSONL does not name the full MBPP file")
    rows = [check_row(raw) for raw in read_dataset(path, "").rows[::7]]
    problems = [to_problem(row, split=official_split(row.task_id), source="mbpp") for row in rows]
    found, _ = taken(sandbox_url, *problems, wanted=24)
    assert len(found) >= 0.98 * len(problems)
    assert sum(each.hidden_tests_from.count(GENERATED) >= 20 for each in found) >= 0.9 * len(problems)


def test_a_program_that_knows_the_visible_tests_is_paid_and_fails_the_hidden_ones(sandbox_url: str) -> None:
    found, _ = taken(sandbox_url, *problems_of_the_demo(20))
    pairs = [(problem, knowing(problem)) for problem in found]
    grader = Grader(SandboxClient(sandbox_url), test_timeout_s=2.0, infra_limit=0.0)
    assert [reward_of(verdict) for verdict in grader.grade(pairs)] == [1.0] * len(found)
    hidden = [(problem.model_copy(update={"tests": problem.hidden_tests}), program) for problem, program in pairs]
    assert [verdict.passed for verdict in grader.grade(hidden)] == [False] * len(found)


def knowing(problem: Problem) -> str:
    """A program that answers the visible tests' calls by heart, and nothing else."""
    lines = [f"def {problem.entry_point}(*args):"]
    for test in problem.tests:
        call, answer = test.removeprefix("assert ").split(" == ")
        lines.append(f"    if args == ({call.removeprefix(problem.entry_point)[1:-1]},): return {answer}")
    return "\n".join([*lines, "    return 'no idea'", ""])


def test_a_seed_makes_the_same_and_more_keeps_the_rest(sandbox_url: str) -> None:
    problems = problems_of_the_demo(4)
    first, again = (taken(sandbox_url, *problems)[0] for _ in range(2))
    assert [each.hidden_tests for each in first] == [each.hidden_tests for each in again]
    prepared_before, _ = taken(sandbox_url, *first)
    assert [each.hidden_tests for each in prepared_before] == [each.hidden_tests for each in first]
    none, _ = taken(sandbox_url, *problems, wanted=0)
    assert [each.hidden_tests for each in none] == [[]] * 4


RANDOM = "import random\ndef double(x):\n    return 2 * x if x in (0, 2) else random.random()\n"
COUNTING = "calls = []\ndef double(x):\n    calls.append(x)\n    return 2 * x if x in (0, 2) else len(calls)\n"


@pytest.mark.parametrize("reference", [RANDOM, COUNTING])
def test_what_is_not_answered_twice_alike_makes_no_test(sandbox_url: str, reference: str) -> None:
    (problem,), _ = taken(sandbox_url, make_problem(reference=reference))
    assert problem.hidden_tests == []


def test_a_reference_that_passes_only_sometimes_is_flaky(sandbox_url: str) -> None:
    once = (
        "seen = []\ndef double(x):\n    seen.append(x)\n    return 2 * x if seen == sorted(seen, reverse=True) else 7\n"
    )
    found, references = taken(sandbox_url, make_problem(reference=once))
    assert found == []
    (row,) = references.quarantined
    assert (row["kind"], row["task_id"]) == ("flaky", "1")
    assert "passed once and not again: failed" in row["reason"]


def test_dear_tests_are_few(sandbox_url: str) -> None:
    slow = "def double(x):\n    for _ in range(1_500_000): pass\n    return 2 * x\n"
    (problem,), _ = taken(sandbox_url, make_problem(reference=slow))
    assert 0 < len(problem.hidden_tests) < 20
    (verdict,) = SandboxClient(sandbox_url).judge([Item(slow, "double", "", problem.hidden_tests, 2.0)])
    assert verdict.passed


def busy(seconds: str) -> str:
    """A right reference that takes so much CPU time for a call with x, on whatever machine."""
    return (
        "import time\n"
        "def double(x):\n"
        f"    end = time.process_time() + {seconds}\n"
        "    while time.process_time() < end: pass\n"
        "    return 2 * x\n"
    )


def test_a_reference_needs_half_of_the_time_to_spare(sandbox_url: str) -> None:
    near, far = make_problem("near", reference=busy("0.3")), make_problem("far", reference=busy("0.2"))
    found, references = taken(sandbox_url, near, far, wanted=0, timeout_s=1.0)
    assert [problem.task_id for problem in found] == ["far"]
    (row,) = references.quarantined
    assert (row["kind"], row["task_id"]) == ("slow", "near")
    assert "takes 0.6 s of CPU, too near the 1 s that test_timeout_s gives a program" in row["reason"]


def test_where_the_time_runs_out_generated_tests_are_to_blame_not_the_reference(sandbox_url: str) -> None:
    late = make_problem(reference=busy("{0: 0.0, 2: 0.4}.get(x, 0.17)"))  # 0.4 s, and 0.7 s for four generated tests
    (problem,), references = taken(sandbox_url, late, wanted=4, timeout_s=1.0)
    assert references.quarantined == []
    assert len(problem.hidden_tests) < 4


def test_published_hidden_tests_stay_first(sandbox_url: str) -> None:
    given: dict[str, Any] = {"hidden_tests": ["assert double(9) == 18"], "hidden_tests_from": ["dataset"]}
    (problem,), _ = taken(sandbox_url, make_problem(**given))
    assert problem.hidden_tests[0] == "assert double(9) == 18"
    assert problem.hidden_tests_from == ["dataset", *[GENERATED] * 20]
    assert problem.hidden_tests.count("assert double(9) == 18") == 1


def test_an_earlier_generated_test_that_is_wrong_costs_itself_alone(sandbox_url: str) -> None:
    given: dict[str, Any] = {"hidden_tests": ["assert double(9) == 19"], "hidden_tests_from": [GENERATED]}
    (problem,), references = taken(sandbox_url, make_problem(**given))
    assert references.quarantined == []
    assert "assert double(9) == 19" not in problem.hidden_tests


def test_different_answers_come_first() -> None:
    found = [Answer((n,), value) for n, value in enumerate([True, True, True, False, True, False])]
    assert [each.value for each in varied(found)] == [True, False, True, False, True, True]
