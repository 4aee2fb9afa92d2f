"""Trackers beside the run's own metrics.jsonl: transformers' callbacks for them, fed with our metrics as well as TRL's.

They write into a folder here, which goes to the run's store (`train/trackers/`), unless the environment names their
server: MLFLOW_TRACKING_URI, or WANDB_API_KEY.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.integrations.integration_utils import get_reporting_integration_callbacks

from components.settings import tracker_names
from components.shared.errors import UserError
from components.shared.pages import clip
from components.shared.progress import say

FOLDER = "trackers"
PACKAGES = {"tensorboard": "tensorboard", "mlflow": "mlflow", "wandb": "wandb"}
PROJECT = "grpo-code"


def chosen_trackers(setting: str) -> list[str]:
    """The names in parameter trackers; UserError when one is unknown or its package is not installed here."""
    names = tracker_names(setting)
    missing = [PACKAGES[name] for name in names if find_spec(PACKAGES[name]) is None]
    if missing:
        raise UserError(
            f"trackers: {', '.join(missing)} is not installed where training runs: install it there (on a cluster: in "
            "the image of train), or leave it out."
        )
    return names


def tracker_callbacks(names: Sequence[str], folder: Path, run: str) -> list[Any]:
    """The callbacks of these trackers, which write below `folder`/trackers; to be called after the one that measures.

    run: what they call this run.
    """
    if not names:
        return []
    for name in names:
        (folder / FOLDER / name).mkdir(parents=True, exist_ok=True)
    os.environ.update(_environment(folder / FOLDER, run))
    callbacks = get_reporting_integration_callbacks(list(names))
    return [Tolerated(name, callback()) for name, callback in zip(names, callbacks, strict=True)]


class Tolerated(TrainerCallback):
    """A tracker that may fail, for example with its server: the run goes on without it, and says so once."""

    def __init__(self, name: str, tracker: Any) -> None:
        self.name, self.tracker = name, tracker

    def on_train_begin(self, *given: Any, **named: Any) -> None:
        self._pass_on("on_train_begin", *given, **named)

    def on_log(self, *given: Any, **named: Any) -> None:
        self._pass_on("on_log", *given, **named)

    def on_save(self, *given: Any, **named: Any) -> None:
        self._pass_on("on_save", *given, **named)

    def on_train_end(self, *given: Any, **named: Any) -> None:
        self._pass_on("on_train_end", *given, **named)

    def _pass_on(self, event: str, *given: Any, **named: Any) -> None:
        if self.tracker is None:
            return
        try:
            getattr(self.tracker, event)(*given, **named)
        except Exception as error:  # of any kind: they are other people's clients of other people's servers
            self.tracker = None
            _warn(self.name, error)


def _warn(name: str, error: Exception) -> None:
    first = next(iter(str(error).splitlines()), "")
    say("train", f"warning: the tracker {name} failed and gets nothing more ({type(error).__name__}: {clip(first)})")


def _environment(folder: Path, run: str) -> dict[str, str]:
    """What the callbacks read, as far as the user has not set it."""
    ours = {
        "WANDB_DIR": str(folder / "wandb"),
        "WANDB_PROJECT": PROJECT,
        "WANDB_NAME": run,
        "WANDB_CONSOLE": "off",
        "WANDB_SILENT": "true",
        "MLFLOW_EXPERIMENT_NAME": PROJECT,
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow' / 'mlflow.db'}",
    }
    if not os.environ.get("WANDB_API_KEY"):
        ours["WANDB_MODE"] = "offline"
    given = {name: value for name, value in ours.items() if not os.environ.get(name)}
    return {"TENSORBOARD_LOGGING_DIR": str(folder / "tensorboard"), **given}


def end_trackers(names: Sequence[str]) -> None:
    """Have them write what they still hold; W&B keeps all of it back until then."""
    for name, end in (("wandb", "finish"), ("mlflow", "end_run")):
        if name in names:
            try:
                getattr(import_module(name), end)()
            except Exception as error:
                _warn(name, error)


def tracker_files(folder: Path) -> Iterator[Path]:
    """What the trackers have written by now, relative to `folder`."""
    for file in sorted((folder / FOLDER).rglob("*")):
        if file.is_file() and not file.is_symlink():
            yield file.relative_to(folder)


def scalars(row: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """A row of metrics.jsonl as flat figures, such as groups/mixed; what was not measured is left out."""
    flat: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= scalars(value, f"{prefix}{name}/")
        elif name != "step" and value is not None:
            flat[f"{prefix}{name}"] = float(value)
    return flat
