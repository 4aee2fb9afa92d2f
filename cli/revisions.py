"""What exactly a run reads: the code, the model and the data set, each pinned by a commit or a digest.

These three values are parameters of the steps and so part of every cache key: an edited line of code, an edited row or
a moved tag is a miss. Inputs that do not exist are refused here, before anything is started.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from components.prepare.files import SUFFIXES
from components.prepare.sources import FORMS, NAMED
from components.shared.errors import UserError
from components.shared.store import open_store

ROOT = Path(__file__).resolve().parent.parent
# Sources and pins that decide what a step computes.
CODE = ("components", "images/sandbox/sandbox")
PINS = "images/*/requirements.txt"
COMMIT = re.compile(r"[0-9a-f]{40}")
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")


def code_version(root: Path = ROOT) -> str:
    """Digest (16 hex digits) of the steps' sources, the sandbox's and all pins."""
    files = [path for folder in CODE for path in (root / folder).rglob("*") if path.is_file()]
    files = [path for path in files if "__pycache__" not in path.parts] + list(root.glob(PINS))
    return _digest(root, files)[:16]


def resolve(given: dict[str, Any]) -> dict[str, Any]:
    """The parameters with code, model and data set pinned; refuses inputs that do not exist."""
    return {
        **given,
        "model_revision": _model_revision(given["model_name"], given["model_revision"]),
        "dataset_revision": _dataset_revision(given["dataset"], given["dataset_revision"]),
        "code_version": given["code_version"] or code_version(),
    }


def _model_revision(name: str, revision: str) -> str:
    folder = Path(name).expanduser()
    if folder.is_dir():
        _check_model_folder(folder)
        return _agreed("model_revision", revision, _folder_digest(folder), str(folder))
    if folder.exists() or not HUB_ID.fullmatch(name):
        raise UserError(f"The model directory {name} does not exist: name a directory that holds a model, or a hub id.")
    return hub_commit("model", name, revision or "main")


def _check_model_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise UserError(f"The directory {folder} holds no model: config.json is missing.")
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise UserError(f"The model directory {folder} has no tokenizer: {' or '.join(TOKENIZER_FILES)} is missing.")
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        raise UserError(f"The model directory {folder} has no weights: *.safetensors is missing.")


def _dataset_revision(dataset: str, revision: str) -> str:
    if dataset in NAMED:
        return hub_commit("dataset", NAMED[dataset][0], revision or "main")
    if dataset.startswith("s3://"):
        return _agreed("dataset_revision", revision, _objects_digest(dataset), dataset)
    path = Path(dataset).expanduser()
    if path.is_dir():
        return _agreed("dataset_revision", revision, _folder_digest(path), dataset)
    if path.is_file():
        return _agreed("dataset_revision", revision, _digest(path.parent, [path]), dataset)
    if path.suffix in SUFFIXES or not HUB_ID.fullmatch(dataset):
        raise UserError(f"The data set {dataset} does not exist: {FORMS}.")
    return hub_commit("dataset", dataset, revision or "main")


def _agreed(parameter: str, asked: str, found: str, where: str) -> str:
    """The digest found; a revision that was asked for must be that digest, for a directory has no other."""
    if asked and asked != found:
        raise UserError(f"{parameter} {asked!r} is not what {where} holds now ({found}): leave it empty.")
    return found


def _folder_digest(folder: Path) -> str:
    return _digest(folder, (path for path in folder.rglob("*") if path.is_file()))


def _digest(root: Path, files: Iterable[Path]) -> str:
    """sha256 over names and contents, in the order of the names."""
    total = hashlib.sha256()
    for path in sorted(files):
        try:
            with path.open("rb") as stream:
                contents = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror}): make it readable.") from None
        total.update(f"{path.relative_to(root).as_posix()}\0{contents}\n".encode())
    return total.hexdigest()


def _objects_digest(address: str) -> str:
    """The digest of the object at s3://bucket/key, or of all objects below that key."""
    bucket, _, key = address.removeprefix("s3://").partition("/")
    store, total = open_store(f"s3://{bucket}"), hashlib.sha256()
    keys = [key] if store.exists(key) else store.keys(key.rstrip("/") + "/")
    for each in keys:
        total.update(f"{each}\0{hashlib.sha256(store.read(each)).hexdigest()}\n".encode())
    if not keys:
        raise UserError(f"The data set {address} does not exist: the bucket has no such object and none below it.")
    return total.hexdigest()


def hub_commit(kind: str, name: str, revision: str) -> str:
    """The commit that a branch or tag of a hub repository stands for; without a network, that of the local cache.

    kind is `model` or `dataset`. UserError when there is no such repository or revision, or no way to know it.
    """
    if COMMIT.fullmatch(revision):
        return revision
    from huggingface_hub import HfApi, constants, errors
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # public, but not re-exported

    what, place = ("data set", "file or directory") if kind == "dataset" else ("model", "directory")
    try:
        validate_repo_id(name)
        if not constants.HF_HUB_OFFLINE:
            return str(HfApi().repo_info(name, repo_type=kind, revision=revision, timeout=15).sha)
        reason = "HF_HUB_OFFLINE is set"
    except errors.HFValidationError:
        raise UserError(f"The {what} {name!r} is neither a local {place} nor a name on the hub.") from None
    except errors.GatedRepoError:
        raise UserError(f"The {what} {name} is gated: accept its terms on the hub and set HF_TOKEN.") from None
    except errors.RevisionNotFoundError:
        raise UserError(
            f"The {what} {name} has no revision {revision!r}: name a branch, tag or commit of it."
        ) from None
    except errors.RepositoryNotFoundError:
        raise UserError(
            f"The {what} {name!r} is unknown to the hub, or private: name another, a local {place}, or set HF_TOKEN."
        ) from None
    except Exception as error:  # the transport's errors have no public home in huggingface_hub
        reason = type(error).__name__
    cached = _cached_commit(kind, name, revision)
    if cached is None:
        raise UserError(
            f"The {what} {name!r} is no local {place}, is not in the hub's local cache, and the hub cannot be reached "
            f"({reason}): name a local {place}, or restore the connection."
        )
    return cached


def _cached_commit(kind: str, name: str, revision: str) -> str | None:
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    reference = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=name, repo_type=kind) / "refs" / revision
    return reference.read_text(encoding="utf-8").strip() if reference.is_file() else None
