"""What training hands on: the adapter or the model as plain peft and transformers load it, its card, and model.json.

It is taken from the run's last checkpoint, which is why a run that is already finished needs no training to export.
The stop rule of completion mode travels in generation_config.json, as stop strings.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from transformers import GenerationConfig

from components.shared.program import STOP_STRINGS
from components.shared.trained import MODEL_JSON

_WANTED = {
    "adapter": ("adapter_config.json", "adapter_model.safetensors"),
    "model": ("config.json", "model*.safetensors", "model.safetensors.index.json"),
}
TOKENIZER = ("tokenizer*.json", "vocab.json", "merges.txt", "special_tokens_map.json", "chat_template.jinja")


def export(
    checkpoint: Path, target: Path, generation: GenerationConfig, facts: dict[str, Any], *, use_chat_template: bool
) -> None:
    """Write `target`/adapter or `target`/model and model.json from a checkpoint folder.

    facts: what model.json says beside its kind: method, base, revision, run, steps.
    """
    kind = "model" if facts["method"] == "full" else "adapter"
    folder = target / kind
    copy_files(checkpoint, folder, (*_WANTED[kind], *TOKENIZER))
    settings = generation.to_dict()
    settings.pop("_from_model_config", None)  # else loading would derive the settings from the model's config anew
    if not use_chat_template:
        settings["stop_strings"] = STOP_STRINGS
    GenerationConfig.from_dict(settings).save_pretrained(folder)
    write_facts(target, {"kind": kind, **facts})


def copy_files(source: Path, folder: Path, patterns: tuple[str, ...]) -> None:
    """Copy the files of these names, readable for every user: safetensors are written 0600."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (file for pattern in patterns for file in source.glob(pattern)):
        shutil.copyfile(file, folder / file.name)
        (folder / file.name).chmod(0o644)


def write_facts(target: Path, facts: dict[str, Any]) -> None:
    """Write model.json, which says what lies beside it."""
    (target / MODEL_JSON).write_text(json.dumps(facts, indent=2) + "\n")


def read_facts(target: Path) -> dict[str, Any]:
    """What model.json says."""
    return dict(json.loads((target / MODEL_JSON).read_text()))
