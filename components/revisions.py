"""What exactly a run reads: its model and its data sets, each pinned by a commit or a digest.

The values are parameters of the steps and so part of every cache key: an edited row or a moved tag is a miss. They
are pinned at submit, and again by the pipeline's first step for a run that was started without a submit or that is to
follow the newest. Inputs that do not exist are refused here.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from components.settings import DATA_SUFFIXES, DATASET_FORMS, NAMED_DATASETS, unknown_dataset, unknown_format
from components.shared.errors import UserError
from components.shared.initial import begins_a_series
from components.shared.manifest import MANIFEST
from components.shared.model_hub import HUB_ID, hub_commit, near_path
from components.shared.run import recorded
from components.shared.store import Store, in_bucket, split_address
from components.shared.trained import IN_STORE, PIN, refuse_missing

REVISIONS = ("model_revision", "dataset_revision", "regression_revision")
ADAPTER = "init_adapter"  # pinned by components/shared/initial.py
TUNED_MODEL = "tuned_model"  # pinned by components/shared/trained.py
SOURCES = {  # what each of them is the revision of
    "model_revision": "model_name",
    "dataset_revision": "dataset",
    "regression_revision": "regression_dataset",
}
PINNED = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # a commit or a digest, which nothing moves
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")


def model_revision(name: str, revision: str) -> str:
    """The model's commit on the hub, or the digest of what a directory or an s3:// address holds."""
    if in_bucket(name):
        return _agreed("model_revision", revision, stored_model_digest(name), name)
    folder = Path(name).expanduser()
    if folder.is_dir():
        _check_model_files({path.name for path in folder.iterdir()}, f"directory {folder}")
        return _agreed("model_revision", revision, _folder_digest(folder), str(folder))
    if folder.exists() or not HUB_ID.fullmatch(name):
        what = "name a directory that holds a model, or a hub id"
        raise UserError(f"The model directory {name} does not exist: {what}.{near_path(name)}")
    return hub_commit("model", name, revision or "main")


def pin(given: Mapping[str, Any], name: str) -> str:
    """The commit or digest for one of REVISIONS; "" for a regression set that was not asked for."""
    if name == "model_revision":
        return model_revision(given["model_name"], given[name])
    return dataset_revision(given[SOURCES[name]], given[name], name) if given[SOURCES[name]] else ""


def dataset_revision(dataset: str, revision: str, parameter: str = "dataset_revision") -> str:
    """The data set's commit on the hub, or the digest of what files or an s3:// address hold."""
    if dataset in NAMED_DATASETS:
        return hub_commit("dataset", NAMED_DATASETS[dataset][0], revision or "main")
    if in_bucket(dataset):
        return _agreed(parameter, revision, _objects_digest(dataset), dataset)
    path = Path(dataset).expanduser()
    if path.is_dir():
        return _agreed(parameter, revision, _folder_digest(path), dataset)
    if path.is_file():
        if path.suffix not in DATA_SUFFIXES:
            raise unknown_format(dataset)
        return _agreed(parameter, revision, digest(path.parent, [path]), dataset)
    if path.suffix in DATA_SUFFIXES or not HUB_ID.fullmatch(dataset):
        raise UserError(f"The data set {dataset} does not exist: {DATASET_FORMS}.{near_path(dataset)}")
    if "/" not in dataset:
        raise unknown_dataset(dataset)
    return hub_commit("dataset", dataset, revision or "main")


def refuse_what_no_pod_has(given: Mapping[str, Any]) -> None:
    """UserError for a model or data set on a cluster that is neither the hub's nor in a bucket."""
    sets = ("dataset", "regression_dataset")
    for name, forms in (("model_name", "a hub id"), *((name, "mbpp, a hub id") for name in sets if given[name])):
        value = given[name]
        if in_bucket(value) or value in NAMED_DATASETS:
            continue
        path = Path(value).expanduser()
        if path.exists() or value.startswith(("/", ".", "~")) or path.suffix in DATA_SUFFIXES:
            raise UserError(
                f"{name} {value!r} is a path, which no pod of the cluster has: upload it to the store and give its "
                f"s3:// address (`python pipeline.py upload-demo` does that for the demo), or use {forms}."
            )
        if not HUB_ID.fullmatch(value):
            raise UserError(
                f"{name} {value!r} is nothing that a pod of the cluster can load: use {forms} like owner/name, or an "
                "s3://bucket/folder address."
            )


def refuse_missing_models(given: Mapping[str, Any], *, on_cluster: bool, store: Store | None) -> None:
    """UserError when there is no model at init_adapter or tuned_model, nothing large being fetched.

    store: where those of models/ and runs/ are looked up; with None they are left to the run's first step. A name under
    which the run itself is to be published first may mean nothing yet.
    """
    for name in (ADAPTER, TUNED_MODEL):
        address = PIN.sub("", given.get(name) or "")
        if not address or (store is None and address.startswith(IN_STORE)):
            continue
        if name == ADAPTER and store is not None and begins_a_series(given, store):
            continue
        refuse_missing(address, on_cluster=on_cluster, named=name, store=store if on_cluster else None)


def as_read_by(store: Store, run: str, asked: Mapping[str, Any]) -> dict[str, str]:
    """The revisions with which a run is continued: what it had read, where it was not asked for one that cannot move.

    A branch, a tag or nothing at all may mean something newer by now. What the record does not know stays as asked.
    """
    known = recorded(store, run).get("parameters") or {}
    read = {
        name: asked[name] if PINNED.fullmatch(asked[name]) else str(known.get(name) or asked[name])
        for name in REVISIONS
    }
    return {**read, ADAPTER: str(known.get(ADAPTER, asked[ADAPTER]))}


def stored_model_digest(address: str) -> str:
    """What stands for the contents of the model at s3://bucket/folder, without reading gigabytes of weights.

    The digest of its manifest where there is one, else of its objects' names, sizes and ETags.
    """
    store, folder = split_address(address)
    marks = store.fingerprints(folder + "/")
    if f"{folder}/{MANIFEST}" in marks:
        return hashlib.sha256(store.read(f"{folder}/{MANIFEST}")).hexdigest()
    if not marks:
        raise UserError(f"The model {address} does not exist: the bucket holds nothing below that key.")
    _check_model_files({key.removeprefix(f"{folder}/") for key in marks}, address)
    return hashlib.sha256("".join(f"{key}\0{mark}\n" for key, mark in sorted(marks.items())).encode()).hexdigest()


def digest(root: Path, files: Iterable[Path]) -> str:
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


def _check_model_files(names: set[str], where: str) -> None:
    if "config.json" not in names:
        raise UserError(f"The {where} holds no model: config.json is missing.")
    if not names & set(TOKENIZER_FILES):
        raise UserError(f"The model {where} has no tokenizer: {' or '.join(TOKENIZER_FILES)} is missing.")
    if not any(name.endswith((".safetensors", ".bin")) for name in names):
        raise UserError(f"The model {where} has no weights: *.safetensors is missing.")


def _agreed(parameter: str, asked: str, found: str, where: str) -> str:
    """The digest found; a revision that was asked for must be that digest, for a directory has no other."""
    if asked and asked != found:
        raise UserError(f"{parameter} {asked!r} is not what {where} holds now ({found}): leave it empty.")
    return found


def _folder_digest(folder: Path) -> str:
    return digest(folder, (path for path in folder.rglob("*") if path.is_file()))


def _objects_digest(address: str) -> str:
    """The digest of the object at s3://bucket/key, or of all objects below that key."""
    store, key = split_address(address)
    total = hashlib.sha256()
    keys = [key] if store.exists(key) else store.keys(key + "/")
    for each in keys:
        total.update(f"{each}\0{hashlib.sha256(store.read(each)).hexdigest()}\n".encode())
    if not keys:
        raise UserError(f"The data set {address} does not exist: the bucket has no such object and none below it.")
    return total.hexdigest()
