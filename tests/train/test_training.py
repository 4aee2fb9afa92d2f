"""The train step for real: the demo's model, a real sandbox, a few steps."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from components.shared.errors import UserError
from components.train.rewards import TestReward
from tests.conftest import DEMO_MODEL
from tests.train.conftest import rows

Train = Callable[..., tuple[dict[str, float], Path]]


def weights(model: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = load_file(model / "adapter/adapter_model.safetensors")
    return found


def test_a_run_leaves_what_is_promised(train: Train, store_root: Path) -> None:
    scalars, model = train(save_steps=3)
    metrics = rows(store_root, "run")
    assert [row["step"] for row in metrics] == [1, 2, 3, 4, 5, 6]
    for row in metrics:
        assert sum(row["groups"].values()) == 4
        assert sum(row["outcomes"].values()) == 16
        assert set(row["seconds"]) == {"generate", "reward", "update", "step"}
        assert row["kl"] is not None
        assert 0 <= row["pass_rate"] <= 1
    assert metrics[-1]["epoch"] == 1.0
    samples = rows(store_root, "run", "samples.jsonl")
    assert {"step", "task_id", "completion", "outcome", "reward", "failing_test"} == set(samples[0])
    assert scalars["steps"] == 6
    left = sorted(path.relative_to(store_root).as_posix() for path in store_root.rglob("*") if path.is_file())
    for name in ("metrics.jsonl", "samples.jsonl", "report.html", "model.json", "adapter/adapter_model.safetensors"):
        assert f"runs/run/train/{name}" in left
    assert "runs/run/prepare/problems.jsonl" in left
    assert {key.split("/")[2] for key in left if key.startswith("checkpoints/run/")} == {"3", "6"}
    assert json.loads((model / "model.json").read_text())["kind"] == "adapter"
    report = (store_root / "runs/run/train/report.html").read_text()
    assert "http-equiv" not in report  # a finished run's page does not reload itself


def test_the_adapter_loads_in_plain_peft_and_carries_the_stop_rule(train: Train) -> None:
    _, model = train(max_completion_length=16, num_generations=8)
    base = AutoModelForCausalLM.from_pretrained(DEMO_MODEL, dtype=torch.float32)
    tuned = PeftModel.from_pretrained(base, model / "adapter")
    assert any(parameter.abs().sum() > 0 for name, parameter in tuned.named_parameters() if "lora_B" in name)
    AutoTokenizer.from_pretrained(model / "adapter")
    assert "\np" in GenerationConfig.from_pretrained(model / "adapter").stop_strings
    assert (model / "adapter/adapter_model.safetensors").stat().st_mode & 0o044 == 0o044


def test_a_continued_run_equals_the_uninterrupted_one(
    train: Train, store_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, whole = train("whole", epochs=2, save_steps=4)
    judge = TestReward.__call__

    def lose_the_machine(reward: TestReward, *given: Any, **named: Any) -> Any:
        if named["trainer_state"].global_step == 9:  # in the second epoch, between two checkpoints
            raise KeyboardInterrupt
        return judge(reward, *given, **named)

    monkeypatch.setattr(TestReward, "__call__", lose_the_machine)
    with pytest.raises(KeyboardInterrupt):
        train("cut", epochs=2, save_steps=4)
    monkeypatch.setattr(TestReward, "__call__", judge)
    assert [row["step"] for row in rows(store_root, "cut")] == list(range(1, 10))  # nothing computed is lost
    with pytest.raises(UserError, match=r"lr was 0\.002 and is 0\.001"):
        train("cut", epochs=2, save_steps=4, lr=1e-3)
    _, continued = train("cut", epochs=2, save_steps=4)
    assert "continues run cut after step 8 of 12" in capsys.readouterr().out

    def told(run_id: str) -> list[dict[str, Any]]:
        return [{**row, "seconds": None} for row in rows(store_root, run_id)]

    assert told("cut") == told("whole")
    assert rows(store_root, "cut", "samples.jsonl") == rows(store_root, "whole", "samples.jsonl")
    for name, tensor in weights(whole).items():
        assert torch.equal(weights(continued)[name], tensor), name


def test_continuing_a_finished_run_trains_no_further(train: Train, store_root: Path) -> None:
    _, first = train()
    before, metrics = weights(first), rows(store_root, "run")
    _, second = train()
    assert rows(store_root, "run") == metrics
    assert all(torch.equal(weights(second)[name], tensor) for name, tensor in before.items())


def test_completions_that_are_all_truncated_are_counted_and_named(
    train: Train, store_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scalars, _ = train(max_completion_length=2)
    told = capsys.readouterr().out
    assert "step 1 taught nothing, every completion was truncated: raise max_completion_length" in told
    assert "(6 such steps so far)" in told
    assert scalars["lost_steps"] == 6
    assert [row["reward"] for row in rows(store_root, "run")] == [0.0] * 6
    assert [row["grad_norm"] for row in rows(store_root, "run")] == [0.0] * 6
    assert "6 steps taught nothing" in (store_root / "runs/run/train/report.html").read_text()


def test_full_fine_tuning_hands_on_a_whole_model(train: Train) -> None:
    _, model = train(method="full", lr=3e-4)
    tuned = AutoModelForCausalLM.from_pretrained(model / "model", dtype=torch.float32)
    assert "\np" in tuned.generation_config.stop_strings
    base = AutoModelForCausalLM.from_pretrained(DEMO_MODEL, dtype=torch.float32)
    assert any(not torch.equal(a, b) for a, b in zip(tuned.parameters(), base.parameters(), strict=True))
    assert json.loads((model / "model.json").read_text())["kind"] == "model"
    AutoTokenizer.from_pretrained(model / "model")


def test_chat_mode_and_the_random_control_run(train: Train, store_root: Path) -> None:
    train("chat", use_chat_template=True, max_completion_length=48, epochs=1, batch_size=32)
    assert all(row["ended_by"]["stop"] == 0 for row in rows(store_root, "chat"))
    train("control", reward="random", batch_size=32)
    assert "coin flips" in (store_root / "runs/control/train/report.html").read_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": "qlora"}, "needs a CUDA GPU"),
        ({"precision": "fp16"}, "needs a CUDA GPU"),
        ({"batch_size": 256, "num_generations": 8}, "do not fill one step"),
        ({"grpo_overrides": '{"epsilon_hi": 0.3}'}, "did you mean epsilon_high"),
        ({"grpo_overrides": '{"loss_type": "nonsense"}'}, "loss_type|nonsense"),
        ({"grpo_overrides": '{"learning_rate": 1}'}, "use lr instead"),
        ({"model_name": "no/such-model"}, "no/such-model"),
    ],
)
def test_mistakes_are_one_sentence(train: Train, changes: dict[str, Any], said: str) -> None:
    from components.shared.errors import InfraError

    with pytest.raises((UserError, InfraError), match=said):
        train(**changes)
