"""grpo_overrides is refused by name, without TRL; and the names are those of the TRL that trains."""

import dataclasses
import textwrap

import pytest

from components.overrides import GRPO_FIELDS, RESERVED_OVERRIDES, parse_overrides
from components.shared.errors import UserError


def refusal(key: str) -> str:
    with pytest.raises(UserError) as refused:
        parse_overrides(f'{{"{key}": 1}}')
    return str(refused.value)


def test_the_fields_are_those_of_the_installed_trl() -> None:
    from trl import GRPOConfig

    fields = {field.name for field in dataclasses.fields(GRPOConfig)}
    assert fields == GRPO_FIELDS, f"GRPO_FIELDS should be\n{textwrap.fill(' '.join(sorted(fields)), 116)}"


@pytest.mark.parametrize("key", RESERVED_OVERRIDES)
def test_a_reserved_key_names_what_to_use(key: str) -> None:
    assert key in GRPO_FIELDS
    assert refusal(key) == f"grpo_overrides may not set {key}: use {RESERVED_OVERRIDES[key]} instead."


def test_an_unknown_key_is_refused_with_the_one_that_was_meant() -> None:
    assert refusal("epsilon_hi") == "grpo_overrides: GRPOConfig has no epsilon_hi: did you mean epsilon_high?"
    assert refusal("zzz") == "grpo_overrides: GRPOConfig has no zzz."


def test_all_others_are_taken() -> None:
    assert parse_overrides("") == {}
    assert parse_overrides('{"loss_type": "dr_grpo", "epsilon_high": 0.28}') == {
        "loss_type": "dr_grpo",
        "epsilon_high": 0.28,
    }
