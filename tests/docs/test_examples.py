"""The worked example of docs/rewards.md: every reference passes, and no lazy or hostile query does."""

import json

import pytest

from components.shared.problem import Problem, read_problems
from components.shared.sandbox import Item, SandboxClient
from tests.conftest import ROOT

FOLDER = ROOT / "docs/examples/sql"
PROBLEMS: list[Problem] = [one for name in ("train", "test") for one in read_problems(FOLDER / f"{name}.jsonl")]
LAZY = {
    "a constant": "SELECT 4",
    "nothing": "SELECT 1 WHERE 0",
    "changes the tables": "DROP TABLE customers",
    "a file": "ATTACH '/tmp/found.db' AS found",
    "an extension": "SELECT load_extension('found')",
    "no query": "",
}


def verdicts(client: SandboxClient, problem: Problem, programs: list[str]) -> list[bool | None]:
    items = [
        Item(program=one, entry_point=problem.entry_point, setup=problem.setup, tests=problem.tests, timeout_s=5.0)
        for one in programs
    ]
    return [verdict.passed for verdict in client.judge(items)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.task_id)
def test_the_reference_alone_passes(problem: Problem, sandbox_url: str) -> None:
    client = SandboxClient.from_setting(sandbox_url)
    lazy = [f"def {problem.entry_point}():\n    return {json.dumps(query)}" for query in LAZY.values()]
    found = verdicts(client, problem, [problem.reference, *lazy])
    assert found == [True] + [False] * len(lazy)


def test_the_page_shows_the_first_problem() -> None:
    page = (ROOT / "docs/rewards.md").read_text(encoding="utf-8")
    first = PROBLEMS[0]
    assert first.reference.splitlines()[1].strip() in page
    assert all(test in page for test in first.tests[:2])


def test_no_question_is_in_both_files() -> None:
    assert len({problem.prompt for problem in PROBLEMS}) == len(PROBLEMS) == 12
    assert {problem.split for problem in PROBLEMS[:8]} == {"train"}
