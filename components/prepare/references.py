"""Every problem checks itself in the sandbox before any GPU time.

Its reference must pass, and pass again in another order: a problem whose own solution fails teaches nothing. It must do
so with time to spare, or noise would decide about right programs. What passes keeps the CPU time it took, from which
the time limit of the model's programs follows, and gets its hidden tests. A program that does nothing of what is asked
must fail: what such a program passes is weak. What is not taken is quarantined with the reason, and the next problem
of the draw takes its place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.prepare.hidden import HiddenTests
from components.prepare.weak import weak_problems
from components.shared.grading import Grader, timeout_of
from components.shared.problem import GENERATED, Problem
from components.shared.progress import Progress
from components.shared.sandbox import Verdict

PROBLEMS_AT_ONCE = 128
HIDDEN_SHARE = 0.25  # of its time limit that a reference may take for its tests, the hidden ones included
TRIES = 4  # of a reference with its hidden tests, what it fails left out each time
SPARE_TIME = 2.0  # times what a reference takes must fit into the limit: a busy machine takes up to 1.8 times as long
REFERENCE, SLOW, FLAKY, WEAK, DUPLICATE = "reference", "slow", "flaky", "weak", "duplicate"
TIMEOUT = "timeout"  # the sandbox's outcome


@dataclass(frozen=True)
class Fault:
    """Why a problem is not taken: the kind, and the reason in one clause."""

    kind: str
    reason: str


class References:
    """Checks problems and keeps what was not taken.

    quarantined: rows for quarantined.jsonl; failed: their ids; without_verdict: how many could not be judged;
    weak: id -> what a program that passes does, of weak problems that were taken all the same.
    """

    def __init__(self, grader: Grader, hidden: HiddenTests, unusable: Sequence[dict[str, Any]] = ()) -> None:
        """unusable: rows that were quarantined before any problem could be made of them."""
        self.grader, self.hidden = grader, hidden
        self.quarantined = list(unusable)
        self.failed: set[str] = set()
        self.without_verdict = 0
        self.weak: dict[str, str] = {}

    def take(self, pool: Sequence[Problem], wanted: int, *, task: str, keep_weak: bool) -> list[Problem]:
        """The first `wanted` problems of the pool that pass their checks, in its order, with their hidden tests.

        keep_weak: take weak problems too, and note them. InfraError, from the grader, when too many references could
        not be judged.
        """
        taken: list[Problem] = []
        progress = Progress("prepare", task, min(wanted, len(pool)), unit="problems")
        position = 0
        while len(taken) < wanted and position < len(pool):
            batch = pool[position : position + min(PROBLEMS_AT_ONCE, wanted - len(taken))]
            position += len(batch)
            taken += self._checked(batch, keep_weak=keep_weak)
            progress.update(len(taken))
        return taken

    def put_aside(self, problem: Problem, fault: Fault) -> None:
        """Quarantine a problem."""
        self.failed.add(problem.task_id)
        self.quarantined.append({**problem.model_dump(), "kind": fault.kind, "reason": fault.reason})

    def _checked(self, batch: Sequence[Problem], *, keep_weak: bool) -> list[Problem]:
        passing = self._passing(batch)
        weak = weak_problems(self.grader, passing)
        if not keep_weak:
            for problem in passing:
                if problem.task_id in weak:
                    self.put_aside(problem, Fault(WEAK, f"a program that {weak[problem.task_id]} passes its tests"))
            passing = [problem for problem in passing if problem.task_id not in weak]
        taken = self._passing_again(self.hidden.added_to(passing))
        self.weak |= {problem.task_id: weak[problem.task_id] for problem in taken if problem.task_id in weak}
        return taken

    def _passing(self, batch: Sequence[Problem]) -> list[Problem]:
        given = [_without(problem, _generated(problem)) for problem in batch]  # what was prepared before has others
        verdicts = self._verdicts([(problem, problem.tests + problem.hidden_tests) for problem in given])
        passing = []
        for problem, verdict in zip(batch, verdicts, strict=True):
            if not verdict.passed:
                kind = SLOW if verdict.outcome == TIMEOUT else REFERENCE
                self._quarantine(problem, verdict, kind, reason_of(problem, verdict))
            elif SPARE_TIME * verdict.cpu_ms > 1000 * self.grader.test_timeout_s:
                self._quarantine(problem, verdict, SLOW, self._too_slow(verdict))
            else:
                passing.append(problem.model_copy(update={"reference_cpu_ms": round(verdict.cpu_ms, 3)}))
        return passing

    def _too_slow(self, verdict: Verdict) -> str:
        return (
            f"its reference takes {verdict.cpu_ms / 1000:.1f} s of CPU, too near the {self.grader.test_timeout_s:g} s "
            "that test_timeout_s gives a program: right ones could run out of time"
        )

    def _passing_again(self, batch: Sequence[Problem]) -> list[Problem]:
        """Those that pass a second time, all tests backwards.

        A generated test that fails is left out, and half of the generated ones when the time runs out: wherever that is
        seen, it is they that take it, for the tests that the problem came with left half of it unused.
        """
        settled: dict[str, Problem | None] = {}
        waiting = list(batch)
        for attempt in range(TRIES):
            runs = [(problem, problem.hidden_tests[::-1] + problem.tests[::-1]) for problem in waiting]
            verdicts = self._verdicts(runs)
            again = []
            for problem, verdict in zip(waiting, verdicts, strict=True):
                if verdict.passed:
                    settled[problem.task_id] = self._within_time(problem, verdict)
                elif to_blame := _to_blame(problem, verdict):
                    again.append(_without(problem, to_blame if attempt < TRIES - 2 else _generated(problem)))
                else:
                    settled[problem.task_id] = None
                    reason = f"its reference passed once and not again: {verdict.outcome} ({verdict.detail})"
                    self._quarantine(problem, verdict, FLAKY, reason)
            waiting = again
        return [found for problem in batch if (found := settled.get(problem.task_id)) is not None]

    def _within_time(self, problem: Problem, verdict: Verdict) -> Problem:
        """The problem with as many generated tests as its reference runs in its share of the time limit."""
        allowed_ms = HIDDEN_SHARE * 1000 * timeout_of(problem, self.grader.test_timeout_s)
        generated = _generated(problem)
        if verdict.cpu_ms <= allowed_ms or not generated:
            return problem
        kept = int(len(generated) * allowed_ms / verdict.cpu_ms)
        return _without(problem, generated[kept:])

    def _verdicts(self, runs: Sequence[tuple[Problem, list[str]]]) -> list[Verdict]:
        """The verdicts on references, each with the tests given."""
        with_tests = [problem.model_copy(update={"tests": tests}) for problem, tests in runs]
        return self.grader.grade([(problem, problem.reference) for problem in with_tests])

    def _quarantine(self, problem: Problem, verdict: Verdict, kind: str, reason: str) -> None:
        if verdict.passed is None:
            kind, reason = REFERENCE, f"its reference could not be judged: {verdict.detail}"
            self.without_verdict += 1
        self.put_aside(problem, Fault(kind, reason))


def _to_blame(problem: Problem, verdict: Verdict) -> list[int]:
    """Places of the generated tests without which a reference may pass again, its tests having run backwards."""
    generated = _generated(problem)
    if verdict.outcome == TIMEOUT:
        return generated[len(generated) // 2 :]
    place = None if verdict.failing_test is None else len(problem.hidden_tests) - 1 - verdict.failing_test
    return [place] if place in generated else []


def _generated(problem: Problem) -> list[int]:
    """Places of the generated hidden tests."""
    return [place for place, origin in enumerate(problem.hidden_tests_from) if origin == GENERATED]


def _without(problem: Problem, places: Sequence[int]) -> Problem:
    kept = [place for place in range(len(problem.hidden_tests)) if place not in places]
    return problem.model_copy(
        update={
            "hidden_tests": [problem.hidden_tests[place] for place in kept],
            "hidden_tests_from": [problem.hidden_tests_from[place] for place in kept],
        }
    )


def reason_of(problem: Problem, verdict: Verdict) -> str:
    """Why a reference is quarantined, in one clause."""
    test = verdict.failing_test
    where = ""
    if test is not None:
        hidden = test - len(problem.tests)
        where = f" in challenge test {hidden + 1}" if hidden >= 0 else f" in test {test + 1}"
    return f"its reference does not pass: {verdict.outcome}{where}" + (f" ({verdict.detail})" if verdict.detail else "")
