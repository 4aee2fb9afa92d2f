"""Rollouts for TRL's trainer, drawn by the one sampler that filter and evaluate use too.

TRL takes a `rollout_func`; through it this module decides where a completion ends. A completion that the stop rule
ended gets an EOS, because TRL takes everything else for truncated; that EOS was not sampled, so it stays out of the
loss (`env_mask` 0). The token that showed the stop was sampled and stays in: it is how the policy says it is done.
Measured on the base of tests/train/test_unending_base.py (60 steps, 1 seed): without that EOS in the loss pass@1 went
from 18 to 81 % and truncation from 30 to 11 %, with it to 73 % and 20 %.
"""

import time
from collections.abc import Sequence
from typing import Any

import torch

from components.shared.sampling import Completion, Sampling, generate, generator_for
from components.train.interruption import Interruption


class Rollouts:
    """Callable for GRPOTrainer(rollout_func=...): one completion for each of the (already repeated) prompts.

    What a completion says depends on (seed, its name) alone, and its name on step and row, so a resumed run draws what
    the interrupted one would have drawn. `rows` is the most that is drawn at once, 0 all; `seconds` the time that the
    last batch took. dtype: what the policy computes in, which with method full and fp16 is not that of its weights.
    """

    def __init__(
        self, tokenizer: Any, sampling: Sampling, seed: int, interruption: Interruption, dtype: torch.dtype
    ) -> None:
        self.tokenizer, self.sampling, self.seed, self.interruption = tokenizer, sampling, seed, interruption
        self.dtype = dtype
        self.rows = 0
        self.seconds = 0.0

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        with self.interruption.at_once():
            began = time.perf_counter()
            completions = self.draw(prompts, names_of(prompts, trainer), trainer)
            self.seconds = time.perf_counter() - began
            return self.for_trl(completions)

    def draw(self, prompts: Sequence[str], names: Sequence[str], trainer: Any) -> list[Completion]:
        """One completion a prompt by the policy as it is now; names[i] decides what completion i says."""
        model = trainer.accelerator.unwrap_model(trainer.model)
        was_training = model.training
        model.eval()
        completions: list[Completion] = []
        at_once = self.rows or len(prompts)
        for start in range(0, len(prompts), at_once):
            part = slice(start, start + at_once)
            generators = [generator_for(self.seed, name, model.device) for name in names[part]]
            completions += generate(model, self.tokenizer, prompts[part], self.sampling, generators, self.dtype)
        model.train(was_training)
        return completions

    def for_trl(self, completions: Sequence[Completion]) -> dict[str, Any]:
        """TRL's fields, one entry a completion; logprobs None lets the trainer compute its own."""
        eos = self.tokenizer.eos_token_id
        added = [[eos] if completion.ended_by == "stop" else [] for completion in completions]
        return {
            "prompt_ids": [list(completion.prompt_ids) for completion in completions],
            "completion_ids": [[*one.token_ids, *extra] for one, extra in zip(completions, added, strict=True)],
            "env_mask": [
                [1] * len(one.token_ids) + [0] * len(extra) for one, extra in zip(completions, added, strict=True)
            ],
            "logprobs": None,
            "ended_by": [completion.ended_by for completion in completions],
        }


def names_of(prompts: Sequence[str], trainer: Any) -> list[str]:
    """The names of this process's completions of a step."""
    first = trainer.accelerator.process_index * len(prompts)
    return [f"step {trainer.state.global_step}/row {first + row}" for row in range(len(prompts))]
