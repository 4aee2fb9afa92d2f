"""Judged samples, kept in the store so that no run draws again what one before it drew.

A sample is found by its problem (the parts that it depends on) and its number, below a key of everything else that it
depends on: model and revision, the adapter that training starts from, precision and kind of device, sampling, seed, the
judge's version, the code that draws and judges. So runs share it whatever their problem set, max_candidate_samples,
filter_samples or num_generations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.shared import kept
from components.shared.initial import digest_of_adapter
from components.shared.models import device, resolve_precision
from components.shared.problem import Problem
from components.shared.sampling import Sampling
from components.shared.store import Store

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
    return kept.digest(problem.model_dump(include=PROBLEM_FIELDS))


def context_key(given: Mapping[str, Any], judge: str, adapter: Path | None) -> str:
    """A digest of everything else: the step's parameters, the judge's version, the adapter in a folder (None: none)."""
    return kept.context_key(
        {
            "settings": {name: given[name] for name in SETTINGS},
            "adapter": digest_of_adapter(adapter) if adapter else "",
            "four_bit": given["method"] == "qlora",
            "sampling": vars(Sampling.from_parameters(given)),
            "computing": [str(resolve_precision(given["precision"])), device().type],
            "judge": judge,
        }
    )


class Cache:
    """The samples below one context key."""

    def __init__(self, store: Store, context: str) -> None:
        self.kept = kept.Kept(store, context, step="filter")

    def read(self, problems: Iterable[Problem]) -> dict[str, dict[int, Sample]]:
        """What is there for these problems: by their digest, then by the sample's number."""
        found: dict[str, dict[int, Sample]] = {digest_of_problem(problem): {} for problem in problems}

        def take(row: dict[str, Any]) -> None:
            if row["problem"] in found:
                found[row["problem"]][row["number"]] = Sample(**row["sample"])

        self.kept.read(take)
        return found

    def write(self, rows: Iterable[tuple[str, int, Sample]]) -> None:
        """Keep (problem's digest, number, sample); what could not be judged is left to a later try."""
        self.kept.write(
            {"problem": problem, "number": number, "sample": asdict(sample)}
            for problem, number, sample in rows
            if sample.passed is not None
        )
