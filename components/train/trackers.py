"""Trackers beside the run's own metrics.jsonl: transformers' callbacks for them, fed with our metrics as well as TRL's.

They write into a folder here, which goes to the run's store (`train/trackers/`), unless the environment names their
server: MLFLOW_TRACKING_URI, or WANDB_API_KEY.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from components.settings import tracker_names
from components.shared.errors import UserError

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
    from transformers.integrations.integration_utils import get_reporting_integration_callbacks

    for name in names:
        (folder / FOLDER / name).mkdir(parents=True, exist_ok=True)
    os.environ.update(_environment(folder / FOLDER, run))
    return [callback() for callback in get_reporting_integration_callbacks(list(names))]


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
    if "wandb" in names:
        import wandb

        wandb.finish()
    if "mlflow" in names:
        import mlflow

        mlflow.end_run()


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
