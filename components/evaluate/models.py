"""Base and tuned model, one after the other, as they were in training; and their judged trials.

An adapter is put on the base that has just been evaluated and is never merged into it: what is measured is what is
shipped, and merging in bf16 can lose small updates.
"""

import gc
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from components.evaluate.comparison import Trial
from components.shared.attempts import Attempt, attempt
from components.shared.errors import UserError
from components.shared.grading import Grader
from components.shared.models import MODEL_JSON, load_adapter, load_model, resolve_precision
from components.shared.problem import Problem
from components.shared.progress import Progress
from components.shared.sampling import Sampling

KINDS = ("adapter", "model")


def read_trained(folder: Path) -> dict[str, Any]:
    """What model.json in train's output says: kind, method, base, revision, …; UserError when it is not there."""
    try:
        facts = json.loads((folder / MODEL_JSON).read_text())
        kind = facts["kind"]
    except (OSError, ValueError, KeyError):
        raise UserError(
            f"{folder} holds no trained model: a readable {MODEL_JSON}, as train writes it, is needed."
        ) from None
    if kind not in KINDS or not (folder / kind).is_dir():
        raise UserError(f"{folder / MODEL_JSON} names kind {kind!r}, but there is no such folder beside it.")
    return dict(facts)


def tuned_from(base: Any, folder: Path, *, kind: str, precision: str) -> Any:
    """The tuned model: the adapter on `base`, or the model of full fine-tuning, once the caller's base is gone."""
    if kind == "adapter":
        return load_adapter(base, folder / "adapter")
    return load_model(str(folder / "model"), "", resolve_precision(precision))


def free_memory() -> None:
    """Give the memory of models that are no longer referenced back to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def trials(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    sampling: Sampling,
    grader: Grader,
    *,
    name: str,
    samples: int,
    seed: int,
) -> list[list[Trial]]:
    """`samples` trials of the model at each problem, in the problems' order; name is for the progress line."""
    progress = Progress("evaluate", f"{name} model", len(problems) * samples, unit="completions")
    attempts = attempt(
        model,
        tokenizer,
        problems,
        sampling,
        samples=samples,
        seed=seed,
        grader=grader,
        on_progress=progress.update,
    )
    found = {
        (row, place): _on_hidden_tests(problem, one)
        for row, problem in enumerate(problems)
        for place, one in enumerate(attempts[row])
        if problem.hidden_tests and one.verdict.passed
    }
    hidden = dict(zip(found, grader.grade(list(found.values())), strict=True))
    return [
        [Trial(one, hidden.get((row, place))) for place, one in enumerate(group)] for row, group in enumerate(attempts)
    ]


def _on_hidden_tests(problem: Problem, passed: Attempt) -> tuple[Problem, str]:
    """What to judge so that the hidden tests decide; they never were a reward."""
    return problem.model_copy(update={"tests": problem.hidden_tests}), passed.program
