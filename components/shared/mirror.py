"""Models by way of the store: a hub model is mirrored once by revision, and steps load what fits its manifest.

`cache/models/<key>/` holds a mirrored model's files and, written last, its manifest. A model that lies at an s3://
address stays there; only its manifest is made, from what is there when it is first used. So the steps that hold a GPU
need neither the hub nor a token, and none of them loads a file whose digest is another.
"""

import contextlib
import functools
import hashlib
import json
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from components.shared.errors import InfraError, UserError
from components.shared.manifest import MANIFEST, facts_of, fits
from components.shared.model_hub import SECONDS, hub_sentences
from components.shared.progress import Progress, say
from components.shared.store import Store, in_bucket, open_store, split_address

CACHE_VARIABLE = "GRPO_MODEL_CACHE"  # the folder for models on a pod's own disk
PART, LEFT_SECONDS = ".part", 6 * 3600.0  # a file that is being fetched; how long after its last byte it is rubbish
# Other forms of the same weights, which transformers would not load.
LEFT_OUT = (".gguf", ".onnx", ".h5", ".msgpack", ".pth", ".ot", ".md", ".png", ".gitattributes")


def folder_of_model(model_name: str, revision: str) -> str:
    """The key prefix of a model's manifest, and of its files when it came from the hub."""
    return f"cache/models/{hashlib.sha256(f'{model_name}@{revision}'.encode()).hexdigest()[:32]}"


def fetch_model(model_name: str, revision: str) -> None:
    """See to it that the store can serve this model: every file with a digest; done at once when it was done before.

    UserError for a model that does not exist or may not be read, InfraError when hub or store fails.
    """
    store = open_store()
    prefix = folder_of_model(model_name, revision)
    known = _manifest(store, prefix)
    if known is not None and _is_whole(known):
        say("fetch_model", f"{model_name} is in the store ({_size(known)}, {known['location']})")
        return
    if in_bucket(model_name):
        manifest = _read_through(model_name)
    else:
        manifest = _mirror(store, prefix, model_name, revision)
    manifest = {"source": model_name, "revision": revision, **manifest}
    store.write(f"{prefix}/{MANIFEST}", (json.dumps(manifest, indent=1) + "\n").encode())
    say("fetch_model", f"{model_name} can be loaded from the store now ({_size(manifest)}, {manifest['location']})")


@functools.cache
def local_model(model_name: str, revision: str) -> tuple[str, str]:
    """What transformers loads for a model: a folder on this machine, or a hub id where only the hub has it.

    From the store every file is fetched and must fit its digest; InfraError when one does not.
    """
    if Path(model_name).is_dir():
        return model_name, ""
    store = open_store()
    stored = in_bucket(model_name)
    if not stored and not in_bucket(store.uri("")):
        return model_name, revision or "main"  # a laptop's store: the hub's own cache is on the same disk
    manifest = _manifest(store, folder_of_model(model_name, revision))
    if manifest is None and stored:
        fetch_model(model_name, revision)
        manifest = _manifest(store, folder_of_model(model_name, revision))
    if manifest is None:
        return model_name, revision or "main"
    root = Path(os.environ.get(CACHE_VARIABLE) or Path(tempfile.gettempdir()) / "grpo-models")
    folder = root / Path(folder_of_model(model_name, revision)).name
    _download(manifest, folder, model_name)
    return str(folder), ""


def _download(manifest: Mapping[str, Any], folder: Path, model_name: str) -> None:
    source, prefix = split_address(manifest["location"])
    missing = {name: facts for name, facts in manifest["files"].items() if not fits(folder / name, facts)}
    if not missing:
        return
    megabytes = sum(facts["size"] for facts in missing.values()) // 10**6
    progress = Progress("model", f"fetching {model_name}", megabytes, unit="MB")
    for name, facts in missing.items():
        with _part(folder / name) as part:
            try:
                source.download(f"{prefix}/{name}", part)
            except KeyError:
                raise InfraError(
                    f"{manifest['location']}/{name} is gone from the store: start the run again."
                ) from None
            if not fits(part, facts):
                raise InfraError(
                    f"{manifest['location']}/{name} is not the file whose digest was taken: put the old one back, or "
                    "leave model_revision empty to take the new one."
                )
            part.replace(folder / name)
        progress.advance(facts["size"] // 10**6)


@contextlib.contextmanager
def _part(file: Path) -> Iterator[Path]:
    """A name beside a file that no other run writes to, for on a claim several may fetch the same model at once.

    What killed runs have left is removed: parts that nobody has written to for long.
    """
    for left in file.parent.glob(f"*{PART}*"):
        with contextlib.suppress(OSError):  # another run removes them, too, or they are another account's
            if time.time() - left.stat().st_mtime > LEFT_SECONDS:
                left.unlink()
    part = file.with_name(f"{file.name}.{secrets.token_hex(4)}{PART}")
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


def _manifest(store: Store, prefix: str) -> dict[str, Any] | None:
    try:
        return dict(json.loads(store.read(f"{prefix}/{MANIFEST}")))
    except KeyError:
        return None


def _is_whole(manifest: Mapping[str, Any]) -> bool:
    """Whether every file is still there; what is in it is looked at when it is loaded."""
    source, prefix = split_address(manifest["location"])
    there = source.keys(prefix + "/")
    return {f"{prefix}/{name}" for name in manifest["files"]} <= set(there)


def _mirror(store: Store, prefix: str, model_name: str, revision: str) -> dict[str, Any]:
    """Copy a hub model's files into the store, one at a time, so that the largest file is all the disk it takes."""
    from huggingface_hub import HfApi, hf_hub_download

    location = store.uri(prefix)
    if not in_bucket(location):
        raise UserError(f"The store {location} is a directory: only a store in a bucket can serve models to pods.")
    with hub_sentences("model", model_name, revision):
        told = HfApi().model_info(model_name, revision=revision, files_metadata=True, timeout=SECONDS)
    wanted = _wanted({file.rfilename: file for file in told.siblings or []}, model_name)
    progress = Progress("fetch_model", f"mirroring {model_name}", len(wanted), unit="files")
    files = {}
    for name, entry in wanted.items():
        with tempfile.TemporaryDirectory(prefix="grpo-mirror-") as folder:
            with hub_sentences("model", model_name, revision):
                fetched = Path(hf_hub_download(model_name, name, revision=revision, local_dir=folder))
            facts = facts_of(fetched)
            if entry.lfs and facts["sha256"] != f"sha256:{entry.lfs.sha256}":
                raise InfraError(f"{name} of {model_name} came damaged from the hub: start the run again.")
            store.upload(f"{prefix}/{name}", fetched)
        files[name] = facts
        progress.advance(note=name)
    return {"location": location, "files": files}


def _wanted(files: Mapping[str, Any], model_name: str) -> dict[str, Any]:
    """The files that loading needs: no other forms of the weights, and no .bin beside .safetensors."""
    safe = any(name.endswith(".safetensors") for name in files)
    chosen = {
        name: entry
        for name, entry in sorted(files.items())
        if not name.endswith(LEFT_OUT) and "/" not in name and not (safe and name.endswith((".bin", ".bin.index.json")))
    }
    if "config.json" not in chosen:
        raise UserError(f"The hub's {model_name} holds no model: config.json is missing.")
    return chosen


def _read_through(address: str) -> dict[str, Any]:
    """The manifest of a model that lies in a bucket: its own where it has one, else made by reading every file once."""
    source, prefix = split_address(address)
    own = _manifest(source, prefix)
    if own is not None:
        return {"location": address, "files": own["files"]}
    files = {}
    for key in source.keys(prefix + "/"):
        with tempfile.TemporaryDirectory(prefix="grpo-digest-") as folder:
            target = Path(folder) / "file"
            source.download(key, target)
            files[key.removeprefix(f"{prefix}/")] = facts_of(target)
    if not files:
        raise UserError(f"The model {address} does not exist: the bucket holds nothing below that key.")
    return {"location": address, "files": files}


def upload_model(store: Store, prefix: str, folder: Path) -> dict[str, Any]:
    """Put a local model's files and their manifest, last, under a key prefix of the store; returns the manifest."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    files = {path.relative_to(folder).as_posix(): facts_of(path) for path in paths}
    for name in files:
        store.upload(f"{prefix}/{name}", folder / name)
    manifest = {"files": files}
    store.write(f"{prefix}/{MANIFEST}", (json.dumps(manifest, indent=1) + "\n").encode())
    return manifest


def _size(manifest: Mapping[str, Any]) -> str:
    return f"{sum(facts['size'] for facts in manifest['files'].values()) / 1e9:.3g} GB"
