"""Trackers by name: refused where their package is missing, and given our metrics and a place in the store."""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback
from transformers.integrations import integration_utils

from components.settings import TRACKERS, tracker_names
from components.shared.errors import UserError
from components.train import trackers
from components.train.trackers import PACKAGES, scalars
from tests.train.conftest import rows

Train = Callable[..., tuple[dict[str, float], Path]]


class Scribe(TrainerCallback):  # type: ignore[misc]
    """A tracker that writes what it is given where TensorBoard would."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        with Path(os.environ["TENSORBOARD_LOGGING_DIR"], "events").open("a") as file:
            file.write(f"{state.global_step} {sorted(logs)}\n")


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Trackers are told by variables, which are no other test's business."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_names_are_a_comma_list() -> None:
    assert tracker_names(" wandb, tensorboard,wandb ") == ["wandb", "tensorboard"]
    assert tracker_names("") == []
    with pytest.raises(UserError, match="names neptune: use tensorboard, mlflow, wandb, or leave it empty"):
        tracker_names("neptune")
    assert set(PACKAGES) == set(TRACKERS)


def test_one_that_is_not_installed_is_refused_by_name(train: Train) -> None:
    missing = [name for name, package in PACKAGES.items() if find_spec(package) is None]
    if not missing:
        pytest.skip("every tracker is installed here")
    with pytest.raises(UserError, match=f"trackers: {missing[0]} is not installed where training runs"):
        train(trackers=missing[0])


def test_a_row_becomes_flat_figures() -> None:
    row = {"step": 3, "kl": None, "reward": 0.5, "groups": {"mixed": 2, "all_fail": 0}, "hidden": None}
    assert scalars(row) == {"reward": 0.5, "groups/mixed": 2.0, "groups/all_fail": 0.0}


def test_a_tracker_gets_our_metrics_and_its_files_reach_the_store(
    train: Train, store_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(trackers.PACKAGES, "tensorboard", "json")
    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "tensorboard", Scribe)
    train(trackers="tensorboard", batch_size=32)
    lines = (store_root / "runs/run/train/trackers/tensorboard/events").read_text().splitlines()
    assert [int(line.split()[0]) for line in lines][:3] == [1, 2, 3]
    for name in ("'groups/mixed'", "'pass_rate'", "'truncated'", "'seconds/generate'", "'frac_reward_zero_std'"):
        assert name in lines[0]


@pytest.mark.slow
def test_a_tracker_that_fails_does_not_end_the_run(
    train: Train, store_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Falls(Scribe):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            raise ConnectionError("no route to its server\nand a long story")

    monkeypatch.setitem(trackers.PACKAGES, "tensorboard", "json")
    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "tensorboard", Falls)
    assert train(trackers="tensorboard", batch_size=32)[0]["steps"] == 3
    said = "the tracker tensorboard failed and gets nothing more (ConnectionError: no route to its server)"
    assert capsys.readouterr().out.count(said) == 1


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="tensorboard is not installed")
def test_tensorboard_for_real(train: Train, store_root: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(trackers="tensorboard", batch_size=32)
    events = EventAccumulator(str(store_root / "runs/run/train/trackers/tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("train/pass_rate")] == [1, 2, 3]
    expected = [row["pass_rate"] for row in rows(store_root, "run")]
    assert [event.value for event in events.Scalars("train/pass_rate")] == pytest.approx(expected)


@pytest.mark.skipif(find_spec("mlflow") is None, reason="mlflow is not installed")
def test_mlflow_for_real(train: Train, store_root: Path) -> None:
    from mlflow import MlflowClient

    train(trackers="mlflow", batch_size=32)
    client = MlflowClient(f"sqlite:///{store_root}/runs/run/train/trackers/mlflow/mlflow.db")
    (experiment,) = [one for one in client.search_experiments() if one.name == trackers.PROJECT]
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "pass_rate")
    assert [point.value for point in history] == pytest.approx([row["pass_rate"] for row in rows(store_root, "run")])


@pytest.mark.skipif(find_spec("wandb") is None, reason="wandb is not installed")
def test_wandb_for_real_without_a_network(train: Train, store_root: Path) -> None:
    train(trackers="wandb", batch_size=32)
    (file,) = (store_root / "runs/run/train/trackers/wandb").rglob("*.wandb")
    assert file.stat().st_size > 0
    assert b"pass_rate" in file.read_bytes()
