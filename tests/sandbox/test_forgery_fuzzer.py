"""Thousands of generated forgeries, none of which passes; and right programs among them, all of which do."""

import pytest

from tests.sandbox.conftest import make_item, post
from tests.sandbox.forgery import Forgery, generate

FEW, MANY = 300, 12_000
BATCH = 128


def judged(url: str, forgeries: list[Forgery]) -> list[str]:
    """The outcome of each."""
    outcomes: list[str] = []
    for start in range(0, len(forgeries), BATCH):
        items = [
            make_item(program, task.tests, setup=task.setup, id=str(number), timeout_s=5.0 if is_right else 0.3)
            for number, (program, task, is_right) in enumerate(forgeries[start : start + BATCH])
        ]
        status, answer, _ = post(url, {"items": items})
        assert status == 200, answer
        outcomes += [verdict["outcome"] for verdict in answer["verdicts"]]
    return outcomes


def check(url: str, first: int, count: int) -> None:
    forgeries = [generate(seed) for seed in range(first, first + count)]
    outcomes = judged(url, forgeries)
    assert len(outcomes) == count
    for seed, forgery, outcome in zip(range(first, first + count), forgeries, outcomes, strict=True):
        shown = f"generate({seed}) came to {outcome}; its tests are {forgery.task.tests}:\n{forgery.program}"
        # Nor may a wrong program get out of being judged: infra is nobody's wrong answer.
        assert (outcome == "passed") if forgery.is_right else (outcome not in ("passed", "infra")), shown
    right = sum(forgery.is_right for forgery in forgeries)
    assert count / 20 < right < count / 5
    assert {"failed", "error", "syntax", "timeout"} <= set(outcomes)
    assert outcomes.count("failed") > count / 5, "too few get as far as being compared"


def test_no_forgery_passes(sandbox_url: str) -> None:
    check(sandbox_url, 0, FEW)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_forgery_passes_among_thousands(sandbox_url: str) -> None:
    check(sandbox_url, FEW, MANY)


def test_a_seed_is_a_program() -> None:
    assert [generate(seed) for seed in range(50)] == [generate(seed) for seed in range(50)]
    assert len({generate(seed).program for seed in range(FEW)}) > FEW * 0.9
