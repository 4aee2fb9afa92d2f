"""Published models: `models/<name>/<version>/` and the pointer `models/<name>/current`, a line with a version.

A version is written whole (its manifest last) and never changed; its name is the id of the run that trained it. Only
the pointer moves, by compare-and-swap: of two that would publish at once, each having seen the same version as current,
one succeeds and the other is told.

    model.json, adapter/ or model/ (merged/)   as train left them, the card in each folder
    trained_on.json                            marks of all problems that it and those before it were trained on
    publication.json                           when, from which run, what it replaced, what decided it
    evaluation.json                            candidate and incumbent on the validation problems, where they decided
    provenance.json                            the run's record, run.json
    manifest.json                              sizes and digests of the model's files
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.shared.errors import InfraError, UserError
from components.shared.manifest import MANIFEST, facts_of, fits
from components.shared.progress import say
from components.shared.run import RUN_ID
from components.shared.store import Store

MODELS, CURRENT = "models", "current"
PUBLICATION, EVALUATION, PROVENANCE = "publication.json", "evaluation.json", "provenance.json"
MERGED = "merged"  # of train's folder: base and adapter as one model
IGNORES_CONDITIONS = (
    "this store ignores conditional writes (If-None-Match): of two runs that publish under one name at the same time "
    "both may believe that they did; let one schedule at a time publish."
)
BY_VALIDATION, BY_HAND = "validation", "hand"


@dataclass(frozen=True)
class Pointer:
    """What `models/<name>/current` said when it was read; version and tag are None before the first publication."""

    version: str | None
    tag: str | None


def check_model_name(name: str, named: str) -> str:
    """The name of a published model, a part of keys; UserError when it can be none. named: what it was given as."""
    if not RUN_ID.fullmatch(name):
        raise UserError(f"{named} {name!r} is no name for a model: use letters, digits, dots, dashes and underscores.")
    return name


def folder_of_version(name: str, version: str) -> str:
    """The key prefix of a version."""
    return f"{MODELS}/{name}/{version}"


def read_pointer(store: Store, name: str) -> Pointer:
    """Which version of a model is current, with what a swap needs; InfraError when the pointer names none."""
    try:
        content, tag = store.read_with_tag(_pointer_key(name))
    except KeyError:
        return Pointer(None, None)
    version = content.decode("utf-8", "replace").strip()
    if not is_version(version):
        raise InfraError(f"{store.uri(_pointer_key(name))} names no version: `models rollback` sets it to one.")
    return Pointer(version, tag)


def current_version(store: Store, name: str) -> str | None:
    """The current version of a model; None where nothing is published under this name."""
    return read_pointer(store, name).version


def move_pointer(store: Store, name: str, version: str, seen: Pointer) -> bool:
    """Make a version current if `seen` is still what the pointer says; False when somebody else was first.

    A write whose answer was lost is sent again by the client and then refused, for the first one had arrived: what the
    pointer says decides.
    """
    moved = store.swap(_pointer_key(name), f"{version}\n".encode(), seen.tag)
    return moved or current_version(store, name) == version


def is_version(text: str) -> bool:
    """Whether a text can be the name of a version."""
    return bool(RUN_ID.fullmatch(text)) and text != CURRENT


def names(store: Store) -> list[str]:
    """The models that are published."""
    return store.folders(f"{MODELS}/")


def versions(store: Store, name: str) -> list[dict[str, Any]]:
    """What publication.json says of every whole version, the oldest first."""
    found = [publication(store, name, version) for version in store.folders(f"{MODELS}/{name}/")]
    return sorted((one for one in found if one is not None), key=lambda one: str(one["published"]))


def publication(store: Store, name: str, version: str) -> dict[str, Any] | None:
    """What publication.json says of a version; None when there is no such version or it is not whole."""
    folder = folder_of_version(name, version)
    if not store.exists(f"{folder}/{MANIFEST}"):
        return None
    return dict(json.loads(store.read(f"{folder}/{PUBLICATION}")))


def fetch_version(store: Store, name: str, version: str, folder: Path) -> None:
    """Fetch a version's model into a folder; UserError when there is none, InfraError when a file is not what it was.

    Only what a model is loaded from: model.json beside adapter/ or model/, not merged/, which is as large as the base.
    """
    source = folder_of_version(name, version)
    try:
        files = json.loads(store.read(f"{source}/{MANIFEST}"))["files"]
    except KeyError:
        raise UserError(
            f"There is no version {version!r} of a published model {name!r} in {store.uri(MODELS)}: "
            "`models list` shows what there is."
        ) from None
    for file, facts in files.items():
        if file.startswith(f"{MERGED}/"):
            continue
        try:
            store.download(f"{source}/{file}", folder / file)
        except KeyError:
            raise InfraError(f"{store.uri(f'{source}/{file}')} is gone from the store.") from None
        if not fits(folder / file, facts):
            raise InfraError(f"{store.uri(f'{source}/{file}')} is not the file that was published.")


def publish(
    store: Store,
    name: str,
    version: str,
    model: Path,
    *,
    seen: Pointer,
    decided_by: str,
    facts: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None,
    provenance: Mapping[str, Any],
) -> bool:
    """Write a version from train's folder `model` and make it current; False when the pointer had moved since `seen`.

    facts: what else publication.json is to say. A version that lost is taken away again.
    """
    if not is_version(version):
        raise UserError(f"{version!r} is no version: it is the id of the run that trained the model.")
    new = publication(store, name, version) is None
    if new:
        told = {
            "name": name,
            "version": version,
            "published": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "replaces": seen.version,
            "decided_by": decided_by,
            **facts,
        }
        parts: dict[str, Mapping[str, Any] | None] = {
            PUBLICATION: told, EVALUATION: evaluation, PROVENANCE: provenance
        }  # fmt: skip
        _write_version(store, folder_of_version(name, version), model, parts)
        if not _keeps_conditions(store, f"{folder_of_version(name, version)}/{MANIFEST}"):
            say("publish", f"warning: {IGNORES_CONDITIONS}")
    if move_pointer(store, name, version, seen):
        return True
    if new:
        store.delete(f"{folder_of_version(name, version)}/{MANIFEST}")
        store.delete_folder(f"{folder_of_version(name, version)}/")
    return False


def _keeps_conditions(store: Store, key: str) -> bool:
    """Whether the store refuses to write an object as a new one that is there: some servers ignore conditions."""
    return not store.swap(key, store.read(key), None)


def facts(
    trained: Mapping[str, Any],
    *,
    run: str,
    heldout: Mapping[str, Any] | None,
    decision: Mapping[str, Any] | None,
    use_chat_template: bool,
) -> dict[str, Any]:
    """What publication.json says of a model beside its name: where it comes from and what was measured.

    trained: model.json. heldout: evaluation.json of the run. decision: of the validation problems, where there is one.
    """
    measured = None
    if heldout is not None:
        rates = {which: heldout[which]["pass_at_1"] for which in ("base", "tuned")}
        measured = {**rates, "difference": heldout["difference"], "problems": heldout["problems"]}
    return {
        "run_id": run,
        **{key: trained[key] for key in ("kind", "method", "base", "revision")},
        "prompting": {"use_chat_template": use_chat_template},
        "heldout": measured,
        "decision": dict(decision) if decision is not None else None,
    }


def _write_version(store: Store, folder: str, model: Path, parts: Mapping[str, Mapping[str, Any] | None]) -> None:
    files = {path.relative_to(model).as_posix(): path for path in sorted(model.rglob("*")) if path.is_file()}
    manifest = {name: facts_of(path) for name, path in files.items()}
    for name, path in files.items():
        store.upload(f"{folder}/{name}", path)
    for name, content in parts.items():
        if content is not None:
            store.write(f"{folder}/{name}", _json(content))
    store.write(f"{folder}/{MANIFEST}", _json({"files": manifest}))


def _json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def _pointer_key(name: str) -> str:
    return f"{MODELS}/{name}/{CURRENT}"
