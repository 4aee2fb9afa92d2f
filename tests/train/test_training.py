"""The train step for real: the demo's model, a real sandbox, a few steps."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from trl import GRPOTrainer
from trl.trainer import grpo_trainer

from components.shared.errors import InfraError, UserError
from components.shared.grading import Grader
from components.shared.lineage import UNTRAINED, read_trained_on
from components.shared.run import POD_RUN_VARIABLE, RUN_VARIABLE
from components.shared.sandbox import SandboxClient
from components.train import pace, session, uploads
from components.train.checkpoints import Checkpoints
from components.train.plan import memory
from components.train.rewards import TestReward
from components.train.shape import shape_of
from tests.conftest import DEMO_MODEL, demo_problems
from tests.train.conftest import four_bit_policy, rows
from tests.train.test_plan import bytes_of, load

Train = Callable[..., tuple[dict[str, float], Path]]


def weights(model: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = load_file(model / "adapter/adapter_model.safetensors")
    return found


def test_a_run_leaves_what_is_promised(
    train: Train, store_root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    monkeypatch.delenv(POD_RUN_VARIABLE, raising=False)
    scalars, model = train(save_steps=3)
    assert capsys.readouterr().out.splitlines()[0] == how_to_watch("run", "run", store_root)
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
    fields = {"step", "task_id", "prompt", "completion", "outcome", "reward", "failing_test", "failing_hidden_test"}
    assert set(samples[0]) == fields
    assert scalars["steps"] == 6
    left = sorted(path.relative_to(store_root).as_posix() for path in store_root.rglob("*") if path.is_file())
    of_the_model = ("model.json", "trained_on.json", "adapter/adapter_model.safetensors")
    for name in ("metrics.jsonl", "samples.jsonl", "report.html", *of_the_model):
        assert f"runs/run/train/{name}" in left
    assert "runs/run/prepare/problems.jsonl" in left
    assert {key.split("/")[2] for key in left if key.startswith("checkpoints/run/")} == {"3", "6"}
    assert read_trained_on(model) == UNTRAINED.and_also(demo_problems(24))
    facts = json.loads((model / "model.json").read_text())
    assert (facts["kind"], facts["reward"], "seed" in facts) == ("adapter", "tests", True)
    report = (store_root / "runs/run/train/report.html").read_text()
    assert "http-equiv" not in report  # a finished run's page does not reload itself


def how_to_watch(attempt: str, run: str, root: Path) -> str:
    """A step's first line: KFP knows it by its attempt's id, the store by the run's."""
    page = root / f"runs/{run}/train/report.html"
    return f"train: watch with `python pipeline.py watch {attempt}` or `report {run}`; the page is {page}"


def test_the_adapter_loads_in_plain_peft_and_carries_the_stop_rule(train: Train) -> None:
    _, model = train(max_completion_length=16, num_generations=8)
    base = AutoModelForCausalLM.from_pretrained(DEMO_MODEL, dtype=torch.float32)
    tuned = PeftModel.from_pretrained(base, model / "adapter")
    assert any(parameter.abs().sum() > 0 for name, parameter in tuned.named_parameters() if "lora_B" in name)
    AutoTokenizer.from_pretrained(model / "adapter")
    assert "\np" in GenerationConfig.from_pretrained(model / "adapter").stop_strings
    assert (model / "adapter/adapter_model.safetensors").stat().st_mode & 0o044 == 0o044


def test_continuing_a_finished_run_trains_no_further(
    train: Train, store_root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = train()
    with pytest.raises(UserError, match=r"lr was 0\.002 and is 0\.001"):
        train(lr=1e-3)
    before, metrics = weights(first), rows(store_root, "run")
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    monkeypatch.setenv(POD_RUN_VARIABLE, "kfp-2")
    capsys.readouterr()
    _, second = train("kfp-2", resume_run="run")
    assert capsys.readouterr().out.splitlines()[0] == how_to_watch("kfp-2", "run", store_root)
    assert rows(store_root, "run") == metrics
    assert all(torch.equal(weights(second)[name], tensor) for name, tensor in before.items())


def test_truncated_completions_left_out_of_their_groups_teach_nothing(train: Train, store_root: Path) -> None:
    train(truncated_reward="none", max_completion_length=12, save_steps=1000)
    shown = rows(store_root, "run", "samples.jsonl")
    assert {one["reward"] for one in shown if one["outcome"] == "truncated"} == {None}
    assert {one["reward"] for one in shown if one["outcome"] != "truncated"} == {0.0, 1.0}
    for row in rows(store_root, "run"):
        assert row["infra"] == 0.0  # None is no failure of the sandbox
        assert row["grad_norm"] > 0 or not row["groups"]["mixed"]
    assert "reward none" in (store_root / "runs/run/train/report.html").read_text()


def test_five_steps_of_truncated_completions_stop_the_run_with_the_parameter(
    train: Train, store_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match=r"5 steps in a row.*truncated: raise max_completion_length.*5 of 6 steps are"):
        train(max_completion_length=2)
    with pytest.raises(UserError, match=r"5 steps in a row.*truncated: raise max_completion_length"):
        train("left out", max_completion_length=2, truncated_reward="none")
    assert [row["reward"] for row in rows(store_root, "left out")] == [None] * 5
    assert [row["grad_norm"] for row in rows(store_root, "left out")] == [0.0] * 5
    told = capsys.readouterr().out
    assert "step 1 taught nothing, every completion was truncated: raise max_completion_length" in told
    assert [row["reward"] for row in rows(store_root, "run")] == [0.0] * 5
    assert [row["grad_norm"] for row in rows(store_root, "run")] == [0.0] * 5
    assert (store_root / "checkpoints/run/5/manifest.json").is_file()
    page = (store_root / "runs/run/train/report.html").read_text()
    assert "5 steps taught nothing" in page
    assert "http-equiv" not in page  # nothing more will come


@pytest.mark.slow
def test_full_fine_tuning_hands_on_a_whole_model(train: Train) -> None:
    _, model = train(method="full", lr=3e-4)
    tuned = AutoModelForCausalLM.from_pretrained(model / "model", dtype=torch.float32)
    assert "\np" in tuned.generation_config.stop_strings
    base = AutoModelForCausalLM.from_pretrained(DEMO_MODEL, dtype=torch.float32)
    assert any(not torch.equal(a, b) for a, b in zip(tuned.parameters(), base.parameters(), strict=True))
    assert json.loads((model / "model.json").read_text())["kind"] == "model"
    AutoTokenizer.from_pretrained(model / "model")


def test_the_reference_copy_is_of_the_policys_commit(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    load, load_copy = session.load_policy, grpo_trainer.create_model_from_path

    def from_the_hub(*given: Any, **named: Any) -> Any:
        policy = load(*given, **named)
        policy.config._commit_hash = "0123"
        return policy

    def copy(name: str, *, revision: str, **named: Any) -> Any:
        asked.append((Path(name), revision))
        return load_copy(name, **named)

    monkeypatch.setattr(session, "load_policy", from_the_hub)
    monkeypatch.setattr(grpo_trainer, "create_model_from_path", copy)
    train(method="full", lr=3e-4, batch_size=32)
    assert asked == [(DEMO_MODEL, "0123")]


@pytest.mark.slow
def test_chat_mode_and_the_random_control_run(train: Train, store_root: Path) -> None:
    train("chat", use_chat_template=True, max_completion_length=48, epochs=1, batch_size=32)
    assert all(row["ended_by"]["stop"] == 0 for row in rows(store_root, "chat"))
    train("control", reward="random", batch_size=32)
    assert "coin flips" in (store_root / "runs/control/train/report.html").read_text()


def test_time_alone_makes_a_checkpoint_due(train: Train, store_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "SECONDS_BETWEEN_SAVES", 0.0)
    saved = []
    save = Checkpoints.save
    monkeypatch.setattr(
        Checkpoints, "save", lambda self, step, folder: (saved.append(step), save(self, step, folder))[1]
    )
    train(save_steps=1000, batch_size=32)
    assert saved[-1] == 3
    assert len(saved) > 1  # one that waited may have been replaced by a newer one


@pytest.mark.slow
def test_dynamic_sampling_replaces_groups_without_variance(train: Train, store_root: Path) -> None:
    train("plain", batch_size=16, num_generations=4)
    train("dynamic", batch_size=16, num_generations=4, dynamic_sampling_tokens=4 * 4 * 32)
    plain, dynamic = rows(store_root, "plain"), rows(store_root, "dynamic")
    # The first step draws the same groups, then others for those without variance.
    first = dynamic[0]
    assert first["drawn"]["mixed"] - first["drawn"]["replaced"] == plain[0]["groups"]["mixed"]
    for row in dynamic:
        assert sum(row["groups"].values()) == 4
        assert sum(row["outcomes"].values()) == 16
        assert row["drawn"]["tokens"] <= 4 * 4 * 32
        assert row["drawn"]["replaced"] <= row["drawn"]["groups"] - 4
        assert (row["groups"]["mixed"] == 4) or row["drawn"]["groups"] > 4
    assert sum(row["drawn"]["replaced"] for row in dynamic) > 0
    assert sum(row["groups"]["mixed"] for row in dynamic) > sum(row["groups"]["mixed"] for row in plain)
    assert "drawn" not in plain[0]


@pytest.mark.slow
def test_a_store_that_is_away_in_mid_run_gets_everything_later(
    train: Train, store_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(uploads, "SECONDS_BETWEEN_TRIES", 0.1)
    aside = store_root.with_name("aside")
    judge = TestReward.__call__

    def unplug(reward: TestReward, *given: Any, **named: Any) -> Any:
        if named["trainer_state"].global_step == 3:
            store_root.rename(aside)
            store_root.write_text("a file where the store's directory was")
        if named["trainer_state"].global_step == 10:
            store_root.unlink()
            aside.rename(store_root)
        return judge(reward, *given, **named)

    monkeypatch.setattr(TestReward, "__call__", unplug)
    scalars, _ = train(epochs=2, save_steps=2)
    assert scalars["steps"] == 12
    told = capsys.readouterr().out
    assert "Training goes on" in told
    assert "the store answers again after" in told
    assert [row["step"] for row in rows(store_root, "run")] == list(range(1, 13))
    assert (store_root / "checkpoints/run/12/manifest.json").is_file()


@pytest.mark.parametrize("before", [0, 100_000], ids=["early in a run", "late in a run"])
def test_a_sandbox_that_goes_away_in_mid_run_loses_no_step(
    train: Train, store_root: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """before: programs that were judged in steps long gone."""
    judge = Grader.grade
    calls = iter(range(100))

    def vanish(grader: Grader, pairs: Any) -> Any:
        if next(calls) == 3:
            grader.client = SandboxClient("http://127.0.0.1:9", retry_seconds=0.1)
            grader.judged += before
        return judge(grader, pairs)

    monkeypatch.setattr(Grader, "grade", vanish)
    with pytest.raises(InfraError, match=r"could not be judged.*3 of 6 steps are kept; the run can be continued"):
        train()
    assert (store_root / "checkpoints/run/3/manifest.json").is_file()
    assert [row["step"] for row in rows(store_root, "run")] == [1, 2, 3]


@pytest.mark.slow
def test_memory_that_runs_out_halves_the_micro_batch_and_nothing_else(
    train: Train, store_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, whole = train("whole", micro_batch_size=4)
    real = GRPOTrainer.training_step

    def small_gpu(trainer: GRPOTrainer, model: Any, inputs: Any, *rest: Any) -> Any:
        if trainer.args.per_device_train_batch_size > 4 and trainer.state.global_step == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(trainer, model, inputs, *rest)

    monkeypatch.setattr(GRPOTrainer, "training_step", small_gpu)
    _, model = train("small", micro_batch_size=8, save_steps=2)
    told = capsys.readouterr().out
    assert "memory ran out, so micro_batch_size is 4 now" in told
    assert "batch_size stays 16; goes on after step 2" in told
    assert [row["step"] for row in rows(store_root, "small")] == [1, 2, 3, 4, 5, 6]
    for name, tensor in weights(whole).items():
        assert torch.allclose(weights(model)[name], tensor, atol=1e-3), name
    train("small", micro_batch_size=8, save_steps=2)
    assert "an attempt before ran out of memory with more: micro_batch_size is 4 now" in capsys.readouterr().out


@pytest.mark.slow
def test_memory_that_runs_out_after_a_kill_for_it_is_halved_further(
    train: Train, store_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, tried = GRPOTrainer.training_step, []

    def smaller_gpu(trainer: GRPOTrainer, model: Any, inputs: Any, *rest: Any) -> Any:
        tried.append(trainer.args.per_device_train_batch_size)
        if tried[-1] > 2:
            assert len(tried) <= 2, "the same size again and again"
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(trainer, model, inputs, *rest)

    monkeypatch.setattr(GRPOTrainer, "training_step", smaller_gpu)
    killed = {"id": "1", "micro_batch_size": 16, "rows": 32, "ran_out": False, "memory_share": 0.97, "ended": ""}
    record = store_root / "runs/run/train/attempt.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps(killed))
    train(micro_batch_size=16, batch_size=32)
    told = capsys.readouterr().out
    assert told.count("the attempt before was killed while it used 97% of its memory") == 1
    assert list(dict.fromkeys(tried)) == [8, 4, 2]
    assert [row["step"] for row in rows(store_root, "run")] == [1, 2, 3]
    assert json.loads(record.read_text())["micro_batch_size"] == 2


@pytest.mark.slow
def test_adapters_stay_in_fp32_on_a_base_in_half_precision(train: Train) -> None:
    _, model = train(precision="bf16", batch_size=32, lora_target_modules="q_proj, v_proj")
    tensors = weights(model)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert {name.split(".")[-3] for name in tensors} == {"q_proj", "v_proj"}


@pytest.mark.slow
def test_qlora_trains_an_fp32_adapter_on_a_four_bit_base(
    train: Train, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held: dict[str, int] = {}
    hand_on = session.Session.hand_on

    def noted(self: session.Session, target: Path) -> None:
        trained = [parameter for parameter in self.trainer.model.parameters() if parameter.requires_grad]
        states = [one for state in self.trainer.optimizer.state.values() for one in state.values() if one.numel() > 1]
        held.update(adapter=bytes_of(trained), optimiser=bytes_of(states))
        hand_on(self, target)

    monkeypatch.setattr(session, "load_policy", four_bit_policy)
    monkeypatch.setattr(session.Session, "hand_on", noted)
    _, model = train(method="qlora", batch_size=32)
    assert "qlora on" in capsys.readouterr().out
    tensors = weights(model)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert any(tensor.abs().sum() > 0 for name, tensor in tensors.items() if "lora_B" in name)
    config = AutoConfig.from_pretrained(DEMO_MODEL).to_dict()
    planned = memory(shape_of(config, "the demo's"), load(method="qlora", lora_r=16))
    assert held == {"adapter": planned.adapter, "optimiser": planned.optimiser}


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
        ({"lora_target_modules": "q_proj,c_attn"}, r"no linear layer c_attn; it has .*q_proj.*or use all-linear"),
    ],
)
def test_mistakes_are_one_sentence(train: Train, changes: dict[str, Any], said: str) -> None:
    with pytest.raises((UserError, InfraError), match=said):
        train(**changes)
