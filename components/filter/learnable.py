"""The learnability filter: keep the candidates that the base solves sometimes but not always.

A group of completions that all fail or all pass has no advantage, so such problems only cost time. What the base
wrote is kept in the store under a key of everything it depends on, so that the next run need not sample again.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from components.shared.attempts import Attempt, attempt, judged, passes
from components.shared.errors import UserError
from components.shared.grading import Grader
from components.shared.models import load_model, load_tokenizer, resolve_precision
from components.shared.problem import FILTER_COUNTS, KEPT, PROBLEMS, Problem, read_problems, write_problems
from components.shared.progress import Progress, duration, say
from components.shared.sampling import Sampling
from components.shared.sandbox import SandboxClient
from components.shared.store import open_store

PROBLEMS_PER_PART = 50  # how much is sampled, judged and put into the store at a time


def run(source: Path, target: Path, **given: Any) -> None:
    """Copy the problem set in `source` to `target` and add filter/kept.jsonl and filter/counts.json.

    given: the step's parameters, by the pipeline's names. UserError when nothing is kept.
    """
    start = time.monotonic()
    candidates = read_problems(source / PROBLEMS)
    rows = Attempts(candidates, given).all()
    kept = [problem for problem, row in zip(candidates, rows, strict=True) if learnable(row)]
    chosen = kept[: given["max_train_samples"]]
    counts = count(rows, kept=len(kept), chosen=len(chosen), samples=given["filter_samples"])
    counts["seconds"] = round(time.monotonic() - start, 1)
    say("filter", headline(counts))
    if not chosen:
        raise UserError(advice(counts))
    shutil.copytree(source, target, dirs_exist_ok=True)
    write_problems(target / KEPT, chosen)
    (target / FILTER_COUNTS).write_text(json.dumps(counts, indent=2) + "\n")


def row_of(problem: Problem, attempts: Sequence[Attempt]) -> dict[str, Any]:
    """What the store keeps of one problem's attempts."""
    return {
        "task_id": problem.task_id,
        "passes": passes(attempts),
        "judged": judged(attempts),
        "tokens": sum(len(one.completion.token_ids) for one in attempts),
        "truncated": sum(one.completion.truncated for one in attempts),
        "samples": [{"completion": one.completion.text, "outcome": one.verdict.outcome} for one in attempts],
    }


def learnable(row: dict[str, Any]) -> bool:
    """Whether 1 <= passes < k, with k the samples that could be judged."""
    return bool(1 <= row["passes"] < row["judged"])


def count(rows: Sequence[dict[str, Any]], *, kept: int, chosen: int, samples: int) -> dict[str, Any]:
    """The numbers of counts.json; by_passes says how many problems had 0, 1, … k passes."""
    return {
        "candidates": len(rows),
        "kept": kept,
        "used": chosen,
        "never_solved": sum(row["passes"] == 0 for row in rows),
        "always_solved": sum(0 < row["judged"] == row["passes"] for row in rows),
        "unjudged": sum(row["judged"] == 0 for row in rows),
        "samples_per_problem": samples,
        "by_passes": {str(passes): sum(row["passes"] == passes for row in rows) for passes in range(samples + 1)},
        "tokens": sum(row["tokens"] for row in rows),
        "truncated": sum(row["truncated"] for row in rows),
    }


def headline(counts: dict[str, Any]) -> str:
    cut = f", the first {counts['used']} are used" if counts["used"] < counts["kept"] else ""
    return (
        f"kept {counts['kept']} of {counts['candidates']} problems{cut}; {counts['never_solved']} never solved, "
        f"{counts['always_solved']} always, in {counts['samples_per_problem']} samples each"
    )


def advice(counts: dict[str, Any]) -> str:
    """Why nothing was kept and what to change, in one sentence."""
    all_samples = counts["candidates"] * counts["samples_per_problem"]
    if counts["truncated"] > all_samples / 2:
        remedy = "most completions were truncated, so raise max_completion_length"
    elif counts["never_solved"] >= counts["always_solved"]:
        remedy = "the base solves almost nothing, so use a stronger base model or raise filter_samples"
    else:
        remedy = "the base solves almost everything, so use harder problems"
    return f"The filter kept none of {counts['candidates']} problems: {remedy}."


class Attempts:
    """The base model's judged samples for every candidate, from the store as far as they are there."""

    def __init__(self, candidates: Sequence[Problem], given: dict[str, Any]) -> None:
        self.candidates, self.given, self.store = candidates, given, open_store()
        self.client = SandboxClient.from_setting(given["sandbox_url"])
        self.sampling = Sampling.from_parameters(given)
        self.prefix = f"cache/{self._content_key()}"
        self.loaded: tuple[Any, Any] | None = None

    def all(self) -> list[dict[str, Any]]:
        """One row a candidate, in order: task_id, passes, judged, tokens, truncated and the samples themselves."""
        parts = range(0, len(self.candidates), PROBLEMS_PER_PART)
        progress = Progress("filter", "sampling", len(self.candidates), unit="problems")
        rows, reused = [], 0
        for start in parts:
            key = f"{self.prefix}/{start:06d}.jsonl"
            part = self.candidates[start : start + PROBLEMS_PER_PART]
            try:
                found = [json.loads(line) for line in self.store.read(key).decode().splitlines()]
                reused += len(found)
            except KeyError:
                found = self._attempt(part)
                self.store.write(key, "".join(json.dumps(row) + "\n" for row in found).encode())
            rows += found
            progress.advance(len(part))
        if reused:
            say("filter", f"{reused} of {len(rows)} problems had been sampled before and were reused")
        return rows

    def _content_key(self) -> str:
        """A digest of everything that the samples depend on."""
        given = self.given
        names = (
            "model_name",
            "model_revision",
            "precision",
            "filter_samples",
            "seed",
            "test_timeout_s",
            "code_version",
        )
        facts = {
            "problems": [problem.model_dump(exclude={"reference_cpu_ms"}) for problem in self.candidates],
            "sampling": vars(self.sampling),
            "settings": {name: given[name] for name in names},
            "judge": self.client.version(),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def _attempt(self, part: Sequence[Problem]) -> list[dict[str, Any]]:
        given, start = self.given, time.monotonic()
        model, tokenizer = self._model()
        attempts = attempt(
            model,
            tokenizer,
            part,
            self.sampling,
            samples=given["filter_samples"],
            seed=given["seed"],
            grader=Grader(self.client, test_timeout_s=given["test_timeout_s"], infra_limit=given["infra_limit"]),
            on_progress=lambda done: None,
        )
        say("filter", f"{sum(map(len, attempts))} samples in {duration(time.monotonic() - start)}")
        return [row_of(problem, group) for problem, group in zip(part, attempts, strict=True)]

    def _model(self) -> tuple[Any, Any]:
        """The base model and its tokenizer, loaded when the first sample is drawn."""
        if self.loaded is None:
            given = self.given
            if given["threads"]:
                torch.set_num_threads(given["threads"])
            source = given["model_name"], given["model_revision"]
            tokenizer = load_tokenizer(*source, use_chat_template=given["use_chat_template"])
            self.loaded = load_model(*source, resolve_precision(given["precision"])), tokenizer
        return self.loaded
