"""What a run will take before it starts: steps, tokens, time by step of the pipeline, and the price at an hourly rate.

Times are for orientation: arithmetic at a fixed share of the device's peak, decoding bound by its memory or by the
host's pace of launching a layer. Every assumption is said with the figures (`assumptions`); a run's own log has the
measured ones after its first step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.train.devices import Device
from components.train.plan import Load
from components.train.shape import Shape

UTILISATION = 0.35  # share of the peak that dense training in plain PyTorch reaches
LAYER_SECONDS = 0.0008  # host time of one decoder layer in one decoding step; an adapter's small kernels double it
VERDICTS_PER_S = 20.0  # of one sandbox with two workers
STARTUP_SECONDS = 60.0  # of each step that loads a model


@dataclass(frozen=True)
class Estimate:
    """Seconds by step of the pipeline and, within train, by phase; tokens are the most that training can see."""

    steps: int
    prompt_tokens: int
    completion_tokens: int
    phases: dict[str, float]
    seconds: dict[str, float]

    @property
    def total_seconds(self) -> float:
        """Of the steps that hold a GPU."""
        return sum(self.seconds.values())

    def price(self, hourly_rate: float, gpus: int) -> float:
        """At this price of an hour with one GPU, in its currency; each step holds `gpus`, used or not."""
        return gpus * self.total_seconds / 3600 * hourly_rate


def estimate(shape: Shape, load: Load, given: Mapping[str, Any], *, steps: int, device: Device) -> Estimate:
    """The run's estimate. steps: optimiser steps; given: the pipeline's parameters."""
    completions = steps * load.batch_size
    prompts, written = completions * load.prompt_tokens, completions * load.completion_tokens
    batch = _sampling_seconds(shape, load, load.share, device, adapter=load.method != "full")
    phases = {
        "generate": steps * batch,
        "reward": completions / VERDICTS_PER_S,
        "update": (prompts + written) * _training_flops(shape, load) / _flops(device) / load.processes,
    }
    seconds = {"train": STARTUP_SECONDS + sum(phases.values())}
    if given["use_filter"]:
        drawn = given["max_candidate_samples"] * given["filter_samples"]
        drawing = _drawing_seconds(shape, load, drawn, device, adapter=bool(given["init_adapter"]))
        seconds = {"filter": STARTUP_SECONDS + drawing, **seconds}
    drawn = given["num_eval_examples"] * given["eval_k"]
    both = sum(_drawing_seconds(shape, load, drawn, device, adapter=tuned) for tuned in (False, load.method != "full"))
    seconds["evaluate"] = STARTUP_SECONDS + both
    return Estimate(steps, prompts, written, phases, seconds)


def assumptions(load: Load, device: Device) -> list[str]:
    """What the estimate takes for granted, in words."""
    return [
        f"prompts of {load.prompt_tokens} tokens, and every completion as long as max_completion_length allows",
        f"{device.name}: {device.tflops:g} TFLOP/s at {UTILISATION:.0%} in use, {device.bandwidth:g} GB/s",
        f"{1000 * LAYER_SECONDS:g} ms a layer and token of sampling (twice with an adapter), whatever the batch",
        f"{VERDICTS_PER_S:g} verdicts a second, {STARTUP_SECONDS:g} s to start each step",
    ]


def _training_flops(shape: Shape, load: Load) -> float:
    """Floating-point operations for one token of an update, in multiples of 2 a weight (Kaplan et al. 2020, 2.1).

    One pass forward, one backward to the inputs, one to the weights (full alone), one for what checkpointing computes
    again, one of the reference with beta above 0.
    """
    passes = 2 + (load.method == "full") + load.checkpointing + (load.beta > 0)
    return 2.0 * shape.parameters * passes


def _flops(device: Device) -> float:
    return device.tflops * 1e12 * UTILISATION


def _sampling_seconds(shape: Shape, load: Load, rows: int, device: Device, *, adapter: bool) -> float:
    """One batch of completions: the prompts at once, then token by token, each reading all weights and the cache."""
    prefill = 2.0 * shape.parameters * rows * load.prompt_tokens / _flops(device)
    cache = 2 * shape.layers * shape.kv * load.compute * rows * (load.prompt_tokens + load.completion_tokens / 2)
    reading = (shape.parameters * load.compute + cache) / (device.bandwidth * 1e9)
    launching = shape.layers * LAYER_SECONDS * (2 if adapter else 1)
    return prefill + load.completion_tokens * max(reading, launching)


def _drawing_seconds(shape: Shape, load: Load, completions: int, device: Device, *, adapter: bool) -> float:
    """Completions outside training, in the sampler's batches, and their verdicts."""
    rows = min(completions, shape.rows_at_once)
    batches = -(-completions // rows)
    return batches * _sampling_seconds(shape, load, rows, device, adapter=adapter) + completions / VERDICTS_PER_S
