"""The reward: 1.0 when a completion's program passes all tests, else 0.0; None when it could not be judged.

A truncated completion did not finish its program: its tokens stay out of the loss, and its reward is 0.0, or None with
truncated_reward none. The zero in the group's mean is what teaches the policy to finish. Measured on the base of
tests/train/test_unending_base.py, which never says EOS and truncates 30 % of its completions (pass@1 18 %; 60 steps, 3
seeds, 40 held-out problems x 4): with the zero 75 to 81 % pass and 7 to 11 % are truncated; with None 63 to 66 % and 40
to 54 %. None suits a model that ends by itself whenever it has room: a program that is merely long does not count as a
wrong one then.

The whole batch is judged in one call of the client.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from components.shared.grading import Grader, reward_of
from components.shared.problem import Problem
from components.shared.program import program_of
from components.shared.sandbox import Verdict
from components.train.interruption import Interruption
from components.train.processes import Processes


@dataclass(frozen=True)
class Judged:
    """One completion of a step with all that is known of it."""

    problem: Problem
    completion: str
    ended_by: str
    verdict: Verdict
    reward: float | None

    @property
    def failing_test(self) -> str | None:
        """Source of the first test that did not pass."""
        index = self.verdict.failing_test
        return self.problem.tests[index] if index is not None and index < len(self.problem.tests) else None


@dataclass
class TestReward:
    """Callable for GRPOTrainer(reward_funcs=...). truncated: the reward of a truncated completion. control: coin
    flips instead of verdicts; such a run must not learn.

    `batch` holds the last step's completions, group after group and of all processes; `seconds` the time that this
    process's verdicts took. then: what the first process does with each step's completions.
    """

    __test__ = False  # not a test class, whatever pytest thinks of its name

    grader: Grader
    problems: Mapping[str, Problem]
    use_chat_template: bool
    truncated: float | None
    control: bool
    seed: int
    interruption: Interruption
    processes: Processes
    then: Callable[[Sequence[Judged]], None]
    batch: list[Judged] = field(default_factory=list)
    seconds: float = 0.0
    seconds_before: float = 0.0
    known: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    __name__: str = "tests"

    def __call__(
        self, completions: Sequence[str], task_id: Sequence[str], ended_by: Sequence[str], trainer_state: Any, **_: Any
    ) -> list[float | None]:
        start = time.perf_counter()
        problems = [self.problems[name] for name in task_id]
        first = self.processes.index * len(completions)
        coins = [f"{trainer_state.global_step}/{first + row}" for row in range(len(completions))]
        own = self.judge(problems, completions, ended_by, coins)
        self.seconds, self.seconds_before = self.seconds_before + time.perf_counter() - start, 0.0
        self.known.clear()
        self.batch = self.processes.gather(own)
        if self.processes.main:
            self.then(self.batch)
        return [judged.reward for judged in own]

    def judge(
        self, problems: Sequence[Problem], completions: Sequence[str], ended_by: Sequence[str], coins: Sequence[str]
    ) -> list[Judged]:
        """All completions of a batch, judged in one call; coins[i] names the coin that a control flips for row i."""
        rows = list(zip(problems, completions, strict=True))
        new = [row for row in rows if (row[0].task_id, row[1]) not in self.known]
        programs = [program_of(*row, use_chat_template=self.use_chat_template) for row in new]
        with self.interruption.at_once():
            verdicts = self.grader.grade([(row[0], program) for row, program in zip(new, programs, strict=True)])
        found = {(row[0].task_id, row[1]): verdict for row, verdict in zip(new, verdicts, strict=True)}
        found |= self.known
        every = [found[problem.task_id, completion] for problem, completion in rows]
        return [
            Judged(*row, end, verdict, self._reward(verdict, end, coin))
            for row, end, verdict, coin in zip(rows, ended_by, every, coins, strict=True)
        ]

    def remember(self, batch: Sequence[Judged], seconds: float) -> None:
        """What was judged ahead of the call, in `seconds`, and need not be judged again."""
        self.known |= {(judged.problem.task_id, judged.completion): judged.verdict for judged in batch}
        self.seconds_before += seconds

    def _reward(self, verdict: Verdict, ended_by: str, name: str) -> float | None:
        if verdict.passed is None:
            return None
        truncated = ended_by == "length"
        if truncated and self.truncated is None:
            return None
        if self.control:
            return float(hashlib.sha256(f"{self.seed}/coin/{name}".encode()).digest()[0] & 1)
        return self.truncated if truncated else reward_of(verdict)
