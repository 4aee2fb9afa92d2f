"""Sampling and grading in one: what a model makes of each problem, judged. filter and evaluate read its counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from components.shared.batches import Row, sample
from components.shared.grading import Grader
from components.shared.problem import Problem
from components.shared.program import program_of
from components.shared.sampling import Completion, Sampling
from components.shared.sandbox import Verdict


@dataclass(frozen=True)
class Attempt:
    """One completion, the program it makes and the sandbox's verdict on it."""

    completion: Completion
    program: str
    verdict: Verdict

    @property
    def passed(self) -> bool | None:
        return self.verdict.passed


class MayHavePassed(Protocol):
    """Anything that a verdict was given on; passed is None when it could not be judged."""

    @property
    def passed(self) -> bool | None: ...


def passes(attempts: Sequence[MayHavePassed]) -> int:
    return sum(attempt.passed is True for attempt in attempts)


def judged(attempts: Sequence[MayHavePassed]) -> int:
    """How many could be judged: an infrastructure failure is no attempt that failed."""
    return sum(attempt.passed is not None for attempt in attempts)


def attempt(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    sampling: Sampling,
    *,
    samples: int,
    seed: int,
    grader: Grader,
    on_progress: Callable[[int], None],
    step: str = "sampling",
) -> list[list[Attempt]]:
    """`samples` judged attempts at each problem, in order; on_progress gets the number of completions drawn."""
    completions = sample(
        model, tokenizer, problems, sampling, samples=samples, seed=seed, on_progress=on_progress, step=step
    )
    rows = [(problem, number) for problem in problems for number in range(samples)]
    attempts = judge(rows, [one for group in completions for one in group], sampling, grader)
    return [attempts[start : start + samples] for start in range(0, len(attempts), samples)]


def judge(rows: Sequence[Row], completions: Sequence[Completion], sampling: Sampling, grader: Grader) -> list[Attempt]:
    """The completions of these rows with the program that each makes and its verdict, in order."""
    programs = [
        program_of(problem, one.text, use_chat_template=sampling.use_chat_template)
        for (problem, _), one in zip(rows, completions, strict=True)
    ]
    verdicts = grader.grade([(problem, program) for (problem, _), program in zip(rows, programs, strict=True)])
    return [Attempt(*made) for made in zip(completions, programs, verdicts, strict=True)]
