"""The plan at the start of training: said in the log, and a refusal where this machine's GPU cannot hold it."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from components.shared.model_config import read_config
from components.shared.models import resolve_precision
from components.shared.problem import Problem
from components.shared.progress import duration, say
from components.shared.sampling import model_input
from components.train.devices import device_like
from components.train.estimate import estimate
from components.train.plan import GIB, Load, Memory, memory, refuse_if_too_large
from components.train.schedule import Schedule
from components.train.shape import Shape, shape_of


def plan_training(given: Mapping[str, Any], schedule: Schedule, tokenizer: Any, problems: Sequence[Problem]) -> Memory:
    """Plan with the longest prompt there is, before the weights are loaded; UserError when it cannot fit the GPU."""
    shape = shape_of(read_config(given["model_name"], given["model_revision"]), given["model_name"])
    chat = given["use_chat_template"]
    texts = [model_input(tokenizer, problem.prompt, use_chat_template=chat) for problem in problems]
    longest = max(len(ids) for ids in tokenizer(texts)["input_ids"])
    cuda = torch.cuda.is_available()
    dtype = resolve_precision(given["precision"])
    load = Load.of(
        given, dtype=dtype, cuda=cuda, micro=schedule.micro_batch_size, prompt_tokens=longest,
        processes=schedule.processes,
    )  # fmt: skip
    if not cuda:
        planned = memory(shape, load)
        say("train", f"plan: {_parts(planned)}, with prompts of at most {longest} tokens")
        return planned
    device = torch.cuda.get_device_properties(0)
    planned = refuse_if_too_large(shape, load, device.total_memory, device.name)
    say(
        "train",
        f"plan: {_parts(planned)}, with prompts of at most {longest} tokens; {planned.needed / GIB:.1f} GiB of "
        f"{device.name}'s {device.total_memory / GIB:.1f}{_time(shape, load, given, schedule, device)}",
    )
    return planned


def _parts(planned: Memory) -> str:
    size, unit = planned.unit
    parts = ", ".join(f"{name.replace('_', ' ')} {value / size:.2f}" for name, value in vars(planned).items() if value)
    return f"at most {planned.peak / size:.2f} {unit} at once ({parts})"


def _time(shape: Shape, load: Load, given: Mapping[str, Any], schedule: Schedule, device: Any) -> str:
    known = device_like(device.name, device.total_memory / GIB)
    if known is None:
        return ""
    none = {"use_filter": False, "num_eval_examples": 1, "eval_k": 1}  # not train's business, and no part of its time
    found = estimate(shape, load, {**given, **none}, steps=schedule.steps, device=known)
    return f"; about {duration(found.seconds['train'])} by the assumptions of `pipeline.py plan`"
