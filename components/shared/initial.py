"""The adapter that training starts from (init_adapter): found, pinned, and refused where it does not fit the run."""

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.shared.errors import UserError
from components.shared.progress import say
from components.shared.published import MODELS, current_version
from components.shared.run import on_cluster
from components.shared.store import Store, open_store
from components.shared.trained import ADAPTER_CONFIG, PIN, pinned, read_trained, refuse_path, trained_folder, unpinned


def pinned_adapter(given: Mapping[str, Any]) -> str:
    """init_adapter with what it means now, see trained.pinned.

    Empty for none, and for the name under which this run itself is to be published first: the series starts from the
    base. UserError for an adapter that does not exist or does not fit.
    """
    address = PIN.sub("", given["init_adapter"])
    if not address:
        return ""
    if begins_a_series(given, open_store()):
        say("check", f"nothing is published as {given['publish_as']} yet: training starts from the base")
        return ""
    if on_cluster():
        refuse_path(address, named="init_adapter")
    pin = pinned(address)
    with tempfile.TemporaryDirectory(prefix="grpo-adapter-") as scratch:
        # by its bare address: it was pinned just now, and would be digested once more
        refuse_other_shape(starting_adapter(PIN.sub("", pin), Path(scratch), given), given)
    return pin


def begins_a_series(given: Mapping[str, Any], store: Store) -> bool:
    """Whether init_adapter is the name under which this run itself is to be published first."""
    name = given["publish_as"]
    own = bool(name) and given["init_adapter"].strip("/") == f"{MODELS}/{name}"
    return own and current_version(store, name) is None


def starting_adapter(address: str, scratch: Path, given: Mapping[str, Any]) -> Path:
    """The folder of the adapter at an address, pinned or not; UserError when it is not one of the run's base, or is
    another than was pinned."""
    address = unpinned(address, named="init_adapter")
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
    return found / "adapter"


def refuse_other_shape(folder: Path, given: Mapping[str, Any]) -> None:
    """UserError when the adapter in a folder has another rank or scale than the run is to train."""
    config = json.loads((folder / ADAPTER_CONFIG).read_text())
    for parameter, key in (("lora_r", "r"), ("lora_alpha", "lora_alpha")):
        if config[key] != given[parameter]:
            raise UserError(
                f"init_adapter {PIN.sub('', given['init_adapter'])} has {parameter} {config[key]}, not "
                f"{given[parameter]}: use that value."
            )


def digest_of_adapter(folder: Path) -> str:
    """16 hexadecimal digits that stand for an adapter's weights and settings."""
    total = hashlib.sha256()
    for file in sorted(folder.glob("adapter_*")):
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]
