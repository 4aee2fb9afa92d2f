"""Rollouts that meet a policy whose logits are no numbers: the advice is for what it computes in."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from components.shared.errors import UserError
from components.shared.models import load_model, load_tokenizer
from components.train.dynamic import make_rollouts
from components.train.interruption import Interruption
from tests.conftest import DEMO_MODEL, demo_problems
from tests.train.conftest import parameters

FP16, FP32 = "inf or nan in fp16, .* use precision bf16 or fp32", "inf or nan even in fp32"


@pytest.mark.parametrize("tokens", [0, 1000], ids=["plain", "dynamic"])
@pytest.mark.parametrize(("precision", "said"), [("fp16", FP16), ("fp32", FP32)])
def test_full_fine_tuning_at_fp16_is_advised_for_fp16_though_its_weights_are_fp32(
    precision: str, said: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:  # fp16 is for CUDA alone, where Trainer's autocast computes in it
        elsewhere.setattr(torch.cuda, "is_available", lambda: True)
        given = parameters(method="full", precision=precision, dynamic_sampling_tokens=tokens)
        tokenizer = load_tokenizer(str(DEMO_MODEL), "", use_chat_template=False)
        rollouts = make_rollouts(tokenizer, given, Interruption(), order=[], reward=None)
    policy = load_model(str(DEMO_MODEL), "", torch.float32)  # as grpo.load_policy has it for both
    policy.lm_head.register_forward_hook(lambda _module, _inputs, logits: logits * float("inf"))
    trainer: Any = SimpleNamespace(model=policy, accelerator=SimpleNamespace(unwrap_model=lambda model: model))
    with pytest.raises(UserError, match=said):
        rollouts.draw([demo_problems(1)[0].prompt], ["step 0/row 0"], trainer)
