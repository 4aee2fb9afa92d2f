"""A model's config.json alone, from wherever the model is: enough to plan with, without a byte of its weights."""

import json
from pathlib import Path
from typing import Any

from components.shared.errors import UserError
from components.shared.mirror import folder_of_model
from components.shared.model_hub import hub_commit, hub_sentences
from components.shared.store import in_bucket, open_store, split_address

CONFIG = "config.json"


def read_config(model_name: str, revision: str) -> dict[str, Any]:
    """The model's configuration as its config.json says it; no network where a directory or the store has it.

    UserError for a model that does not exist or whose config.json is none, HubUnreachable when only the hub has it and
    does not answer.
    """
    try:
        config = json.loads(_text(model_name, revision))
    except ValueError:
        raise UserError(f"{CONFIG} of {model_name} is not JSON: the model is damaged, name another.") from None
    if not isinstance(config, dict) or "model_type" not in config:
        raise UserError(f"{CONFIG} of {model_name} names no model_type: name a model that transformers can load.")
    return config


def _text(model_name: str, revision: str) -> str:
    folder = Path(model_name).expanduser()
    if folder.is_dir():
        if not (folder / CONFIG).is_file():
            raise UserError(f"The directory {folder} holds no model: {CONFIG} is missing.")
        return (folder / CONFIG).read_text(encoding="utf-8")
    if in_bucket(model_name):
        store, prefix = split_address(model_name)
        try:
            return store.read(f"{prefix}/{CONFIG}").decode()
        except KeyError:
            raise UserError(f"{model_name} holds no model: {CONFIG} is missing.") from None
    try:
        return open_store().read(f"{folder_of_model(model_name, revision)}/{CONFIG}").decode()
    except KeyError:
        return _from_hub(model_name, revision or "main")


def _from_hub(model_name: str, revision: str) -> str:
    """By way of the hub's local cache, which is asked first; one short question tells whether the hub answers."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(model_name, CONFIG, revision=revision)
    except HFValidationError:
        cached = None
    if isinstance(cached, str):
        return Path(cached).read_text(encoding="utf-8")
    revision = hub_commit("model", model_name, revision)
    with hub_sentences("model", model_name, revision):
        return Path(hf_hub_download(model_name, CONFIG, revision=revision)).read_text(encoding="utf-8")
