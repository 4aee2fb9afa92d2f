"""Judged samples of the base, kept in the store so that no run draws again what one before it drew.

A sample is found by its problem (the parts that it depends on) and its number, below a key of everything else that it
depends on: model and revision, precision and kind of device, sampling, seed, the judge's version, the code that draws
and judges. So runs share it whatever their problem set, max_candidate_samples, filter_samples or num_generations.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from components.shared import attempts, grading, models, program, sampling
from components.shared.models import device, resolve_precision
from components.shared.problem import Problem
from components.shared.progress import say
from components.shared.sampling import Sampling
from components.shared.store import Store

CODE = (attempts, grading, models, program, sampling)  # what a sample or its verdict follows from
SETTINGS = ("model_name", "model_revision", "seed", "test_timeout_s")
PROBLEM_FIELDS = {"task_id", "prompt", "entry_point", "prelude", "setup", "tests"}


@dataclass(frozen=True)
class Sample:
    """One judged completion. passed is None when it could not be judged; tokens counts what the model wrote."""

    completion: str
    outcome: str
    passed: bool | None
    tokens: int
    truncated: bool


def digest_of_problem(problem: Problem) -> str:
    """A digest of what a sample and its verdict depend on in a problem; not of its measured times, say."""
    return _digest(problem.model_dump(include=PROBLEM_FIELDS))


def context_key(given: Mapping[str, Any], judge: str) -> str:
    """A digest of everything else: given are the step's parameters, judge is the judge's version."""
    return _digest(
        {
            "settings": {name: given[name] for name in SETTINGS},
            "sampling": vars(Sampling.from_parameters(given)),
            "computing": [str(resolve_precision(given["precision"])), device().type],
            "judge": judge,
            "code": [hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest() for module in CODE],
            "libraries": [torch.__version__, transformers.__version__],
        }
    )


class Cache:
    """The samples below one context key; each batch is an object of its own, named by what it holds."""

    def __init__(self, store: Store, context: str) -> None:
        self.store, self.prefix = store, f"cache/{context}"

    def read(self, problems: Iterable[Problem]) -> dict[str, dict[int, Sample]]:
        """What is there for these problems: by their digest, then by the sample's number."""
        found: dict[str, dict[int, Sample]] = {digest_of_problem(problem): {} for problem in problems}
        for key in self.store.keys(f"{self.prefix}/"):
            try:
                for row in map(json.loads, self.store.read(key).decode().splitlines()):
                    if row["problem"] in found:
                        found[row["problem"]][row["number"]] = Sample(**row["sample"])
            except (KeyError, TypeError, ValueError) as error:
                say("filter", f"warning: {self.store.uri(key)} cannot be read ({error!r}), so it is left out")
        return found

    def write(self, rows: Iterable[tuple[str, int, Sample]]) -> None:
        """Keep (problem's digest, number, sample); what could not be judged is left to a later try."""
        kept = [
            {"problem": problem, "number": number, "sample": asdict(sample)}
            for problem, number, sample in rows
            if sample.passed is not None
        ]
        if kept:
            text = "".join(json.dumps(row) + "\n" for row in kept)
            self.store.write(f"{self.prefix}/{hashlib.sha256(text.encode()).hexdigest()[:32]}.jsonl", text.encode())


def _digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
