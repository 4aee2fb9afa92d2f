"""Hidden tests made by us: mutated inputs of the visible tests, answered by the reference.

They are never a reward and never shown. A program that passes the visible tests and fails these has learned the tests
and not the task.
"""

import ast
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from components.prepare.mutation import mutated_inputs
from components.prepare.oracle import Answer, Question, answers, make_test
from components.prepare.python_text import parse
from components.prepare.visible import Arguments, usual_view, visible_calls
from components.shared.grading import Grader, timeout_of
from components.shared.problem import GENERATED, Problem

SPARE = 1.25  # inputs to ask for, in tests wanted: some have no answer, and different answers are worth more
SECOND_SPARE = 4.0  # the same for problems that got too few


@dataclass(frozen=True)
class HiddenTests:
    """Makes hidden tests. wanted: how many a problem, 0 for none; seed: decides the inputs, for each problem apart."""

    grader: Grader
    wanted: int
    seed: int

    def added_to(self, problems: Sequence[Problem]) -> list[Problem]:
        """The problems with their generated tests behind those they came with, in the same order."""
        found = self._answers(problems, [self._inputs(problem, SPARE) for problem in problems])
        short = [place for place, each in enumerate(found) if len(each) < self._lacking(problems[place])]
        more = {place: self._inputs(problems[place], SECOND_SPARE)[self._count(SPARE) :] for place in short}
        asked = [place for place in short if more[place]]
        extra = self._answers([problems[place] for place in asked], [more[place] for place in asked])
        for place, each in zip(asked, extra, strict=True):
            found[place] += each
        return [self._with_tests(problem, each) for problem, each in zip(problems, found, strict=True)]

    def _lacking(self, problem: Problem) -> int:
        """How many tests a problem is to get; one that was prepared before may have them."""
        return max(0, self.wanted - problem.hidden_tests_from.count(GENERATED))

    def _count(self, spare: float) -> int:
        return math.ceil(spare * self.wanted)

    def _inputs(self, problem: Problem, spare: float) -> list[Arguments]:
        """Inputs of a problem that lacks tests; asked for more, the same are the first of them."""
        if not self._lacking(problem):
            return []
        seeds = [call.arguments for call in visible_calls(problem.tests, problem.entry_point)]
        rng = random.Random(f"{self.seed} hidden tests {problem.task_id}")
        return mutated_inputs(seeds, self._count(SECOND_SPARE), rng)[: self._count(spare)]

    def _answers(self, problems: Sequence[Problem], inputs: Sequence[list[Arguments]]) -> list[list[Answer]]:
        asked = [place for place, each in enumerate(inputs) if each]
        limits = [timeout_of(problems[place], self.grader.test_timeout_s) for place in asked]
        questions = [
            Question(problems[place], inputs[place], limit) for place, limit in zip(asked, limits, strict=True)
        ]
        found: list[list[Answer]] = [[] for _ in problems]
        for place, each in zip(asked, answers(self.grader, questions), strict=True):
            found[place] = each
        return found

    def _with_tests(self, problem: Problem, found: Sequence[Answer]) -> Problem:
        view = usual_view(visible_calls(problem.tests, problem.entry_point))
        known = set(map(_shape, [*problem.tests, *problem.hidden_tests]))
        tests = (make_test(problem, answer, view=view) for answer in varied(found))
        new = [test for test in tests if test is not None and _shape(test) not in known]
        return with_hidden(problem, new[: self._lacking(problem)], GENERATED)


def with_hidden(problem: Problem, tests: Sequence[str], origin: str) -> Problem:
    """The problem with further hidden tests of one origin."""
    return problem.model_copy(
        update={
            "hidden_tests": [*problem.hidden_tests, *tests],
            "hidden_tests_from": [*problem.hidden_tests_from, *[origin] * len(tests)],
        }
    )


def varied(found: Iterable[Answer]) -> list[Answer]:
    """The answers in turns of different values, so that the first few are not all True."""
    by_value: dict[str, list[Answer]] = {}
    for answer in found:
        by_value.setdefault(repr(answer.value), []).append(answer)
    turns = [(turn, place) for place, same in enumerate(by_value.values()) for turn in range(len(same))]
    values = list(by_value.values())
    return [values[place][turn] for turn, place in sorted(turns)]


def _shape(test: str) -> str:
    return ast.dump(parse(test))
