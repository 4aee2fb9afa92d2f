"""Training from an adapter: its weights are where training begins, and KL is still taken to the base."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from components.shared.errors import UserError
from components.shared.lineage import UNTRAINED, read_trained_on
from tests.conftest import demo_problems
from tests.train.conftest import rows
from tests.train.test_training import weights

Train = Callable[..., tuple[dict[str, float], Path]]
UNMOVED: dict[str, Any] = {"lr": 1e-12}  # a rate at which a run of a few steps changes nothing that can be seen


@pytest.mark.slow
def test_training_goes_on_from_the_adapter_of_another_run(
    train: Train, store_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, first = train("first")
    learned = weights(first)
    _, second = train("second", init_adapter="runs/first", **UNMOVED)
    assert "train: starts from the adapter runs/first" in capsys.readouterr().out
    assert all(torch.allclose(weights(second)[name], tensor, atol=1e-6) for name, tensor in learned.items())
    assert read_trained_on(first) == UNTRAINED.and_also(demo_problems(24))
    assert read_trained_on(store_root / "runs/second/train") == read_trained_on(first), "of both, and both known"
    assert rows(store_root, "first")[0]["kl"] == pytest.approx(0.0, abs=1e-6)
    assert rows(store_root, "second")[0]["kl"] > 1e-4, "KL is to the base, not to where training started"
    with pytest.raises(UserError, match="other layers than lora_target_modules 'q_proj' asks for"):
        train("third", init_adapter="runs/first", lora_target_modules="q_proj")
    with pytest.raises(UserError, match="lora_r 16, not 8"):
        train("fourth", init_adapter="runs/first", lora_r=8)


@pytest.mark.slow
def test_a_run_that_is_continued_goes_on_from_its_checkpoint_and_from_the_same_adapter(
    train: Train, store_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train("first", **UNMOVED)
    _, second = train("second", init_adapter="runs/first")
    before = weights(second)
    capsys.readouterr()
    _, again = train("second", init_adapter="runs/first")
    assert "starts from the adapter" not in capsys.readouterr().out
    assert all(torch.equal(weights(again)[name], tensor) for name, tensor in before.items())
    with pytest.raises(UserError, match="init_adapter was 'runs/first' and is ''"):
        train("second")
