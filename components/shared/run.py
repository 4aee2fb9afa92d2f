"""A run's identity and its record, `runs/<run>/run.json`: what was asked for, what ran, and how long it took.

Steps add their parts as they finish; evaluate completes the record. prepare and filter know no run id.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from components.shared.errors import InfraError, UserError
from components.shared.store import Store

RUN_VARIABLE = "GRPO_RUN_ID"  # set by the local runner, whose run ids are its own
POD_RUN_VARIABLE = "GRPO_POD_RUN_ID"  # on a cluster: KFP's id of the run, which its controller labels every pod with
IMAGE_VARIABLE = "GRPO_IMAGE"  # on a cluster: the image that the step runs in, as the compiled pipeline names it
LATEST = "runs/latest"
DONE = "done"  # in run.json: [attempt, step]
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NO_RUN_IDS = ("latest", "cache")  # what the store keeps beside the runs
PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes", "datasets", "kfp")


def run_id_of(run_id: str, resume_run: str) -> str:
    """The id under which a run is kept: the local runner's, else that of the run it continues, else KFP's own.

    A step that KFP may take from its cache is not told it, for it would be part of its key: run_id is empty then.
    """
    return os.environ.get(RUN_VARIABLE) or resume_run or run_id or this_run()


def check_run_id(run_id: str, named: str) -> str:
    """The id of a run, a part of keys and labels; UserError when it can be none. named: what it was given as."""
    if run_id == "latest":
        raise UserError(f"{named} 'latest' is known to `report` alone: `python pipeline.py runs list` shows the ids.")
    if not RUN_ID.fullmatch(run_id) or run_id in NO_RUN_IDS:
        raise UserError(f"{named} {run_id!r} is no run id: use letters, digits, dots, dashes and underscores.")
    return run_id


def resume_command(attempt: str) -> str:
    """What goes on with a run on a cluster that did not succeed."""
    return f"python pipeline.py run --resume {attempt}"


def resume_root(run_id: str, resume_run: str) -> str:
    """The id under which a failed run's files are kept: its own, or that of the run which it had continued itself."""
    return resume_run or run_id


def this_run() -> str:
    """The id of the run that this process works for, as it stands in its environment; empty where none does."""
    return os.environ.get(RUN_VARIABLE) or os.environ.get(POD_RUN_VARIABLE) or ""


def on_cluster() -> bool:
    """Whether this is a step's pod."""
    return bool(os.environ.get(POD_RUN_VARIABLE))


def folder_of(run: str) -> str:
    """The key prefix of everything that a run leaves."""
    return f"runs/{run}"


def record(store: Store, run: str, **parts: Any) -> dict[str, Any]:
    """Merge parts into runs/<run>/run.json and return the whole; dictionaries merge, other values replace.

    The steps of a run follow each other, so that no two of them write at once. InfraError when the file that is
    there cannot be read as JSON: it is never silently replaced.
    """
    whole = merged(recorded(store, run) or {"run_id": run}, parts)
    store.write(_record_key(run), (json.dumps(whole, indent=1, ensure_ascii=False) + "\n").encode())
    return whole


def done(step: str) -> dict[str, list[str]]:
    """The part of a run's record that says which attempt came last to the end of a step that may be the run's last."""
    return {DONE: [this_run(), step]}


def came_to_its_end(told: Mapping[str, Any], attempt: str) -> bool:
    """Whether an attempt did all that was asked of it, by the run's record; steps that only look on do not count."""
    by, step = told.get(DONE) or ("", "")
    last = ("publish", "unchanged") if told.get("parameters", {}).get("publish_as") else ("evaluate", "unchanged")
    return bool(by) and by == attempt and step in last


def recorded(store: Store, run: str) -> dict[str, Any]:
    """What runs/<run>/run.json holds by now, empty before its first part; InfraError when it is not JSON."""
    try:
        return dict(json.loads(store.read(_record_key(run))))
    except KeyError:
        return {}
    except ValueError:
        where = store.uri(_record_key(run))
        raise InfraError(f"{where} is not JSON: move it away to let the run write a new one.") from None


def _record_key(run: str) -> str:
    return f"{folder_of(run)}/run.json"


def merged(known: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """`known` with `parts` on top, dictionaries within them likewise."""
    whole = dict(known)
    for name, value in parts.items():
        both = isinstance(value, Mapping) and isinstance(whole.get(name), Mapping)
        whole[name] = merged(whole[name], value) if both else value
    return whole


def mark_latest(store: Store, run: str) -> None:
    """Make `runs/latest` name this run."""
    store.write(LATEST, f"{run}\n".encode())


def latest(store: Store) -> str | None:
    """The newest run's id, or None before the first."""
    try:
        return store.read(LATEST).decode().strip()
    except KeyError:
        return None


def versions() -> dict[str, str]:
    """Versions of the packages that decide a run's numbers, of those installed here."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """The commit of the checkout that this code runs from; None in an image, where code_version says it."""
    return _git("rev-parse", "HEAD") or None


def git_is_changed() -> bool:
    """Whether this code is not that of git_commit: files that git knows have changes which are not committed."""
    return bool(_git("status", "--porcelain", "--untracked-files=no"))


def _git(*command: str) -> str:
    """What git says about the checkout that this code runs from; empty where there is none, or no git."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return ""
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()


def digest_of(file: Path) -> str:
    """The file's sha256, as `sha256:<hex>`."""
    with file.open("rb") as opened:
        return f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}"
