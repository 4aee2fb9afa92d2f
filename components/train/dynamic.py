"""Dynamic sampling: groups without variance are replaced by groups of other problems (DAPO, Yu et al. 2025, 3.2).

The step's own groups are drawn and judged first, exactly as without it. Then, in rounds, as many other problems are
tried as groups are to be replaced, while the worst case of a round still fits the step's token budget. What stays
without variance stays in the batch, whose size never changes, and teaches nothing.
"""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.shared.models import resolve_precision
from components.shared.problem import Problem
from components.shared.sampling import Completion, Sampling
from components.train.interruption import Interruption
from components.train.metrics import kind_of_group
from components.train.rewards import Judged, TestReward
from components.train.rollouts import Rollouts, names_of


@dataclass
class Group:
    """The completions of one problem, with what the tests say of them."""

    problem: Problem
    completions: list[Completion]
    judged: list[Judged]

    @property
    def teaches(self) -> bool:
        return kind_of_group(self.judged) == "mixed"


class DynamicRollouts(Rollouts):
    """Rollouts that replace groups without variance. tokens: how many a step may draw for that, at most.

    order: the problems as the trainer goes through them. `drawn` says what the last step drew: groups in all and mixed
    ones among them, groups replaced, tokens beyond the batch.
    """

    def __init__(
        self, *given: Any, order: Sequence[Problem], num_generations: int, tokens: int, reward: TestReward
    ) -> None:
        super().__init__(*given)
        self.order, self.num_generations, self.tokens, self.reward = order, num_generations, tokens, reward
        self.every = list({problem.task_id: problem for problem in order}.values())
        self.drawn: dict[str, int] = {}

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        with self.interruption.at_once():
            began = time.perf_counter()
            judging_before = self.reward.seconds_before
            groups = self._replace(self._own_groups(prompts, trainer), trainer)
            self.seconds = time.perf_counter() - began - (self.reward.seconds_before - judging_before)
            completions = [completion for group in groups for completion in group.completions]
            ids = [group.problem.task_id for group in groups for _ in group.completions]
            return {**self.for_trl(completions), "task_id": ids}

    def _own_groups(self, prompts: Sequence[str], trainer: Any) -> list[Group]:
        count = len(prompts) // self.num_generations
        step = trainer.state.global_step
        problems = self.order[step * count : (step + 1) * count]
        if [problem.prompt for problem in problems] != list(prompts[:: self.num_generations]):
            raise RuntimeError("the trainer's prompts are not the next ones of the order")
        return self._draw_groups(problems, names_of(prompts, trainer), trainer)

    def _replace(self, groups: list[Group], trainer: Any) -> list[Group]:
        step = trainer.state.global_step
        own = {group.problem.task_id for group in groups}
        waiting = [problem for problem in self.every if problem.task_id not in own]
        random.Random(f"{self.seed}/replacements {step}").shuffle(waiting)
        flat = [place for place, group in enumerate(groups) if not group.teaches]
        self.drawn = {"groups": len(groups), "mixed": len(groups) - len(flat), "replaced": 0, "tokens": 0}
        worst = self.num_generations * self.sampling.max_completion_length
        while flat and waiting and self.tokens - self.drawn["tokens"] >= worst:
            count = min(len(flat), (self.tokens - self.drawn["tokens"]) // worst)
            problems, waiting = waiting[:count], waiting[count:]
            first = self.drawn["groups"] * self.num_generations
            rows = len(problems) * self.num_generations
            names = [f"step {step}/row {row}" for row in range(first, first + rows)]
            tried = self._draw_groups(problems, names, trainer)
            mixed = [group for group in tried if group.teaches]
            for place, group in zip(flat, mixed, strict=False):
                groups[place] = group
            flat = flat[len(mixed) :]
            self.drawn["groups"] += len(tried)
            self.drawn["mixed"] += len(mixed)
            self.drawn["replaced"] += len(mixed)
            self.drawn["tokens"] += sum(len(one.token_ids) for group in tried for one in group.completions)
        return groups

    def _draw_groups(self, problems: Sequence[Problem], names: Sequence[str], trainer: Any) -> list[Group]:
        rows = [problem for problem in problems for _ in range(self.num_generations)]
        completions = self.draw([problem.prompt for problem in rows], names, trainer)
        began = time.perf_counter()
        judged = self.reward.judge(
            rows, [one.text for one in completions], [one.ended_by for one in completions], names
        )
        self.reward.remember(judged, time.perf_counter() - began)
        return [
            Group(
                problem, completions[start : start + self.num_generations], judged[start : start + self.num_generations]
            )
            for problem, start in zip(problems, range(0, len(rows), self.num_generations), strict=True)
        ]


def make_rollouts(
    tokenizer: Any,
    given: Mapping[str, Any],
    interruption: Interruption,
    *,
    order: Sequence[Problem],
    reward: TestReward,
) -> Rollouts:
    """The rollouts that the step's parameters ask for: dynamic ones with dynamic_sampling_tokens."""
    dtype = resolve_precision(given["precision"])
    common = (tokenizer, Sampling.from_parameters(given), given["seed"], interruption, dtype)
    tokens = given["dynamic_sampling_tokens"]
    if not tokens:
        return Rollouts(*common)
    return DynamicRollouts(*common, order=order, num_generations=given["num_generations"], tokens=tokens, reward=reward)
