"""Base and tuned model, one after the other, as they were in training.

An adapter is put on the base that has just been evaluated and is never merged into it: what is measured is what is
shipped, and merging in bf16 can lose small updates. A model is loaded when its first sample is drawn: where the store
has them all, none is.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.evaluate.comparison import MODELS
from components.shared.models import (
    device,
    free_memory,
    load_adapter,
    load_base,
    load_model,
    load_tokenizer,
    resolve_precision,
)
from components.shared.run import digest_of
from components.shared.trained import read_trained


def tuned_from(base: Any, folder: Path, *, kind: str, precision: str) -> Any:
    """The tuned model: the adapter on `base`, or the model of full fine-tuning, once the caller's base is gone."""
    if kind == "adapter":
        return load_adapter(base, folder / "adapter")
    return load_model(str(folder / "model"), "", resolve_precision(precision))


class Subjects:
    """The models that are evaluated: base and tuned, or the base alone; never both in memory in full."""

    def __init__(self, given: Mapping[str, Any], folder: Path | None) -> None:
        """given: the step's parameters. folder: what train wrote; None for the base alone. UserError if unusable."""
        self.given, self.folder = given, folder
        self.trained = read_trained(folder) if folder else None
        self.method = str(self.trained["method"]) if self.trained else "lora"
        self.source = given["model_name"], given["model_revision"]
        self.which = ""
        self.model: Any = None
        self._tokenizer: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        return MODELS if self.trained else MODELS[:1]

    @property
    def tokenizer(self) -> Any:
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(*self.source, use_chat_template=self.given["use_chat_template"])
        return self._tokenizer

    def identity(self, which: str) -> dict[str, Any]:
        """All that decides what the model says, for the key under which its samples are kept."""
        facts: dict[str, Any] = {
            "source": self.source,
            "four_bit": self.method == "qlora",
            "dtype": str(resolve_precision(self.given["precision"])),
            "device": device().type,
        }
        if which == "tuned" and self.folder and self.trained:
            weights = sorted(path for path in (self.folder / self.trained["kind"]).rglob("*") if path.is_file())
            facts["trained"] = [(path.name, digest_of(path)) for path in weights if path.suffix != ".md"]
        return facts

    def load(self, which: str) -> Any:
        """The model `base` or `tuned`; base comes before tuned, whose adapter is then put onto it."""
        if self.which == which:
            return self.model
        precision = self.given["precision"]
        if which == "base":
            self.model = load_base(*self.source, method=self.method, precision=precision)
        elif self.folder and self.trained:
            kind = self.trained["kind"]
            base = None
            if kind == "adapter":
                base = self.model or load_base(*self.source, method=self.method, precision=precision)
            self.model = None
            free_memory()
            self.model = tuned_from(base, self.folder, kind=kind, precision=precision)
        self.which = which
        return self.model

    def release(self) -> None:
        """Let go of the model that is loaded, and of its memory."""
        self.model, self.which = None, ""
        free_memory()
