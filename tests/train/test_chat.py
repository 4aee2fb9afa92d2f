"""A model whose name or tokens do not fit use_chat_template gets a warning; one that fits gets none."""

from typing import Any

import pytest
from transformers import AutoTokenizer

from components.train.chat import chat_warnings, end_of_turn
from tests.conftest import DEMO_MODEL


@pytest.fixture
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(DEMO_MODEL)


@pytest.mark.parametrize(
    ("name", "on", "said"),
    [
        ("Qwen/Qwen2.5-Coder-7B", False, None),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", True, None),
        ("./models/gemma-3-4b-it/", True, None),
        ("org/sitting-duck", False, None),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", False, "looks instruction-tuned, and use_chat_template is off"),
        ("Qwen/Qwen2.5-Coder-7B", True, "looks like a base model, and use_chat_template is on"),
    ],
)
def test_name_and_template(tokenizer: Any, name: str, on: bool, said: str | None) -> None:
    ends = [tokenizer.convert_tokens_to_ids("<|im_end|>")]
    warnings = chat_warnings(name, tokenizer, ends, use_chat_template=on)
    assert len(warnings) == (said is not None)
    assert said is None or said in warnings[0]


def test_a_turn_that_ends_with_another_token_than_completions_do(tokenizer: Any) -> None:
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert end_of_turn(tokenizer) == end
    (warning,) = chat_warnings("a-chat", tokenizer, [tokenizer.pad_token_id], use_chat_template=True)
    assert "ends a turn with <|im_end|>, which does not end its completions" in warning
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    assert end_of_turn(tokenizer) is None
