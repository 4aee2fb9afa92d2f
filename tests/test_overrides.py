"""grpo_overrides is refused by name and by kind of value, without TRL; and both are those of the TRL that trains."""

import dataclasses
import enum
import inspect
import json
import re
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.overrides import CHOICES, GRPO_FIELDS, KINDS, LEAST, RESERVED_OVERRIDES, parse_overrides
from components.shared.errors import UserError

KIND_OF = {bool: "bool", int: "int", float: "number", str: "str", list: "list", dict: "dict", type(None): "null"}
# What GRPOConfig and the trainer take besides what the annotation says.
MORE = {"scale_rewards": {"bool"}, "max_grad_norm": {"null"}}
EXAMPLES: dict[str, list[Any]] = {
    "bool": [True, False], "int": [2], "number": [1, 0.5], "str": ["text"], "list": [[]], "dict": [{}], "null": [None],
}  # fmt: skip
# Where GRPOConfig itself wants a text of a certain form: a file's name or JSON, a number.
TEXTS = {"accelerator_config": "{}", "pad_to_multiple_of": "8"}
NOT_ALONE = {"dataloader_prefetch_factor": {"dataloader_num_workers": 1}}
NOT_HERE = ("tf32", "ddp_backend")  # true needs a GPU, and a name several processes


def refusal(**overrides: Any) -> str:
    with pytest.raises(UserError) as refused:
        parse_overrides(json.dumps(overrides))
    return str(refused.value)


def kinds_of(hint: Any) -> set[str]:
    """The kinds of JSON value that an annotation of GRPOConfig allows."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return set().union(*map(kinds_of, typing.get_args(hint)))
    if typing.get_origin(hint) is typing.Literal:
        return {KIND_OF[type(value)] for value in typing.get_args(hint)}
    plain = typing.get_origin(hint) or hint
    return {"str" if issubclass(plain, enum.Enum) else KIND_OF[plain]}


def test_the_fields_and_their_kinds_are_those_of_the_installed_trl() -> None:
    from trl import GRPOConfig

    hints = typing.get_type_hints(GRPOConfig)
    fields = {field.name for field in dataclasses.fields(GRPOConfig)}
    right: dict[str, list[str]] = {}
    for name in sorted(fields - set(RESERVED_OVERRIDES)):
        kinds = kinds_of(hints[name]) | MORE.get(name, set())
        right.setdefault(" ".join(kind for kind in EXAMPLES if kind in kinds), []).append(name)
    table = "\n".join(f"{kinds}:\n{textwrap.fill(' '.join(names), 112)}" for kinds, names in right.items())
    found = {name: tuple(kinds.split()) for kinds, names in right.items() for name in names}
    assert found == KINDS, f"_FIELDS should be\n{table}"
    assert fields == GRPO_FIELDS


def values_of(name: str) -> Iterator[Any]:
    """Values of every kind that a field takes, and every text where there are only some."""
    for kind in KINDS[name]:
        texts = CHOICES.get(name) or [TEXTS.get(name, "text")]
        yield from texts if kind == "str" else EXAMPLES[kind]


def test_what_is_taken_is_taken_by_grpoconfig_as_well(tmp_path: Path) -> None:
    """For every field a value of each kind, and each of the texts that are listed."""
    from trl import GRPOConfig

    ours = {
        "output_dir": str(tmp_path), "use_cpu": True, "bf16": False, "per_device_train_batch_size": 2,
        "num_generations": 2, "report_to": "none",
    }  # fmt: skip
    for name in KINDS:
        for value in values_of(name):
            overrides = {name: value, **NOT_ALONE.get(name, {})}
            assert parse_overrides(json.dumps(overrides)) == overrides
            if name not in NOT_HERE or not value:
                GRPOConfig(**ours, **overrides)
    for name, least in LEAST.items():
        GRPOConfig(**ours, **{name: least})
        with pytest.raises(ValueError, match=name):
            GRPOConfig(**ours, **{name: least - 1})


def test_the_texts_that_are_taken_are_those_that_transformers_and_trl_know(tmp_path: Path) -> None:
    """transformers' by its enumerations and choices, TRL's by what its trainer compares them with."""
    from transformers.debug_utils import DebugOption
    from transformers.trainer_utils import HubStrategy, SchedulerType
    from transformers.training_args import OptimizerNames
    from trl import GRPOConfig, GRPOTrainer

    enumerations = {
        "debug": DebugOption, "hub_strategy": HubStrategy, "lr_scheduler_type": SchedulerType, "optim": OptimizerNames,
    }  # fmt: skip
    known: dict[str, set[str]] = {}
    for name, enumeration in enumerations.items():
        known[name] = {str(member.value) for member in enumeration}  # type: ignore[attr-defined]
    for text in ("reduce_lr_on_plateau", "greedy"):
        known["lr_scheduler_type"].remove(text)
        with pytest.raises(ValueError, match="requires an eval strategy"):
            GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, lr_scheduler_type=text)
    for field in dataclasses.fields(GRPOConfig):
        if field.name in KINDS and (choices := field.metadata.get("choices")):
            known[field.name] = set(choices)
    source = inspect.getsource(GRPOTrainer)
    for name in ("importance_sampling_level", "loss_type", "multi_objective_aggregation", "scale_rewards"):
        compared = re.findall(rf"self\.{name} (?:==|!=|in) (\[[^\]]*\]|\"\w+\")", source)
        known[name] = {text for part in compared for text in re.findall(r'"(\w+)"', part)}
    helped = next(field.metadata["help"] for field in dataclasses.fields(GRPOConfig)
                  if field.name == "include_num_input_tokens_seen")  # fmt: skip
    known["include_num_input_tokens_seen"] = set(re.findall(r"`(\w+)`", helped))
    assert {name: set(texts) for name, texts in CHOICES.items()} == known


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"warmup_steps": "x"}, 'grpo_overrides: warmup_steps is "x": use a number.'),
        ({"weight_decay": True}, "grpo_overrides: weight_decay is true: use a number."),
        ({"dataloader_num_workers": 1.5}, "grpo_overrides: dataloader_num_workers is 1.5: use a whole number."),
        ({"epsilon_high": [0.2]}, "grpo_overrides: epsilon_high is [0.2]: use a number, or null."),
        ({"use_liger_kernel": "yes"}, 'grpo_overrides: use_liger_kernel is "yes": use true or false.'),
        ({"weight_decay": None}, "grpo_overrides: weight_decay is null: use a number."),
        (
            {"scale_rewards": 1},
            "grpo_overrides: scale_rewards is 1: use true or false, or one of batch, group, none.",
        ),
        ({"lr_scheduler_type": "cosin"}, 'grpo_overrides: lr_scheduler_type knows no "cosin": did you mean cosine?'),
        (
            {"importance_sampling_level": "word"},
            'grpo_overrides: importance_sampling_level knows no "word": use one of token, sequence.',
        ),
        ({"warmup_steps": -1}, "grpo_overrides: warmup_steps -1 is out of range: it must be at least 0."),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_what_would_be_right(overrides: dict[str, Any], said: str) -> None:
    assert refusal(**overrides) == said


def test_a_text_that_is_like_no_other_gets_all_of_them() -> None:
    said = refusal(optim="adamv")
    assert said.startswith('grpo_overrides: optim knows no "adamv": use one of adamw_torch, adamw_torch_fused, ')
    assert "paged_adamw_8bit" in said
    assert refusal(debug="underflow_overflow x").startswith('grpo_overrides: debug knows no "x": ')


@pytest.mark.parametrize("key", RESERVED_OVERRIDES)
def test_a_reserved_key_names_what_to_use(key: str) -> None:
    assert key in GRPO_FIELDS
    assert refusal(**{key: 1}) == f"grpo_overrides may not set {key}: use {RESERVED_OVERRIDES[key]} instead."


def test_an_unknown_key_is_refused_with_the_one_that_was_meant() -> None:
    assert refusal(epsilon_hi=1) == "grpo_overrides: GRPOConfig has no epsilon_hi: did you mean epsilon_high?"
    assert refusal(zzz=1) == "grpo_overrides: GRPOConfig has no zzz."


def test_all_others_are_taken() -> None:
    assert parse_overrides("") == {}
    assert parse_overrides('{"loss_type": "dr_grpo", "epsilon_high": 0.28}') == {
        "loss_type": "dr_grpo",
        "epsilon_high": 0.28,
    }
