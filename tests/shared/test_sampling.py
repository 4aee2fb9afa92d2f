"""Sampling with the demo's tiny model: exact, repeatable, and ended where the stop rule says."""

from typing import Any

import pytest
import torch

from components.shared.errors import UserError
from components.shared.models import load_tokenizer
from components.shared.sampling import Finite, GumbelNoise, Sampling, generate, generator_for, model_input
from tests.builders import make_problem
from tests.conftest import DEMO_MODEL

PLAIN = Sampling(temperature=1.0, top_p=1.0, max_completion_length=24, use_chat_template=False)
PROBLEMS = [
    make_problem(str(number), prompt=f"Write a function to add {number} to a number.\n\ndef add_number({name}):")
    for number, name in enumerate(("x", "value", "n", "some_longer_name"))
]


def test_gumbel_noise_draws_from_the_softmax() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, float("-inf")])
    rows = 20_000
    noise = GumbelNoise([torch.Generator().manual_seed(seed) for seed in range(rows)])
    drawn = noise(torch.empty(rows, 0), logits.expand(rows, -1)).argmax(dim=-1)
    shares = torch.bincount(drawn, minlength=5) / rows
    # Four standard errors of a share of about a half are 0.014.
    assert torch.allclose(shares, logits.softmax(0), atol=0.014)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_not_numbers_are_answered_with_what_to_do(bad: float) -> None:
    logits = torch.tensor([[0.5, 1.0], [bad, 1.0]])
    for dtype, said in ((torch.float16, "use precision bf16 or fp32"), (torch.float32, "use a lower lr")):
        with pytest.raises(UserError, match=said):
            Finite(dtype)(torch.empty(2, 0), logits)
    ruled_out = torch.tensor([[float("-inf"), 1.0]])  # as top_p leaves them
    assert GumbelNoise([torch.Generator()])(torch.empty(1, 0), Finite(torch.float32)(None, ruled_out)).argmax() == 1


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_that_has_diverged_is_refused(model: Any, tokenizer: Any, temperature: float) -> None:
    sampling = Sampling(temperature=temperature, top_p=1.0, max_completion_length=4, use_chat_template=False)
    broken = model.lm_head.register_forward_hook(lambda _module, _inputs, logits: logits * float("nan"))
    try:
        with pytest.raises(UserError, match="inf or nan even in fp32"):
            generate(model, tokenizer, [PROBLEMS[0].prompt], sampling, [torch.Generator()])
    finally:
        broken.remove()


def test_temperature_zero_is_greedy(model: Any, tokenizer: Any) -> None:
    greedy = Sampling(temperature=0, top_p=1.0, max_completion_length=24, use_chat_template=False)
    prompts = [PROBLEMS[0].prompt] * 2
    first, second = generate(model, tokenizer, prompts, greedy, [torch.Generator(), torch.Generator()])
    assert first == second


class Scripted:
    """A model that says what it is told, row by row, and pads as transformers does."""

    def __init__(self, model: Any, tokenizer: Any, rows: list[list[int]]) -> None:
        self.device, self.dtype, self.generation_config = model.device, model.dtype, model.generation_config
        self.rows, self.pad = rows, tokenizer.pad_token_id

    def generate(self, input_ids: torch.Tensor, **_: Any) -> torch.Tensor:
        longest = max(map(len, self.rows))
        new = torch.tensor([row + [self.pad] * (longest - len(row)) for row in self.rows])
        return torch.cat([input_ids, new], dim=1)


@pytest.mark.parametrize("pad_is_eos", [False, True])
def test_what_ended_a_completion(model: Any, pad_is_eos: bool) -> None:
    tokenizer = load_tokenizer(str(DEMO_MODEL), "", use_chat_template=False)
    if pad_is_eos:
        tokenizer.pad_token = tokenizer.eos_token
    eos = tokenizer.eos_token_id

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer(text)["input_ids"]
        return found

    rows = [[*ids("\n    return x"), eos], ids("\n    return x\nprint(x)\n"), ids("\n    return x + x + x + x + x + x")]
    scripted = Scripted(model, tokenizer, rows)
    generators = [torch.Generator() for _ in rows]
    said, stopped, cut = generate(scripted, tokenizer, [PROBLEMS[0].prompt] * 3, PLAIN, generators)
    assert (said.ended_by, said.text, said.token_ids[-1]) == ("eos", "\n    return x", eos)
    assert stopped.ended_by == "stop"
    assert stopped.text.startswith("\n    return x\np")  # up to the token that showed the stop, no further
    assert len(stopped.token_ids) <= len(ids("\n    return x\nprint"))
    assert eos not in stopped.token_ids
    assert cut.ended_by == "length"
    assert cut.truncated
    assert tokenizer.decode(said.prompt_ids) == PROBLEMS[0].prompt


def test_generation_really_stops_early_at_the_stop_rule(
    model: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n    return x\nprint(x)\nprint(x)\nprint(x)\n"
    forced: list[int] = tokenizer(text)["input_ids"]
    start = len(tokenizer(PROBLEMS[0].prompt)["input_ids"])
    asked = []

    def say_the_text(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        asked.append(input_ids.shape[1] - start)
        only = torch.full_like(scores, float("-inf"))
        only[:, forced[asked[-1]]] = 0
        return only

    monkeypatch.setattr("components.shared.sampling._processors", lambda *_: [say_the_text])
    (completion,) = generate(model, tokenizer, [PROBLEMS[0].prompt], PLAIN, [torch.Generator()])
    assert completion.ended_by == "stop"
    assert len(asked) == len(completion.token_ids) < len(forced)


def test_chat_mode_goes_through_the_template(model: Any, tokenizer: Any) -> None:
    chat = Sampling(temperature=1.0, top_p=0.9, max_completion_length=8, use_chat_template=True)
    (completion,) = generate(model, tokenizer, [PROBLEMS[0].prompt], chat, [generator_for(1, "a", model.device)])
    read = tokenizer.decode(completion.prompt_ids)
    assert read == model_input(tokenizer, PROBLEMS[0].prompt, use_chat_template=True)
    assert "<|im_start|>" in read
