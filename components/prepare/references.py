"""Every reference is run in the sandbox before any GPU time: a problem whose own solution fails teaches nothing.

What passes keeps the CPU time it took, from which the time limit of the model's programs follows; what fails is
quarantined with the reason, and the next problem of the draw takes its place.
"""

from collections.abc import Sequence
from typing import Any

from components.shared.grading import Grader
from components.shared.problem import Problem
from components.shared.progress import Progress
from components.shared.sandbox import Verdict

PROBLEMS_AT_ONCE = 128


class References:
    """Judges references and keeps what did not pass: `quarantined` rows, `failed` ids, and how many got no verdict."""

    def __init__(self, grader: Grader) -> None:
        self.grader = grader
        self.quarantined: list[dict[str, Any]] = []
        self.failed: set[str] = set()
        self.without_verdict = 0

    def take(self, pool: Sequence[Problem], wanted: int, *, task: str) -> list[Problem]:
        """The first `wanted` problems of the pool whose reference passes all tests, hidden ones too, in its order.

        InfraError, from the grader, when too many references could not be judged.
        """
        taken: list[Problem] = []
        progress = Progress("prepare", task, min(wanted, len(pool)), unit="problems")
        position = 0
        while len(taken) < wanted and position < len(pool):
            batch = pool[position : position + min(PROBLEMS_AT_ONCE, wanted - len(taken))]
            position += len(batch)
            taken += self._passing(batch)
            progress.update(len(taken))
        return taken

    def _passing(self, batch: Sequence[Problem]) -> list[Problem]:
        with_all_tests = [
            problem.model_copy(update={"tests": problem.tests + problem.hidden_tests}) for problem in batch
        ]
        verdicts = self.grader.grade([(problem, problem.reference) for problem in with_all_tests])
        passing = []
        for problem, verdict in zip(batch, verdicts, strict=True):
            if verdict.passed:
                passing.append(problem.model_copy(update={"reference_cpu_ms": round(verdict.cpu_ms, 3)}))
            else:
                self._quarantine(problem, verdict)
        return passing

    def _quarantine(self, problem: Problem, verdict: Verdict) -> None:
        self.without_verdict += verdict.passed is None
        self.failed.add(problem.task_id)
        self.quarantined.append({**problem.model_dump(), "reason": reason_of(problem, verdict)})


def reason_of(problem: Problem, verdict: Verdict) -> str:
    """Why a reference is quarantined, in one clause."""
    if verdict.passed is None:
        return f"its reference could not be judged: {verdict.detail}"
    test = verdict.failing_test
    where = ""
    if test is not None:
        hidden = test - len(problem.tests)
        where = f" in challenge test {hidden + 1}" if hidden >= 0 else f" in test {test + 1}"
    return f"its reference does not pass: {verdict.outcome}{where}" + (f" ({verdict.detail})" if verdict.detail else "")
