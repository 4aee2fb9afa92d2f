"""The plan against the real thing: what torch holds for tiny real models, to the byte where that is promised."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen2Config
from trl.trainer.utils import add_fused_lm_head

from bench.gpu_check import SHAPES
from components.shared.errors import UserError
from components.shared.sampling import rows_at_once
from components.train.devices import DEVICES, device_like
from components.train.estimate import estimate
from components.train.plan import GIB, Load, activations, kv_cache, memory, planned_load, refuse_if_too_large
from components.train.shape import Shape, shape_of
from pipeline import grpo_code
from tests.train.conftest import four_bit_policy
from tests.train.live_memory import LiveMemory

QWEN = {
    "hidden_size": 128,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
}
QWEN_7B = {"model_type": "qwen2", **SHAPES["7B"]}
QWEN_1_5B = {
    "model_type": "qwen2",
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
CONFIGS = [
    Qwen2Config(**QWEN, tie_word_embeddings=True),
    Qwen2Config(**QWEN, tie_word_embeddings=False),
    LlamaConfig(**QWEN, head_dim=16),
    GPT2Config(n_embd=64, n_layer=2, n_head=2, vocab_size=300),
]
PLAN = "components.train.plan"
GIVEN: dict[str, Any] = {
    "method": "lora",
    "beta": 0.04,
    "lora_r": 4,
    "batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 24,
}


def load(**changes: Any) -> Load:
    settings = {"dtype": torch.float32, "cuda": False, "micro": 8, "prompt_tokens": 40}
    settings |= {name: changes.pop(name) for name in list(changes) if name in settings}
    return Load.of({**GIVEN, **changes}, **settings)


def bytes_of(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def policy(config: Any, method: str, dtype: torch.dtype, *, checkpointing: bool = False) -> Any:
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if method == "lora":
        model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
        if checkpointing:
            model.enable_input_require_grads()
    return model.train()


def one_step(model: Any, ids: torch.Tensor, scored: int) -> None:
    """Forward and backward as GRPOTrainer does it: only the last `scored` tokens of each row count."""
    labels = ids.clone()
    labels[:, :-scored] = -100
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    output = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)
    output.log_probs.sum().backward()


@pytest.mark.parametrize("method", ["lora", "full"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.model_type} {config.tie_word_embeddings}")
def test_what_stays_is_counted_to_the_byte(config: Any, dtype: torch.dtype, method: str) -> None:
    shape = shape_of(config.to_dict(), "the model")
    model = policy(config, method, dtype)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained)
    one_step(model, torch.arange(20).reshape(2, 10), 4)
    optimiser.step()
    planned = memory(shape, load(method=method, beta=0.0, dtype=dtype))
    frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
    assert planned.weights == bytes_of(frozen if method == "lora" else trained)
    assert planned.adapter == (bytes_of(trained) if method == "lora" else 0)
    assert planned.gradients == bytes_of(parameter.grad for parameter in trained)
    states = [state[name] for state in optimiser.state.values() for name in ("exp_avg", "exp_avg_sq")]
    assert planned.optimiser == bytes_of(states)


def test_a_four_bit_base_is_counted_to_the_byte() -> None:
    policy = four_bit_policy()
    shape = shape_of(policy.config.to_dict(), "the model")
    assert policy.num_parameters() == shape.parameters
    scales = [weight.quant_state.absmax for weight in policy.parameters() if hasattr(weight, "quant_state")]
    planned = memory(shape, load(method="qlora"))
    assert planned.weights == bytes_of(policy.parameters()) + bytes_of(scales)
    assert rows_at_once(policy) == shape.rows_at_once


@pytest.mark.parametrize("layers", [2, 6])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("method", ["lora", "full"])
def test_activations_are_those_of_a_real_step(
    method: str, checkpointing: bool, layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 10 %, gradients included. The head's tile is narrow: on a CPU its arithmetic needs more than CUDA's."""
    for module, name in (("trl.trainer.utils", "_CHUNKED_LOGPROB_CHUNK_SIZE"), (PLAN, "TILE_VOCABULARY")):
        monkeypatch.setattr(f"{module}.{name}", 16)
    config = Qwen2Config(**{**QWEN, "num_hidden_layers": layers}, tie_word_embeddings=True)
    model, shape = policy(config, method, torch.float32, checkpointing=checkpointing), shape_of(config.to_dict(), "it")
    with LiveMemory([*model.parameters(), *model.buffers()]) as live:
        for _ in range(2):  # gradients are there while the second micro batch is computed
            one_step(model, torch.ones(8, 128, dtype=torch.long), 64)
    asked = replace(load(method=method, prompt_tokens=64, max_completion_length=64), checkpointing=checkpointing)
    planned = memory(shape, asked)
    assert live.peak == pytest.approx(planned.activations + planned.gradients, rel=0.1)


def test_the_cache_is_that_of_a_real_generation() -> None:
    config = Qwen2Config(**QWEN)
    model, shape = AutoModelForCausalLM.from_config(config).eval(), shape_of(config.to_dict(), "it")
    output = model.generate(
        torch.ones(8, 40, dtype=torch.long), max_new_tokens=24, min_new_tokens=24, return_dict_in_generate=True
    )
    held = bytes_of(part for layer in output.past_key_values.layers for part in (layer.keys, layer.values))
    logits = 8 * 300 * 16
    one_token, growing = held // 63, held * 64 // 63 // 4  # the last token's is never cached; a layer exists twice
    assert kv_cache(shape, load()) == held + one_token + growing + logits


def test_the_cache_is_that_of_what_is_drawn_at_once() -> None:
    shape = replace(shape_of(QWEN_7B, "it"), rows_at_once=32)
    assert kv_cache(shape, load(batch_size=128)) == kv_cache(shape, load(batch_size=32))
    assert kv_cache(shape, load(batch_size=16)) < kv_cache(shape, load(batch_size=32))


def test_only_full_with_beta_has_a_reference_copy() -> None:
    shape = shape_of(QWEN_7B, "it")
    bf16 = {"dtype": torch.bfloat16, "cuda": True}
    assert memory(shape, load(method="lora", **bf16)).reference == 0
    assert memory(shape, load(method="full", beta=0.0, **bf16)).reference == 0
    full = memory(shape, load(method="full", **bf16))
    assert full.reference == full.weights == 2 * shape.parameters
    assert memory(shape, load(method="full", dtype=torch.float16, cuda=True)).weights == 4 * shape.parameters


def test_a_gpu_without_bf16_is_planned_with_what_training_uses_there() -> None:
    shape = shape_of(QWEN_1_5B, "it")
    given = {**GIVEN, "method": "full", "beta": 0.0, "gpus": "1", "precision": "auto", "micro_batch_size": 1}
    t4, l4 = (planned_load(given, prompt_tokens=256, device=DEVICES[name]) for name in ("T4", "L4"))
    assert t4 == Load.of(given, dtype=torch.float16, cuda=True, micro=1, prompt_tokens=256)
    assert l4 == Load.of(given, dtype=torch.bfloat16, cuda=True, micro=1, prompt_tokens=256)
    assert memory(shape, t4).weights == 2 * memory(shape, l4).weights == 4 * shape.parameters
    with pytest.raises(UserError, match=r"needs about 3\d\.\d GiB and the T4 has 15\.0 GiB: use method lora\."):
        refuse_if_too_large(shape, t4, 15 * GIB, "the T4")
    lora = memory(shape, planned_load({**given, "method": "lora"}, prompt_tokens=256, device=DEVICES["T4"]))
    with pytest.raises(UserError, match=r"use method lora\."):  # in fp16, without full's fp32 weights
        refuse_if_too_large(shape, t4, lora.needed, "the T4")
    chosen = planned_load({**given, "precision": "bf16"}, prompt_tokens=256, device=DEVICES["T4"])
    assert chosen == l4


def test_a_base_in_four_bits_is_about_a_third() -> None:
    shape = shape_of(QWEN_7B, "it")
    planned = memory(shape, load(method="qlora", dtype=torch.bfloat16, cuda=True))
    assert shape.parameters == 7_615_616_512  # as the hub says of Qwen2.5-Coder-7B
    assert planned.weights == pytest.approx(5.45 * GIB, rel=0.01)


@pytest.mark.parametrize(
    ("changes", "gib", "said"),
    [
        ({"micro": 8}, 17.5, r"needs about 18\.\d GiB and the GPU has 17\.5 GiB: use micro_batch_size 4\."),
        ({"micro": 1}, 14, "use method qlora"),
        ({"micro": 8, "method": "full"}, 70, "use beta 0 and micro_batch_size 1|micro_batch_size 4"),
        ({"micro": 8, "method": "full"}, 24, r"use method lora\."),
        ({"micro": 8}, 2, "use a smaller model_name, or a larger GPU"),
    ],
)
def test_what_cannot_fit_is_refused_with_what_would(changes: dict[str, Any], gib: float, said: str) -> None:
    asked = load(
        **{"max_completion_length": 192, "prompt_tokens": 256, "dtype": torch.bfloat16, "cuda": True, **changes}
    )
    with pytest.raises(UserError, match=said):
        refuse_if_too_large(shape_of(QWEN_7B, "it"), asked, round(gib * GIB), "the GPU")
    refuse_if_too_large(shape_of(QWEN_7B, "it"), asked, 141 * GIB, "the GPU")


def test_an_unknown_architecture_is_one_sentence() -> None:
    with pytest.raises(UserError, match="no causal language model of type 'nonsense'"):
        shape_of({"model_type": "nonsense"}, "it")


@pytest.mark.parametrize(
    ("name", "gib", "device"),
    [
        ("NVIDIA A100-SXM4-80GB", 79.3, "A100-80GB"),
        ("NVIDIA A100-PCIE-40GB", 39.4, "A100-40GB"),
        ("NVIDIA H200", 139.8, "H200"),
        ("Tesla T4", 14.6, "T4"),
        ("NVIDIA L40S", 44.4, "L40S"),
        ("NVIDIA GeForce GTX 970", 4.0, None),
    ],
)
def test_devices_are_found_by_cudas_name(name: str, gib: float, device: str | None) -> None:
    found = device_like(name, gib)
    assert (found.name if found else None) == device


def times(shape: Shape, **changes: Any) -> Any:
    given = {**GIVEN, "max_completion_length": 192, "use_filter": False, "num_eval_examples": 50, "eval_k": 4}
    given |= {"max_candidate_samples": 300, "filter_samples": 4, "init_adapter": "", **changes}
    asked = Load.of(given, dtype=torch.bfloat16, cuda=True, micro=8, prompt_tokens=256)
    return estimate(shape, asked, given, steps=600, device=DEVICES["A100-80GB"])


def test_an_estimate_follows_from_the_work() -> None:
    shape = shape_of(QWEN_7B, "it")
    lora, full, filtered = times(shape), times(shape, method="full"), times(shape, use_filter=True)
    assert lora.completion_tokens == 600 * 8 * 192
    assert lora.phases["update"] < full.phases["update"]  # full computes the weights' gradients as well
    assert list(filtered.seconds) == ["filter", "train", "evaluate"]
    assert filtered.price(2.0, 1) == pytest.approx(filtered.total_seconds / 1800)
    # 2 * 7.6e9 * (forward, backward, recomputed, reference) * tokens / (35 % of 312 TFLOP/s)
    assert lora.phases["update"] == pytest.approx(2 * 7.6156e9 * 4 * 600 * 8 * 448 / (0.35 * 312e12), rel=1e-3)
    assert activations(shape, load(cuda=True)) < activations(shape, load(cuda=False))


def test_several_gpus_share_a_step_and_hold_their_gradients_twice() -> None:
    shape = shape_of(QWEN_7B, "it")
    given = {**GIVEN, "max_completion_length": 192, "gpus": "3", "precision": "bf16", "micro_batch_size": 0}
    two = planned_load(given, prompt_tokens=256, device=DEVICES["H100"])  # 3 do not divide 8 completions
    one = planned_load({**given, "gpus": "1"}, prompt_tokens=256, device=DEVICES["H100"])
    assert (two.processes, two.share, two.micro_batch_size) == (2, 4, 4)
    assert memory(shape, two).gradients == 2 * memory(shape, one).gradients
    assert memory(shape, two).weights == memory(shape, one).weights
    assert kv_cache(shape, two) < kv_cache(shape, one)
    given |= {"use_filter": False, "num_eval_examples": 50, "eval_k": 4}
    alone, shared = (estimate(shape, asked, given, steps=600, device=DEVICES["H100"]) for asked in (one, two))
    assert shared.phases["update"] == pytest.approx(alone.phases["update"] / 2)
    assert shared.phases["reward"] == alone.phases["reward"]
    assert shared.price(3.0, 3) == pytest.approx(3 * shared.price(3.0, 1))
    with pytest.raises(UserError, match="use micro_batch_size 2"):
        refuse_if_too_large(shape, two, memory(shape, replace(two, micro_batch_size=2)).needed, "the GPU")


@pytest.mark.parametrize("name", ["A100-80GB", "H100"])
def test_judging_is_a_small_part_of_a_step_with_the_defaults(name: str) -> None:
    given = {parameter: spec.default for parameter, spec in grpo_code.component_spec.inputs.items()}
    asked = Load.of(given, dtype=torch.bfloat16, cuda=True, micro=8, prompt_tokens=256)
    phases = estimate(shape_of(QWEN_7B, "it"), asked, given, steps=600, device=DEVICES[name]).phases
    assert phases["reward"] <= 0.05 * sum(phases.values())


def test_training_starts_with_its_plan(train: Any, capsys: pytest.CaptureFixture[str]) -> None:
    train()
    told = capsys.readouterr().out
    assert "train: plan: at most" in told
    assert told.index("plan: at most") < told.index("M parameters")
