"""What one run may take from kfp's cache, and what it adds to it.

For a task kfp either uses its cache or neither reads nor writes it. A person wants a third way: train anew, but keep
the result for a later `--reuse`. So each run gets a cache of its own, filled with the shared one's entries except those
of the steps that must run afresh; at the end the new entries join the shared cache.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from cli.worker import step_name


@contextlib.contextmanager
def run_cache(shared: Path, own: Path, *, fresh: Collection[str]) -> Iterator[Path]:
    """kfp's cache_root for one run, in the run's folder.

    The steps named in `fresh` find nothing in it but what an earlier attempt of this very run had finished.
    """
    shared.mkdir(parents=True, exist_ok=True)
    own.mkdir(parents=True, exist_ok=True)
    _publish(own, shared)  # what a killed attempt had no time to publish
    for entry in shared.glob("*.json"):
        made = _place(json.loads(entry.read_text()))
        if made is None or step_name(made.name) not in fresh or own.parent in made.parents:
            shutil.copyfile(entry, own / entry.name)
    try:
        yield own
    finally:
        _publish(own, shared)


def _publish(own: Path, shared: Path) -> None:
    for entry in own.glob("*.json"):
        _write_metrics_file(json.loads(entry.read_text()))
        os.replace(entry, shared / entry.name)


def _artifacts(outputs: dict[str, Any]) -> list[dict[str, Any]]:
    """The artifacts among a task's outputs as kfp's cache stores them."""
    return [output for output in outputs.values() if isinstance(output, dict) and "uri" in output]


def _place(outputs: dict[str, Any]) -> Path | None:
    """The folder of the task with these outputs, `<run>/<pipeline>/<task>`; None for one without artifacts."""
    return next((Path(artifact["uri"]).parent for artifact in _artifacts(outputs)), None)


def _write_metrics_file(outputs: dict[str, Any]) -> None:
    """Give metrics a file: they live in metadata, and kfp's cache takes an artifact without a file for lost."""
    for artifact in _artifacts(outputs):
        file = Path(artifact["uri"])
        if artifact["schema_title"] == "system.Metrics" and file.parent.is_dir() and not file.exists():
            file.write_text(json.dumps(artifact["metadata"]))
