"""What can fail around a run: named in one sentence, with what was done and what is kept."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.shared.errors import InfraError, UserError
from components.shared.problem import PROBLEMS, write_problems
from components.train import session
from components.train.rewards import TestReward
from tests.buckets import own_bucket
from tests.conftest import DEMO_MODEL, demo_problems
from tests.train.conftest import rows

Train = Callable[..., tuple[dict[str, float], Path]]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes a file system of so many kB."""
    mounted = []

    def make(size: int) -> Path:
        folder = tmp_path / f"disk-{size}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here, which takes root ({done.stderr.strip()})")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_under_the_trainer_is_named_and_the_journal_kept(
    train: Train, store_root: Path, small_disk: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = small_disk(600)
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    with pytest.raises(InfraError, match=rf"The disk that holds {disk}.* is full: a checkpoint needs room.*TMPDIR"):
        train(save_steps=2)
    assert [row["step"] for row in rows(store_root, "run")] == [1, 2]
    monkeypatch.undo()
    monkeypatch.setenv("GRPO_STORE", str(store_root))
    assert "http-equiv" not in (store_root / "runs/run/train/report.html").read_text()


@pytest.mark.slow
def test_a_full_store_ends_the_run_with_what_it_holds(
    train: Train, small_disk: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = small_disk(3000)  # room for one checkpoint, and a part of the next
    monkeypatch.setattr(session, "PATIENCE_AT_THE_END", 1.0)
    monkeypatch.setattr(session, "PATIENCE_AFTER_FAILURE", 1.0)
    monkeypatch.setenv("GRPO_STORE", str(disk))
    with pytest.raises(InfraError, match=r"did not take what the run left .*No space left on device.*it has the check"):
        train(save_steps=1)
    assert "Training goes on" in capsys.readouterr().out
    assert list(disk.glob("checkpoints/run/*/manifest.json"))


def test_a_store_that_refuses_is_named_before_anything_is_loaded(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_bucket(monkeypatch):
        monkeypatch.setenv("GRPO_STORE", "s3://another-bucket")
        with pytest.raises(InfraError, match=r"The store refused s3://another-bucket/.*: NoSuchBucket"):
            train()


def test_a_tokenizer_without_eos_is_refused(train: Train, tmp_path: Path) -> None:
    model = tmp_path / "no-eos"
    shutil.copytree(DEMO_MODEL, model)
    config = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps({**config, "eos_token": None}))
    with pytest.raises(UserError, match="has no EOS token"):
        train(model_name=str(model))


def test_a_checkpoint_of_another_model_is_refused_by_name(train: Train, tmp_path: Path) -> None:
    train(batch_size=32)
    model = tmp_path / "another-model"
    shutil.copytree(DEMO_MODEL, model)
    with pytest.raises(UserError, match=r"continued with other settings: model_name was .*demo/model.* and is"):
        train(batch_size=32, model_name=str(model))


def test_a_checkpoint_of_other_problems_is_refused(train: Train, problem_set: Path) -> None:
    train(batch_size=32)
    write_problems(problem_set / PROBLEMS, demo_problems(26)[2:])
    with pytest.raises(UserError, match=r"continued with other settings: the set of problems was '\w+' and is '\w+'"):
        train(batch_size=32)


def test_an_attempt_ends_when_a_newer_one_has_the_run(
    train: Train, store_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = store_root / "runs/run/train/attempt.json"
    judge = TestReward.__call__

    def overtaken(reward: TestReward, *given: Any, **named: Any) -> Any:
        if named["trainer_state"].global_step == 4:
            record.write_text(json.dumps({**json.loads(record.read_text()), "id": "another"}))
        return judge(reward, *given, **named)

    monkeypatch.setattr(TestReward, "__call__", overtaken)
    with pytest.raises(InfraError, match="Another attempt at this run has begun"):
        train(epochs=2, save_steps=1)
    assert json.loads(record.read_text())["id"] == "another"
    saved = {int(path.parent.name) for path in store_root.glob("checkpoints/run/*/manifest.json")}
    assert saved
    assert max(saved) <= 4
    assert rows(store_root, "run")[-1]["step"] <= 4
