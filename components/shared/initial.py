"""The adapter that training starts from (init_adapter): found, pinned, and refused where it does not fit the run."""

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.shared.errors import UserError
from components.shared.progress import say
from components.shared.published import MODELS, current_version
from components.shared.run import on_cluster
from components.shared.store import in_bucket, open_store
from components.shared.trained import ADAPTER_CONFIG, FORMS, read_trained, trained_folder

DIGEST = re.compile(r"@[0-9a-f]{16}$")  # ends a pinned address whose contents somebody could replace
IN_STORE = ("models/", "runs/")


def pinned_adapter(given: Mapping[str, Any]) -> str:
    """init_adapter with what it means now: a published name with its version, other addresses with a digest.

    Empty for none, and for the name under which this run itself is to be published first: the series starts from the
    base. UserError for an adapter that does not exist or does not fit.
    """
    address = DIGEST.sub("", given["init_adapter"])
    if not address:
        return ""
    kind, _, name = address.strip("/").partition("/")
    if kind == MODELS and "/" not in name:
        version = current_version(open_store(), name)
        if version is None and name == given["publish_as"]:
            say("check", f"nothing is published as {name} yet: training starts from the base")
            return ""
        address = f"{MODELS}/{name}/{version}" if version else address
    elif on_cluster() and not in_bucket(address) and not address.startswith(IN_STORE):
        raise UserError(f"init_adapter {address!r} is a path, which no pod of the cluster has: {FORMS}.")
    with tempfile.TemporaryDirectory(prefix="grpo-adapter-") as scratch:
        folder = starting_adapter(address, Path(scratch), given)
        if address.startswith(IN_STORE):
            return address
        return f"{address}@{_digest(folder)}"


def still_meant(given: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """The version that an earlier attempt at this run took a published name for; empty where there was none.

    given, known: this attempt's parameters, and those in the run's record. The name may mean another one by now.
    """
    asked, then = given["init_adapter"].strip("/"), str(known.get("init_adapter") or "")
    return then if asked and then.startswith(f"{asked}/") and then.startswith(f"{MODELS}/") else ""


def starting_adapter(address: str, scratch: Path, given: Mapping[str, Any]) -> Path:
    """The folder of the adapter at an address, pinned or not; UserError when it does not fit the run's parameters."""
    address = DIGEST.sub("", address)
    found = trained_folder(address, scratch)
    facts = read_trained(found)
    if facts["kind"] != "adapter":
        raise UserError(f"init_adapter {address} is a whole model and no adapter: name it as model_name instead.")
    if facts["base"] != given["model_name"]:
        raise UserError(
            f"init_adapter {address} was trained on {facts['base']!r}, not on model_name {given['model_name']!r}: an "
            "adapter fits its own base alone."
        )
    then, now = facts.get("revision"), given["model_revision"]
    if then and now and then != now:
        raise UserError(
            f"init_adapter {address} was trained on another revision of the base ({then}) than this run reads ({now}): "
            "set model_revision to that, or start without it."
        )
    folder = found / "adapter"
    config = json.loads((folder / ADAPTER_CONFIG).read_text())
    for parameter, key in (("lora_r", "r"), ("lora_alpha", "lora_alpha")):
        if config[key] != given[parameter]:
            raise UserError(
                f"init_adapter {address} has {parameter} {config[key]}, not {given[parameter]}: use that value."
            )
    return folder


def _digest(folder: Path) -> str:
    """16 hexadecimal digits that stand for an adapter's weights and settings."""
    total = hashlib.sha256()
    for file in sorted(folder.glob("adapter_*")):
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]
