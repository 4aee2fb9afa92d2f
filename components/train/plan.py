"""The memory that training needs at its peak, by part, before a single weight is loaded; and what to change if it does
not fit.

Everything follows from the model's shape and the parameters; nothing is measured. What stays for the whole run is
counted exactly. Activations follow Korthikanti et al. 2022 ("Reducing Activation Recomputation in Large Transformer
Models", section 4) in counting the tensors that autograd keeps, here those of a Llama-like layer in transformers:
see `activations`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from components.settings import training_processes
from components.shared.errors import UserError
from components.shared.models import DTYPES
from components.train.devices import Device
from components.train.schedule import auto_micro_batch
from components.train.shape import Shape

GIB = 2**30
FP32 = 4
# NF4 keeps half a byte a weight and an fp32 scale for each block of 64 (bitsandbytes, Linear4bit without double quant).
NF4_BYTES = 0.5 + FP32 / 64
WITH_BUCKETS = 2  # DistributedDataParallel keeps the gradients a second time, in the buckets that it exchanges
ADAMW_STATES = 2  # first and second moment, in the parameter's own dtype (torch.optim.AdamW)
# TRL's fused head computes logits in tiles of this many tokens and vocabulary entries (trl.kernels.chunked_logprob).
TILE_TOKENS, TILE_VOCABULARY = 4096, 32768
# Beyond what torch allocates: CUDA's context and libraries, and what fragmentation leaves unusable.
CONTEXT_BYTES = GIB
FRAGMENTATION = 0.05


@dataclass(frozen=True)
class Load:
    """What training asks of each GPU. Lengths in tokens; batch_size is that of all processes together.

    width: bytes of one weight of the base; compute: of one activation.
    """

    method: str
    beta: float
    lora_r: int
    width: int
    compute: int
    batch_size: int
    num_generations: int
    micro_batch_size: int
    prompt_tokens: int
    completion_tokens: int
    checkpointing: bool
    processes: int = 1

    @property
    def share(self) -> int:
        """Completions of a step that one process works on."""
        return self.batch_size // self.processes

    @classmethod
    def of(
        cls,
        given: Mapping[str, Any],
        *,
        dtype: torch.dtype,
        cuda: bool,
        micro: int,
        prompt_tokens: int,
        processes: int = 1,
    ) -> "Load":
        """From the pipeline's parameters. Full fine-tuning in fp16 keeps fp32 weights (grpo.load_policy)."""
        compute = FP32 if dtype == torch.float32 else 2
        scaled = given["method"] == "full" and dtype == torch.float16
        return cls(
            **{name: given[name] for name in ("method", "beta", "lora_r", "batch_size", "num_generations")},
            width=FP32 if scaled else compute,
            compute=compute,
            micro_batch_size=micro,
            prompt_tokens=prompt_tokens,
            completion_tokens=given["max_completion_length"],
            checkpointing=cuda,
            processes=processes,
        )


@dataclass(frozen=True)
class Memory:
    """Bytes by part. The first four stay for the whole run; the others come and go."""

    weights: int
    reference: int
    adapter: int
    optimiser: int
    gradients: int
    activations: int
    kv_cache: int

    @property
    def resident(self) -> int:
        return self.weights + self.reference + self.adapter + self.optimiser

    @property
    def peak(self) -> int:
        """The most that torch has allocated at any time: gradients are gone while completions are sampled."""
        return self.resident + max(self.gradients + self.activations, self.kv_cache)

    @property
    def unit(self) -> tuple[int, str]:
        """What to show these amounts in: its bytes and its name."""
        return (GIB, "GiB") if self.peak >= GIB else (2**20, "MiB")

    @property
    def needed(self) -> int:
        """The device memory that the peak takes, with CUDA's own share and fragmentation."""
        return round(self.peak * (1 + FRAGMENTATION)) + CONTEXT_BYTES


def planned_load(given: Mapping[str, Any], *, prompt_tokens: int, device: Device) -> Load:
    """The load on the machine that the parameters ask for, with GPUs like `device`, wherever the plan is made.

    Precision auto is what models.resolve_precision finds there.
    """
    cuda = given["gpus"] != "0"
    auto = (torch.bfloat16 if device.bf16 else torch.float16) if cuda else torch.float32
    dtype = auto if given["precision"] == "auto" else DTYPES[given["precision"]]
    processes = training_processes(given["batch_size"], int(given["gpus"]))
    share = given["batch_size"] // processes
    micro = given["micro_batch_size"] or auto_micro_batch(share, "cuda" if cuda else "cpu")
    return Load.of(given, dtype=dtype, cuda=cuda, micro=micro, prompt_tokens=prompt_tokens, processes=processes)


def memory(shape: Shape, load: Load) -> Memory:
    """The memory of training by part; see the functions below for each."""
    trained, trained_width = _trained(shape, load)
    copy = load.method == "full" and load.beta > 0  # an adapter is switched off instead (TRL, GRPOTrainer.__init__)
    return Memory(
        weights=_weights(shape, load),
        reference=_weights(shape, load) if copy else 0,
        adapter=0 if load.method == "full" else trained * trained_width,
        optimiser=ADAMW_STATES * trained * trained_width,
        gradients=trained * trained_width * (1 if load.processes == 1 else WITH_BUCKETS),
        activations=activations(shape, load),
        kv_cache=kv_cache(shape, load),
    )


def _weights(shape: Shape, load: Load) -> int:
    """The base: its dtype for every weight, and NF4 for those of the linear layers with qlora."""
    if load.method != "qlora":
        return shape.parameters * load.width
    quantised = shape.linear_parameters
    return (shape.parameters - quantised) * load.width + round(quantised * NF4_BYTES)


def _trained(shape: Shape, load: Load) -> tuple[int, int]:
    """How many parameters are trained, and the bytes of each: an adapter's are fp32 (grpo.make_trainer)."""
    if load.method == "full":
        return shape.parameters, load.width
    return shape.lora_parameters(load.lora_r), FP32


def layer_bytes(shape: Shape, load: Load) -> int:
    """Bytes that autograd keeps of one decoder layer for one token.

    In the base's dtype: attention's query, key and value (with grouped heads written out) and output; the two norms'
    results and the residual; gate, activated gate, up and their product. In fp32: what each norm normalises. Full
    fine-tuning keeps the norms' unscaled results as well, an adapter below fp32 a cast copy of each layer's input.
    """
    wide = 4 * shape.attention + 3 * shape.hidden + 4 * shape.intermediate
    if load.method == "full":
        wide += 2 * shape.hidden
    elif load.compute < FP32:
        wide += 5 * shape.hidden + shape.attention + shape.intermediate
    return wide * load.compute + 2 * FP32 * shape.hidden


def activations(shape: Shape, load: Load) -> int:
    """Peak of one forward and backward pass over a micro batch, beyond weights and gradients.

    With checkpointing each layer keeps its input alone and is computed again in the backward pass, so that the tensors
    of a single layer, and their gradients, exist at a time (Chen et al. 2016). The head's logits are never whole: a
    tile of them, and gradients in fp32 of the last hidden states and, for full, of the head's weights. Autocast keeps a
    cast copy of all weights that are wider than what it computes in; qlora unpacks one layer at a time.
    """
    rows = load.micro_batch_size
    tokens, scored = rows * (load.prompt_tokens + load.completion_tokens), rows * load.completion_tokens
    layer, entry = tokens * layer_bytes(shape, load), tokens * shape.hidden * load.compute
    head = min(scored, TILE_TOKENS) * TILE_VOCABULARY * load.compute + scored * shape.hidden * 2 * FP32
    if load.method == "full":
        head += shape.vocabulary * shape.hidden * (FP32 + load.width)
    weights = shape.parameters * load.compute if load.compute < load.width else 0
    if load.method == "qlora":
        weights = max(inputs * outputs for inputs, outputs in shape.linears) * load.compute
    gradients = tokens * (2 * shape.intermediate + shape.hidden) * load.compute
    if not load.checkpointing:
        return weights + shape.layers * layer + max(head, gradients)
    return weights + shape.layers * entry + max(head, layer + gradients)


def kv_cache(shape: Shape, load: Load) -> int:
    """Keys and values of every layer for all completions that are drawn at once; and their logits with noise.

    2 * layers * kv width * tokens (Pope et al. 2022, section 2.1); a layer's cache exists twice while it grows.
    """
    rows = rows_drawn(shape, load)
    tokens = rows * (load.prompt_tokens + load.completion_tokens)
    logits = rows * shape.vocabulary * (load.width + 3 * FP32)
    return 2 * (shape.layers + 1) * shape.kv * tokens * load.width + logits


def rows_drawn(shape: Shape, load: Load) -> int:
    """How many completions of a step are drawn at once."""
    return min(load.share, shape.rows_at_once)


def memory_lines(shape: Shape, planned: Memory, load: Load) -> list[str]:
    """The plan as lines for people, what does not occur left out."""
    size, unit = planned.unit
    parts = {**vars(planned), "peak": planned.peak, "with CUDA's own": planned.needed}
    notes = {
        "activations": f"{load.micro_batch_size} completions at a time",
        "kv_cache": f"{rows_drawn(shape, load)} completions at a time; sampling holds no gradients and activations",
        "with CUDA's own": "and what fragmentation leaves unusable",
    }
    shown = {name: value for name, value in parts.items() if value and (load.checkpointing or name in vars(planned))}
    return [
        f"Memory of train at its peak, in {unit}",
        *(
            f"  {name.replace('_', ' '):16} {value / size:8.2f}  {notes.get(name, '')}".rstrip()
            for name, value in shown.items()
        ),
    ]


def refuse_if_too_large(shape: Shape, load: Load, available: int, device: str) -> Memory:
    """The plan; UserError with the parameter to change when it needs more than `available` bytes."""
    planned = memory(shape, load)
    if planned.needed <= available:
        return planned
    cure = next((f"use {said}" for said, other in cures(load) if memory(shape, other).needed <= available), "")
    raise UserError(
        f"Training needs about {planned.needed / GIB:.1f} GiB and {device} has {available / GIB:.1f} GiB: "
        f"{cure or 'use a smaller model_name, or a larger GPU'}."
    )


def cures(load: Load) -> Iterator[tuple[str, Load]]:
    """Changes that save memory, the one that changes least about the run first; each with its words."""
    smaller = [size for size in range(load.micro_batch_size - 1, 0, -1) if load.share % size == 0]
    for size in smaller:  # the same steps, only cut finer
        yield f"micro_batch_size {size}", replace(load, micro_batch_size=size)
    finest = replace(load, micro_batch_size=1)
    if load.batch_size > load.num_generations and load.num_generations % load.processes == 0:
        size = load.num_generations
        yield f"batch_size {size} and micro_batch_size 1", replace(finest, batch_size=size)
    if load.method == "full" and load.beta > 0:
        yield "beta 0 and micro_batch_size 1, which needs no reference copy", replace(finest, beta=0.0)
    methods = {"full": ("lora", "qlora"), "lora": ("qlora",), "qlora": ()}[load.method]
    for method in methods:  # whose base is as wide as what it computes in, see Load.of
        yield f"method {method}", replace(load, method=method, width=load.compute)
        yield f"method {method} and micro_batch_size 1", replace(finest, method=method, width=load.compute)
