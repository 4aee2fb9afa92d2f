"""How a training run is cut into optimiser steps, and in which order the prompts come.

All epochs are written out in shuffled order beforehand and the trainer goes through them once. A run that resumes
then sees the same prompts in the same order; TRL's own shuffling starts again at its seed in later epochs.
"""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from components.shared.errors import UserError
from components.shared.problem import Problem

LARGEST_AUTO_MICRO_BATCH = {"cuda": 8, "cpu": 64}


@dataclass(frozen=True)
class Schedule:
    """Batch arithmetic in completions: `micro_batch_size * accumulation * processes = batch_size` at each step."""

    steps: int
    epochs: int
    problems: int
    batch_size: int
    micro_batch_size: int
    prompts_per_step: int
    processes: int = 1

    @property
    def share(self) -> int:
        """Completions of a step that each process works on."""
        return self.batch_size // self.processes

    @property
    def accumulation(self) -> int:
        """Micro batches of each process in a step."""
        return self.share // self.micro_batch_size

    def epoch_at(self, step: int) -> float:
        """How many times the problems have been gone through after `step` steps."""
        return min(float(self.epochs), step * self.prompts_per_step / self.problems)


def plan(
    *, problems: int, epochs: int, batch_size: int, num_generations: int, micro_batch_size: int, processes: int = 1
) -> Schedule:
    """The schedule for `problems` training problems; UserError when they do not fill one step."""
    share = batch_size // processes
    if micro_batch_size and share % micro_batch_size:
        raise UserError(
            f"micro_batch_size {micro_batch_size} does not divide the {share} completions that each of {processes} "
            "processes gets of a step: use a divisor of that, or 0 for auto."
        )
    prompts_per_step = batch_size // num_generations
    steps = problems * epochs // prompts_per_step
    if steps == 0:
        raise UserError(
            f"{problems} training problems in {epochs} epochs do not fill one step of {prompts_per_step} prompts: "
            f"lower batch_size to at most {max(1, problems * epochs) * num_generations}, or raise "
            "max_candidate_samples."
        )
    return Schedule(
        steps=steps,
        epochs=epochs,
        problems=problems,
        batch_size=batch_size,
        micro_batch_size=micro_batch_size or auto_micro_batch(share),
        prompts_per_step=prompts_per_step,
        processes=processes,
    )


def auto_micro_batch(batch_size: int, device: str = "") -> int:
    """The largest divisor of batch_size that fits the rule of thumb for `device`, cuda or cpu; empty for this one's."""
    most = LARGEST_AUTO_MICRO_BATCH[device or ("cuda" if torch.cuda.is_available() else "cpu")]
    return max(size for size in range(1, min(batch_size, most) + 1) if batch_size % size == 0)


def prompt_order(problems: Sequence[Problem], epochs: int, seed: int) -> list[Problem]:
    """Every problem once per epoch, each epoch in an order of its own; the same for the same seed."""
    order: list[Problem] = []
    for epoch in range(epochs):
        shuffled = list(problems)
        random.Random(f"{seed}/epoch {epoch}").shuffle(shuffled)
        order += shuffled
    return order


def digest_of_problems(problems: Sequence[Problem]) -> str:
    """What prompts and rewards follow from, in their order; measured times and hidden tests are no part of it."""
    facts = [(one.task_id, one.prompt, one.prelude, one.setup, one.tests) for one in problems]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
