"""Where a trained model is found by its address, whatever kept it: a run, a published name, a bucket, a directory.

Every form leads to a folder as train writes it: model.json beside `adapter/` or `model/`. A bare PEFT adapter is taken
as well; what model.json would say is read from its adapter_config.json. A run pins an address once, by version or by
a digest of what lies there, so that whatever it does twice it does with the same model.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.shared.errors import InfraError, UserError
from components.shared.published import MODELS, current_version, fetch_version, publication
from components.shared.run import digest_of
from components.shared.store import DirectoryStore, Store, download_folder, in_bucket, open_store, split_address

MODEL_JSON = "model.json"  # what train says of the model that it hands on, beside adapter/ or model/
TRAINED_ON = "trained_on.json"  # beside it: the problems that it was trained on (see lineage.py)
ADAPTER_CONFIG = "adapter_config.json"
KINDS = ("adapter", "model")
RUNS = "runs"
IN_STORE = (f"{MODELS}/", f"{RUNS}/")
PIN = re.compile(r"@[0-9a-f]{16}$")  # ends a pinned address whose contents somebody could replace
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
        store = open_store()
        kind, name, version = _parts(address, store)
        if kind == MODELS:
            fetch_version(store, name, version, target)
        else:
            _fetch(store, f"{RUNS}/{name}/train", target, address)
    elif local.is_dir():
        if (local / MODEL_JSON).is_file():
            return local
        shutil.copytree(local, target, dirs_exist_ok=True)
    else:
        raise UserError(f"There is no trained model {address!r}: {FORMS}.")
    if not (target / MODEL_JSON).is_file():
        _adopt_adapter(target, address)
    return target


def refuse_missing(address: str, *, on_cluster: bool, named: str = "tuned_model", store: Store | None = None) -> None:
    """UserError when there is no trained model at `address`; nothing large is fetched.

    on_cluster: it is for a pod. named: the parameter that the address was given as. store: where keys are looked up, by
    default this environment's; one that is named stands for a pod's, which has no directories of this machine.
    """
    if on_cluster:
        refuse_path(address, named=named, store=store)
    where, prefix = _place(address, store)
    if prefix.startswith(f"{MODELS}/") and _is_in_store(address, store):
        _, name, version = prefix.split("/")
        if publication(where, name, version) is None:
            raise UserError(f"{named}: the model {name!r} has no version {version!r} in {where.uri(MODELS)}.")
    if not any(where.exists(_below(prefix, name)) for name in (MODEL_JSON, ADAPTER_CONFIG)):
        raise UserError(f"{named}: there is no trained model at {address}: {FORMS}.")


def refuse_path(address: str, *, named: str, store: Store | None = None) -> None:
    """UserError for a directory of this machine, which no pod has; the arguments are those of refuse_missing."""
    if not in_bucket(address) and not _is_in_store(address, store):
        raise UserError(f"{named} {address!r} is a path, which no pod of the cluster has: {FORMS}.")


def pinned(address: str) -> str:
    """The address of a model with what it means now: a published name with its version, which nobody changes, anything
    else with a digest of the model's files; UserError when there is none.
    """
    bare = PIN.sub("", address)
    where, prefix = _place(bare, None)
    if _is_in_store(bare) and prefix.startswith(f"{MODELS}/"):
        return prefix
    marks = _marks(where, f"{prefix}/" if prefix else "")
    if not marks:
        raise UserError(f"There is no trained model at {bare}: {FORMS}.")
    text = "".join(f"{name}\0{mark}\n" for name, mark in sorted(marks.items()))
    return f"{bare}@{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _marks(where: Store, folder: str) -> dict[str, str]:
    """The digest of each file that a model consists of, by name, cards left out.

    In a directory it is that of the contents, which takes no longer than loading them does. In a bucket it is what the
    server says of them, size and ETag: the first step, which has no need of the weights, would have to fetch them all.
    """
    names = [key.removeprefix(folder) for key in where.keys(folder)]
    of_model = (MODEL_JSON, TRAINED_ON, *(f"{kind}/" for kind in KINDS)) if MODEL_JSON in names else ("adapter_",)
    chosen = [name for name in names if name.startswith(of_model) and not name.endswith(".md")]
    if isinstance(where, DirectoryStore):
        return {name: digest_of(where.root / folder / name) for name in chosen}
    marks = where.fingerprints(folder)
    return {name: marks[folder + name] for name in chosen}


def unpinned(address: str, named: str = "tuned_model") -> str:
    """The bare address of what `pinned` has pinned; UserError when something else lies there by now."""
    bare = PIN.sub("", address)
    if bare != address and pinned(bare) != address:
        raise UserError(f"{named}: the model at {bare} is another than when this run began: start a new run.")
    return bare


def still_meant(given: Mapping[str, Any], known: Mapping[str, Any], parameter: str) -> str:
    """What an earlier attempt at this run took an address for; empty where there was none, or it asked for another.

    given, known: this attempt's parameters, and those in the run's record. A name may mean another version by now, and
    at an address another model may lie.
    """
    asked, then = PIN.sub("", str(given.get(parameter) or "")).rstrip("/"), str(known.get(parameter) or "")
    same_name = then.startswith(f"{MODELS}/") and then.startswith(f"{asked}/")
    same_place = then != (bare := PIN.sub("", then)) and bare.rstrip("/") == asked
    return then if asked and (same_name or same_place) else ""


def small_file(address: str, name: str) -> bytes | None:
    """A small file beside the model's model.json; None where there is none. UserError for an address that is none."""
    where, prefix = _place(PIN.sub("", address), None)
    try:
        return where.read(_below(prefix, name))
    except KeyError:
        return None


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


def _is_in_store(address: str, store: Store | None = None) -> bool:
    """Whether it is a key of the store; a directory of that name on this machine wins, unless a store is named."""
    return address.split("/", 1)[0] in (MODELS, RUNS) and (store is not None or not Path(address).is_dir())


def _place(address: str, store: Store | None) -> tuple[Store, str]:
    """Where the model's files lie: a store, and the key of their folder there, empty for a directory's own root."""
    if in_bucket(address):
        return split_address(address)
    if not _is_in_store(address, store):
        return DirectoryStore(Path(address).expanduser()), ""
    store = store or open_store()
    kind, name, version = _parts(address, store)
    return store, f"{MODELS}/{name}/{version}" if kind == MODELS else f"{RUNS}/{name}/train"


def _below(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix else name


def _parts(address: str, store: Store) -> tuple[str, str, str]:
    """models/<name>[/<version>] or runs/<run>[/train] as (kind, name, version), the current version where none is
    named; UserError for anything else."""
    kind, _, rest = address.strip("/").partition("/")
    name, _, tail = rest.partition("/")
    if not name or "/" in tail or (kind == RUNS and tail not in ("", "train")):
        raise UserError(f"{address!r} names no trained model: {FORMS}.")
    if kind == RUNS:
        return kind, name, ""
    version = tail or current_version(store, name)
    if version is None:
        raise UserError(f"No model {name!r} is published in {store.uri(MODELS)}: {FORMS}.")
    return kind, name, version


def _fetch(store: Store, prefix: str, target: Path, address: str) -> None:
    if fetch_trained(store, prefix, target):
        return
    if not store.exists(f"{prefix}/{ADAPTER_CONFIG}") or not download_folder(store, prefix, target):
        raise UserError(f"There is no trained model at {address} ({store.uri(prefix)} holds none): {FORMS}.")


def fetch_trained(store: Store, prefix: str, target: Path, parts: Sequence[str] = KINDS) -> bool:
    """Fetch a model as train wrote it below a prefix; False where there is no model.json, InfraError where it is not
    whole.

    Only model.json, trained_on.json and `parts`: a run's folder also holds what training wrote down.
    """
    try:
        store.download(f"{prefix}/{MODEL_JSON}", target / MODEL_JSON)
    except KeyError:
        return False
    if store.exists(f"{prefix}/{TRAINED_ON}"):
        store.download(f"{prefix}/{TRAINED_ON}", target / TRAINED_ON)
    found = {part for part in parts if download_folder(store, f"{prefix}/{part}", target / part)}
    if not found.intersection(KINDS):
        raise InfraError(f"{store.uri(prefix)} has {MODEL_JSON} but no adapter/ or model/: files have been lost.")
    return True


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
