"""What training hands on: the adapter or the model as plain peft and transformers load it, and model.json.

It is taken from the run's last checkpoint, which is why a run that is already finished needs no training to export.
The stop rule of completion mode travels in generation_config.json, as stop strings.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from transformers import GenerationConfig

from components.shared.models import MODEL_JSON
from components.shared.program import STOP_STRINGS

_WANTED = {
    "adapter": ("adapter_config.json", "adapter_model.safetensors"),
    "model": ("config.json", "model*.safetensors", "model.safetensors.index.json"),
}
_TOKENIZER = ("tokenizer*.json", "vocab.json", "merges.txt", "special_tokens_map.json", "chat_template.jinja")


def export(
    checkpoint: Path, target: Path, generation: GenerationConfig, facts: dict[str, Any], *, use_chat_template: bool
) -> None:
    """Write `target`/adapter or `target`/model and model.json from a checkpoint folder.

    facts: what model.json says beside its kind: method, base, revision, run, steps.
    """
    kind = "model" if facts["method"] == "full" else "adapter"
    folder = target / kind
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in (*_WANTED[kind], *_TOKENIZER):
        for file in checkpoint.glob(pattern):
            copy = folder / file.name
            shutil.copyfile(file, copy)
            copy.chmod(0o644)  # safetensors are written 0600, and the next step may be another user
    settings = generation.to_dict()
    settings.pop("_from_model_config", None)  # else loading would derive the settings from the model's config anew
    if not use_chat_template:
        settings["stop_strings"] = STOP_STRINGS
    GenerationConfig.from_dict(settings).save_pretrained(folder)
    (target / MODEL_JSON).write_text(json.dumps({"kind": kind, **facts}, indent=2) + "\n")
