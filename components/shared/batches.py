"""Batches that fit: how many completions are drawn at once, less after memory ran out, and what the size changes.

What a completion says is keyed by its problem and its number (see sampling), so filter and evaluate may cut their work
into batches of any size. In fp32 on a CPU the size changes nothing; elsewhere the last bits of the logits follow it,
and `batch_effect` measures how many completions then differ.
"""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from components.shared.errors import UserError
from components.shared.models import free_memory, is_out_of_memory
from components.shared.problem import Problem
from components.shared.progress import say
from components.shared.sampling import Completion, Sampling, generate, generator_for, rows_at_once

MOST_ROWS = 256  # beyond it a batch gains little, and an early end of most rows is waited for
MARGIN = 0.6  # share of the free memory that a batch may take: a batch may go on for longer, and allocators fragment
PROBES = 16

# One completion to draw: the problem, and the number of the completion among the problem's.
Row = tuple[Problem, int]


@dataclass
class Fit:
    """What a model's memory was found to hold: rows at once, and the fewest with which it ran out (None: not yet)."""

    rows: int
    too_many: int | None = None


_fits: weakref.WeakKeyDictionary[Any, Fit] = weakref.WeakKeyDictionary()  # by model, for as long as it is loaded


def fit_of(model: Any) -> Fit:
    """What is known of the model; with an adapter on top it is the same model. Starts at sampling.rows_at_once."""
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    if whole not in _fits:
        _fits[whole] = Fit(rows_at_once(model))
    return _fits[whole]


class Sampler:
    """Draws completions of one model in batches that its memory holds. rows: most at once, 0 by memory.

    On CUDA the first batch shows what a row takes, and later ones fill MARGIN of the free memory, up to MOST_ROWS. A
    batch that runs out of memory is drawn again in halves, from the same seeds; the model's later batches stay small.
    """

    def __init__(
        self, model: Any, tokenizer: Any, sampling: Sampling, *, seed: int, rows: int = 0, step: str = "sampling"
    ) -> None:
        """step: whose log lines these are."""
        self.model, self.tokenizer, self.sampling, self.seed, self.step = model, tokenizer, sampling, seed, step
        self.by_memory = not rows
        self.fit = Fit(rows) if rows else fit_of(model)

    @property
    def rows(self) -> int:
        """How many completions the next batch may hold."""
        return self.fit.rows

    def draw(self, wanted: Sequence[Row], on_progress: Callable[[int], None] = lambda done: None) -> list[Completion]:
        """One completion a row, in order; on_progress gets the number of completions done.

        Rows are batched by prompt length, so that little is padding, the longest first: what fits then fits after.
        UserError when not even one row fits.
        """
        order = sorted(range(len(wanted)), key=lambda place: len(wanted[place][0].prompt), reverse=True)
        found: dict[int, Completion] = {}
        while len(found) < len(order):
            places = order[len(found) : len(found) + self.rows]
            drawn = self._one_batch([wanted[place] for place in places])
            found.update(zip(places, drawn, strict=False))  # fewer when memory ran out
            on_progress(len(found))
        return [found[place] for place in range(len(wanted))]

    def _one_batch(self, batch: Sequence[Row]) -> list[Completion]:
        """The completions of the batch's first rows: of all, or of as many as fit after memory ran out."""
        while True:
            part = batch[: self.rows]
            meter = _Meter(self.model) if self.by_memory else None
            try:
                drawn = self._generate(part)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            else:
                if meter and self.fit.too_many is None:
                    self.fit.rows = max(self.fit.rows, meter.rows(len(part)))
                return drawn
            # Outside the handler, whose traceback holds on to the failed batch.
            self._halve(len(part))

    def _generate(self, part: Sequence[Row]) -> list[Completion]:
        device = self.model.device
        generators = [generator_for(self.seed, f"{problem.task_id}/{number}", device) for problem, number in part]
        prompts = [problem.prompt for problem, _ in part]
        return generate(self.model, self.tokenizer, prompts, self.sampling, generators)

    def _halve(self, tried: int) -> None:
        free_memory()
        if tried == 1:
            raise UserError(
                "Not even one completion at a time fits into memory: lower max_completion_length, or use a smaller "
                "model_name or a lower precision."
            )
        self.fit.rows, self.fit.too_many = tried // 2, tried
        say(
            self.step,
            f"warning: memory ran out with {tried} completions at once, so at most {self.fit.rows} are drawn now; "
            "what they say does not depend on it" + ("" if is_exact(self.model) else " but for rounding"),
        )


class _Meter:
    """Measures what a batch takes of a GPU's memory; elsewhere there is no telling, and rows() is 0."""

    def __init__(self, model: Any) -> None:
        self.device = model.device if model.device.type == "cuda" else None
        if self.device:
            torch.cuda.reset_peak_memory_stats(self.device)
            self.before = torch.cuda.memory_allocated(self.device)

    def rows(self, drawn: int) -> int:
        """How many rows like those of the batch just drawn would fit."""
        if not self.device:
            return 0
        taken = torch.cuda.max_memory_allocated(self.device) - self.before
        unused = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return rows_that_fit(taken, drawn, torch.cuda.mem_get_info(self.device)[0] + unused)


def rows_that_fit(taken: int, drawn: int, free: int) -> int:
    """Rows that MARGIN of `free` bytes holds, when `drawn` rows took `taken` bytes; at least 1, at most MOST_ROWS."""
    return max(1, min(MOST_ROWS, int(MARGIN * free * drawn / max(1, taken))))


def sample(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    sampling: Sampling,
    *,
    samples: int,
    seed: int,
    batch_size: int = 0,
    on_progress: Callable[[int], None] = lambda done: None,
    step: str = "sampling",
) -> list[list[Completion]]:
    """`samples` completions for each problem, in the problems' order; batch_size 0 goes by memory (see Sampler)."""
    sampler = Sampler(model, tokenizer, sampling, seed=seed, rows=batch_size, step=step)
    drawn = sampler.draw([(problem, number) for problem in problems for number in range(samples)], on_progress)
    return [drawn[start : start + samples] for start in range(0, len(drawn), samples)]


def is_exact(model: Any) -> bool:
    """Whether the batch size changes nothing that the model says: in fp32 on a CPU."""
    return bool(model.device.type == "cpu" and model.dtype == torch.float32)


def batch_effect(
    model: Any, tokenizer: Any, problems: Sequence[Problem], sampling: Sampling, *, seed: int, step: str
) -> dict[str, Any]:
    """Draw one completion for each of the first 16 problems in a large and in a small batch, and say how many differ.

    Returns what `redrawn` does. The large batch holds three more completions a problem. Costs two batches.
    """
    probes = [(problem, 0) for problem in problems[:PROBES]]
    rows = [*probes, *((problem, number) for problem, _ in probes for number in range(1, 4))]
    sampler = Sampler(model, tokenizer, sampling, seed=seed, rows=max(1, len(rows)), step=step)
    return redrawn(sampler, rows, sampler.draw(rows))


def redrawn(sampler: Sampler, rows: Sequence[Row], drawn: Sequence[Completion]) -> dict[str, Any]:
    """Draw the first 16 completions of a batch once more, by themselves, and say how many differ.

    Returns {"completions", "changed", "share", "batch_sizes": [large, small]}. With the same seeds every difference
    comes from the batch size.
    """
    large = min(len(rows), sampler.rows)
    probes = rows[: max(1, min(PROBES, large // 2))]
    alone = Sampler(
        sampler.model, sampler.tokenizer, sampler.sampling, seed=sampler.seed, rows=len(probes), step=sampler.step
    )
    again = alone.draw(probes)
    changed = sum(one.token_ids != other.token_ids for one, other in zip(drawn, again, strict=False))
    say(
        sampler.step,
        f"{changed} of {len(probes)} completions change between batches of {large} and of {len(probes)}"
        + (": rounding follows the batch size here, so another size or GPU draws others" if changed else ""),
    )
    return {
        "completions": len(probes),
        "changed": changed,
        "share": changed / max(1, len(probes)),
        "batch_sizes": [large, len(probes)],
    }
