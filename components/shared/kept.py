"""Judged samples in the store, so that no run draws again what one before it drew.

They lie below a key of everything that they depend on but their problem; a row says which problem and sample it is of.
Each batch is an object of its own, named by what it holds, so that runs at work at the same time do not disturb each
other and one that is killed loses a batch.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from components.shared import attempts, batches, grading, models, program, sampling
from components.shared.progress import say
from components.shared.store import Store

CODE = (attempts, batches, grading, models, program, sampling)  # what a sample or its verdict follows from


def digest(facts: Any) -> str:
    """sha256 of anything that JSON can say."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def context_key(facts: Mapping[str, Any], *, more_code: Sequence[Path] = ()) -> str:
    """A digest of what samples depend on beside their problem: the facts, and the code and libraries that draw them.

    more_code: source files beside CODE whose changes make other rows.
    """
    files = [*(Path(str(module.__file__)) for module in CODE), *more_code]
    code = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return digest({**facts, "code": code, "libraries": [torch.__version__, transformers.__version__]})


class Kept:
    """The rows below one context key; step: whose log lines these are."""

    def __init__(self, store: Store, context: str, *, step: str) -> None:
        self.store, self.prefix, self.step = store, f"cache/{context}", step

    def read(self, take: Callable[[dict[str, Any]], None]) -> None:
        """Give every row to `take`; of an object that cannot be read, what stands behind is left out, which is said."""
        for key in self.store.keys(f"{self.prefix}/"):
            try:
                for row in map(json.loads, self.store.read(key).decode().splitlines()):
                    take(row)
            except (KeyError, TypeError, ValueError) as error:
                say(self.step, f"warning: {self.store.uri(key)} cannot be read ({error!r}), so it is left out")

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep a batch of rows; none is nothing."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        if text:
            self.store.write(f"{self.prefix}/{hashlib.sha256(text.encode()).hexdigest()[:32]}.jsonl", text.encode())
