"""Judged samples of the policy that training starts from, for every candidate, from the store as far as they are there.

That policy is the base, in 4 bits for qlora, with the adapter of init_adapter on top where one is named.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from components.filter.cache import Cache, Sample, context_key, digest_of_problem
from components.filter.drawing import History, Place, draw
from components.shared.attempts import Attempt, judge
from components.shared.batches import Row, Sampler, is_exact, redrawn
from components.shared.grading import Grader
from components.shared.models import load_adapter, load_base, load_tokenizer
from components.shared.problem import Problem
from components.shared.progress import Progress
from components.shared.sampling import Completion, Sampling
from components.shared.sandbox import SandboxClient
from components.shared.store import Store


class Policy:
    """Draws and judges the policy's samples of the candidates.

    given: the step's parameters. adapter: the folder of init_adapter's weights; None for the base alone.

    `reused` counts the samples that were in the store.
    """

    def __init__(
        self, candidates: Sequence[Problem], given: Mapping[str, Any], store: Store, adapter: Path | None
    ) -> None:
        self.candidates, self.given, self.adapter = candidates, given, adapter
        client = SandboxClient.from_setting(given["sandbox_url"])
        self.grader = Grader(client, test_timeout_s=given["test_timeout_s"], infra_limit=given["infra_limit"])
        self.cache = Cache(store, context_key(given, client.version(), adapter))
        self.digests = [digest_of_problem(problem) for problem in candidates]
        self.loaded: Sampler | None = None
        self.reused = 0
        self.largest: tuple[list[Row], list[Completion]] = [], []  # the largest batch of this run

    def samples(self) -> list[list[Sample]]:
        """The samples of each candidate, in order: up to the one that decides it, or all with filter_all_samples."""
        most, every = self.given["filter_samples"], self.given["filter_all_samples"]
        known = self.cache.read(self.candidates)
        histories = [History(known[digest]) for digest in self.digests]
        self.reused = sum(len(history.samples(most, every=every)) for history in histories)
        progress = Progress("filter", "sampling", len(histories), unit="problems")
        draw(
            histories,
            sorted(range(len(histories)), key=lambda place: len(self.candidates[place].prompt), reverse=True),
            most=most,
            every=every,
            rows=lambda: self._sampler().rows,
            batch=self._batch,
            on_progress=progress.update,
        )
        return [history.samples(most, every=every) for history in histories]

    def batch_effect(self) -> dict[str, Any] | None:
        """What the batch size changed, by drawing a part of the largest batch again; None where it changes nothing."""
        if self.loaded is None or is_exact(self.loaded.model) or not self.largest[0]:
            return None
        return redrawn(self.loaded, *self.largest)

    def _batch(self, places: Sequence[Place]) -> list[Sample]:
        """Draw, judge and keep these samples."""
        sampler = self._sampler()
        rows = [(self.candidates[place], number) for place, number in places]
        drawn = sampler.draw(rows)
        if len(rows) > len(self.largest[0]):
            self.largest = rows, drawn
        attempts = judge(rows, drawn, sampler.sampling, self.grader)
        samples = [_sample_of(attempt) for attempt in attempts]
        self.cache.write(
            (self.digests[place], number, sample) for (place, number), sample in zip(places, samples, strict=True)
        )
        return samples

    def _sampler(self) -> Sampler:
        """The model, loaded when the first sample is drawn."""
        if self.loaded is None:
            given = self.given
            if given["threads"]:
                torch.set_num_threads(given["threads"])
            source = given["model_name"], given["model_revision"]
            tokenizer = load_tokenizer(*source, use_chat_template=given["use_chat_template"])
            model = load_base(*source, method=given["method"], precision=given["precision"])
            if self.adapter:
                model = load_adapter(model, self.adapter)
            self.loaded = Sampler(model, tokenizer, Sampling.from_parameters(given), seed=given["seed"], step="filter")
        return self.loaded


def _sample_of(attempt: Attempt) -> Sample:
    return Sample(
        completion=attempt.completion.text,
        outcome=attempt.verdict.outcome,
        passed=attempt.verdict.passed,
        tokens=len(attempt.completion.token_ids),
        truncated=attempt.completion.truncated,
    )
