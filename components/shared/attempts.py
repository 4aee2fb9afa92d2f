"""Sampling and grading in one: what a model makes of each problem, judged. filter and evaluate read its counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from components.shared.grading import Grader
from components.shared.problem import Problem
from components.shared.program import program_of
from components.shared.sampling import Completion, Sampling, rows_at_once, sample
from components.shared.sandbox import Verdict


@dataclass(frozen=True)
class Attempt:
    """One completion, the program it makes and the sandbox's verdict on it."""

    completion: Completion
    program: str
    verdict: Verdict


def passes(attempts: Sequence[Attempt]) -> int:
    return sum(attempt.verdict.passed is True for attempt in attempts)


def judged(attempts: Sequence[Attempt]) -> int:
    """How many could be judged: an infrastructure failure is no attempt that failed."""
    return sum(attempt.verdict.passed is not None for attempt in attempts)


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
) -> list[list[Attempt]]:
    """`samples` judged attempts at each problem, in order; on_progress gets the number of completions drawn."""
    completions = sample(
        model,
        tokenizer,
        problems,
        sampling,
        samples=samples,
        seed=seed,
        batch_size=rows_at_once(model),
        on_progress=on_progress,
    )
    drawn = [
        (problem, one, program_of(problem, one.text, use_chat_template=sampling.use_chat_template))
        for problem, group in zip(problems, completions, strict=True)
        for one in group
    ]
    verdicts = grader.grade([(problem, program) for problem, _, program in drawn])
    attempts = [Attempt(one, program, verdict) for (_, one, program), verdict in zip(drawn, verdicts, strict=True)]
    return [attempts[start : start + samples] for start in range(0, len(attempts), samples)]
