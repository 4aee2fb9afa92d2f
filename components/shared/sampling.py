"""Completions from a model: one way to sample for filter, train and evaluate alike.

Sampling is exact ancestral sampling written as an argmax: the token with the largest `logit + Gumbel noise` is a draw
from the softmax (Gumbel 1954; Maddison et al. 2014). The noise of each completion comes from a generator of its own,
keyed by a seed and the completion's name, so that what it says depends neither on its neighbours in the
batch nor on what was sampled before. Temperature and top_p apply before the noise, as in plain sampling.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from components.shared.errors import UserError
from components.shared.program import find_stop

NO_NUMBERS = {
    torch.float16: "The model's logits are inf or nan in fp16, whose range is too small for it: use precision bf16 or "
    "fp32.",
    torch.bfloat16: "The model's logits are inf or nan in bf16: its weights are damaged, or training has diverged; use "
    "a lower lr, or precision fp32.",
    torch.float32: "The model's logits are inf or nan even in fp32: its weights are damaged, or training has diverged; "
    "check model_name and use a lower lr.",
}


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn; one value for filter, train and evaluate. Lengths in tokens."""

    temperature: float
    top_p: float
    max_completion_length: int
    use_chat_template: bool

    @classmethod
    def from_parameters(cls, given: Mapping[str, Any]) -> "Sampling":
        """The sampling that a step's parameters ask for; they have the names of the fields."""
        return cls(**{field.name: given[field.name] for field in fields(cls)})


@dataclass(frozen=True)
class Completion:
    """What the model wrote. ended_by: `eos` (it said so), `stop` (the stop rule) or `length` (truncated)."""

    text: str
    token_ids: tuple[int, ...]
    prompt_ids: tuple[int, ...]
    ended_by: str

    @property
    def truncated(self) -> bool:
        return self.ended_by == "length"


class Finite(LogitsProcessor):
    """Refuses logits that are not numbers, for a model that computes in `dtype`; UserError says what to do."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if not torch.isfinite(scores.amax(dim=-1)).all():  # nan, inf, or all of a row ruled out
            raise UserError(NO_NUMBERS.get(self.dtype, NO_NUMBERS[torch.float32]))
        return scores


class GumbelNoise(LogitsProcessor):
    """Adds each row's own Gumbel noise to its logits, of shape (rows, vocabulary); the argmax is then a sample."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self.generators = generators

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        noise = torch.empty(scores.shape, dtype=torch.float32, device=scores.device)
        for row, generator in zip(noise, self.generators, strict=True):
            row.exponential_(generator=generator)
        return scores.float() - noise.log_()


class StopRule(StoppingCriteria):
    """Ends each row of a completion-mode batch where the program's function ends (see program.find_stop)."""

    def __init__(self, tokenizer: Any, prompt_length: int, rows: int) -> None:
        self.tokenizer, self.prompt_length = tokenizer, prompt_length
        self.stopped = [False] * rows

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        open_rows = [row for row, stopped in enumerate(self.stopped) if not stopped]
        texts = self.tokenizer.batch_decode(input_ids[open_rows, self.prompt_length :], skip_special_tokens=True)
        for row, text in zip(open_rows, texts, strict=True):
            self.stopped[row] = find_stop(text) is not None
        return torch.tensor(self.stopped, device=input_ids.device)


def generator_for(seed: int, name: str, place: torch.device) -> torch.Generator:
    """The random generator of one completion, keyed by the seed and the completion's name."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator(device=place).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def model_input(tokenizer: Any, prompt: str, *, use_chat_template: bool) -> str:
    """What the model reads: the prompt itself, or the prompt as a user's turn in the chat template."""
    if not use_chat_template:
        return prompt
    messages = [{"role": "user", "content": prompt}]
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return text


def eos_ids(model: Any, tokenizer: Any) -> list[int]:
    """Every token id that ends a completion: the tokenizer's EOS and those of the model's generation config."""
    configured = model.generation_config.eos_token_id
    more = configured if isinstance(configured, list) else [] if configured is None else [configured]
    return list(dict.fromkeys([tokenizer.eos_token_id, *more]))


@torch.no_grad()
def generate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    sampling: Sampling,
    generators: Sequence[torch.Generator],
    dtype: torch.dtype | None = None,
) -> list[Completion]:
    """One completion a prompt, in order, as one batch; generators[i] decides completion i.

    dtype: what the model computes in, where autocast makes that another than its weights'.
    """
    texts = [model_input(tokenizer, prompt, use_chat_template=sampling.use_chat_template) for prompt in prompts]
    encoded = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=not sampling.use_chat_template).to(
        model.device
    )
    prompt_ids, mask = encoded["input_ids"], encoded["attention_mask"]
    stops = StopRule(tokenizer, prompt_ids.shape[1], len(prompts))
    ends = eos_ids(model, tokenizer)
    output = model.generate(
        input_ids=prompt_ids,
        attention_mask=mask,
        max_new_tokens=sampling.max_completion_length,
        do_sample=False,  # the noise makes the argmax a sample
        temperature=None,
        top_p=None,
        top_k=None,
        logits_processor=_processors(sampling, generators, dtype or model.dtype),
        stopping_criteria=StoppingCriteriaList([] if sampling.use_chat_template else [stops]),
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=ends,
        use_cache=True,
    )
    new_rows, prompt_rows = output[:, prompt_ids.shape[1] :].tolist(), prompt_ids.tolist()
    completions = []
    for row, kept, ids in zip(prompt_rows, mask.tolist(), new_rows, strict=True):
        read = tuple(token for token, keep in zip(row, kept, strict=True) if keep)
        completions.append(_completion(tokenizer, read, ids, ends, sampling))
    return completions


def _processors(sampling: Sampling, generators: Sequence[torch.Generator], dtype: torch.dtype) -> LogitsProcessorList:
    processors = LogitsProcessorList([Finite(dtype)])
    if sampling.temperature == 0:  # greedy: no noise
        return processors
    if sampling.temperature != 1.0:
        processors.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_p < 1.0:
        processors.append(TopPLogitsWarper(sampling.top_p))
    processors.append(GumbelNoise(generators))
    return processors


def _completion(
    tokenizer: Any, prompt_ids: tuple[int, ...], ids: list[int], ends: list[int], sampling: Sampling
) -> Completion:
    """Cut a padded row where its completion ended, and say what ended it."""
    end = next((place for place, token in enumerate(ids) if token in ends), None)
    if end is not None:
        kept, ended_by = ids[: end + 1], "eos"
    else:
        kept, ended_by = ids, "length"
    text = tokenizer.decode(kept, skip_special_tokens=True)
    if not sampling.use_chat_template and find_stop(text) is not None:
        kept, ended_by = _until_stop(tokenizer, kept), "stop"
        text = tokenizer.decode(kept, skip_special_tokens=True)
    return Completion(text=text, token_ids=tuple(kept), prompt_ids=prompt_ids, ended_by=ended_by)


def _until_stop(tokenizer: Any, ids: list[int]) -> list[int]:
    """The shortest prefix of token ids whose text holds the stop: the last token is the one that showed it."""
    low, high = 1, len(ids)
    while low < high:
        middle = (low + high) // 2
        if find_stop(tokenizer.decode(ids[:middle], skip_special_tokens=True)) is None:
            low = middle + 1
        else:
            high = middle
    return ids[:low]


def rows_at_once(model: Any) -> int:
    """How many completions fit one batch, by the model's size alone: its KV cache grows with both.

    What training draws at once, what its plan counts on, and where batches.Sampler starts.
    """
    millions = model.num_parameters() / 1e6  # which knows that 4-bit weights lie two in a number
    return 256 if millions < 50 else 64 if millions < 2000 else 32
