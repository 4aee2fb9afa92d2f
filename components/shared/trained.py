"""Where a trained model is found by its address, whatever kept it: a run, a published name, a bucket, a directory.

Every form leads to a folder as train writes it: model.json beside `adapter/` or `model/`. A bare PEFT adapter is taken
as well; what model.json would say is read from its adapter_config.json.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from components.shared.errors import UserError
from components.shared.published import MODELS, current_version, fetch_version, publication
from components.shared.store import Store, download_folder, in_bucket, open_store, split_address

MODEL_JSON = "model.json"  # what train says of the model that it hands on, beside adapter/ or model/
ADAPTER_CONFIG = "adapter_config.json"
KINDS = ("adapter", "model")
RUNS = "runs"
FORMS = (
    "use models/<name> or models/<name>/<version> for a published model, runs/<run> for what a run trained, "
    "s3://bucket/folder, or a directory"
)


def trained_folder(address: str, scratch: Path) -> Path:
    """The folder of the trained model at `address`, fetched below `scratch` where it is not one of this machine.

    UserError when there is none: it names the forms that an address can have.
    """
    target = scratch / "trained"
    local = Path(address).expanduser()
    if in_bucket(address):
        store, prefix = split_address(address)
        _fetch(store, prefix, target, address)
    elif _is_in_store(address):
        kind, name, version = _parts(address)
        if kind == MODELS:
            fetch_version(open_store(), name, version, target)
        else:
            _fetch(open_store(), f"{RUNS}/{name}/train", target, address)
    elif local.is_dir():
        if (local / MODEL_JSON).is_file():
            return local
        shutil.copytree(local, target, dirs_exist_ok=True)
    else:
        raise UserError(f"There is no trained model {address!r}: {FORMS}.")
    if not (target / MODEL_JSON).is_file():
        _adopt_adapter(target, address)
    return target


def refuse_missing(address: str, *, on_cluster: bool) -> None:
    """UserError when there is no trained model at `address`; nothing large is fetched. on_cluster: a pod asks."""
    store, prefix = open_store(), ""
    if in_bucket(address):
        store, prefix = split_address(address)
    elif _is_in_store(address):
        kind, name, version = _parts(address)
        if kind == MODELS and publication(store, name, version) is None:
            raise UserError(f"The model {name!r} has no version {version!r} in {store.uri(MODELS)}.")
        prefix = f"{MODELS}/{name}/{version}" if kind == MODELS else f"{RUNS}/{name}/train"
    elif on_cluster:
        raise UserError(f"tuned_model {address!r} is a path, which no pod of the cluster has: {FORMS}.")
    names = (MODEL_JSON, ADAPTER_CONFIG)
    there = (
        any(store.exists(f"{prefix}/{name}") for name in names)
        if prefix
        else any((Path(address).expanduser() / name).is_file() for name in names)
    )
    if not there:
        raise UserError(f"There is no trained model at {address}: {FORMS}.")


def read_trained(folder: Path) -> dict[str, Any]:
    """What model.json in train's output says: kind, method, base, revision, …; UserError when it is not there."""
    try:
        facts = json.loads((folder / MODEL_JSON).read_text())
        kind = facts["kind"]
    except (OSError, ValueError, KeyError):
        raise UserError(
            f"{folder} holds no trained model: a readable {MODEL_JSON}, as train writes it, is needed."
        ) from None
    if kind not in KINDS or not (folder / kind).is_dir():
        raise UserError(f"{folder / MODEL_JSON} names kind {kind!r}, but there is no such folder beside it.")
    return dict(facts)


def _is_in_store(address: str) -> bool:
    """Whether it is a key of the store; a directory of that name on this machine wins."""
    return address.split("/", 1)[0] in (MODELS, RUNS) and not Path(address).is_dir()


def _parts(address: str) -> tuple[str, str, str]:
    """models/<name>[/<version>] or runs/<run>[/train] as (kind, name, version), the current version where none is
    named; UserError for anything else."""
    kind, _, rest = address.strip("/").partition("/")
    name, _, tail = rest.partition("/")
    if not name or "/" in tail or (kind == RUNS and tail not in ("", "train")):
        raise UserError(f"{address!r} names no trained model: {FORMS}.")
    if kind == RUNS:
        return kind, name, ""
    version = tail or current_version(open_store(), name)
    if version is None:
        raise UserError(f"No model {name!r} is published in {open_store().uri(MODELS)}: {FORMS}.")
    return kind, name, version


def _fetch(store: Store, prefix: str, target: Path, address: str) -> None:
    """Only what the model consists of: a run's folder also holds what training wrote down."""
    if store.exists(f"{prefix}/{MODEL_JSON}"):
        store.download(f"{prefix}/{MODEL_JSON}", target / MODEL_JSON)
        for kind in KINDS:
            download_folder(store, f"{prefix}/{kind}", target / kind)
    elif not store.exists(f"{prefix}/{ADAPTER_CONFIG}") or not download_folder(store, prefix, target):
        raise UserError(f"There is no trained model at {address} ({store.uri(prefix)} holds none): {FORMS}.")


def _adopt_adapter(folder: Path, address: str) -> None:
    """Make train's layout of a bare PEFT adapter that lies in `folder`."""
    try:
        config = json.loads((folder / ADAPTER_CONFIG).read_text())
        base = str(config["base_model_name_or_path"])
    except (OSError, ValueError, KeyError):
        raise UserError(
            f"{address} holds no trained model: {MODEL_JSON} beside adapter/ or model/, or a PEFT adapter with its "
            f"{ADAPTER_CONFIG}, is needed."
        ) from None
    files = list(folder.iterdir())
    (folder / "adapter").mkdir()
    for file in files:
        file.rename(folder / "adapter" / file.name)
    facts = {"kind": "adapter", "method": "lora", "base": base, "revision": config.get("revision") or ""}
    (folder / MODEL_JSON).write_text(json.dumps(facts) + "\n")
