"""The verb `plan`: memory, tokens, time and price of a run, from the model's configuration alone; nothing is run."""

from pathlib import Path
from typing import Any

import click

from cli import parameters
from components.settings import check
from components.shared.errors import UserError
from components.shared.model_config import read_config
from components.shared.progress import duration

BATCH = ("epochs", "batch_size", "num_generations", "micro_batch_size")
UNLIMITED = 1e6  # GiB
PROMPT_TOKENS = 256  # MBPP's longest prompts; training itself measures those of its problems


def plan_command() -> click.Command:
    own = [
        parameters.file_option(),
        click.Option(["--gpu"], help="GPU whose figures the times are for [default: A100-80GB]."),
        click.Option(["--gpu-memory"], type=float, help="GiB that the GPU has: refuse what does not fit."),
        click.Option(["--hourly-rate"], type=float, help="Price of an hour with one GPU, in any currency."),
    ]
    return click.Command("plan", params=[*own, *parameters.options()], callback=_plan, help=_plan.__doc__)


def _plan(
    params: Path | None, gpu: str | None, gpu_memory: float | None, hourly_rate: float | None, **options: Any
) -> None:
    """Say what a run will need: memory by part, tokens, time, price. Nothing is run, only config.json downloaded."""
    for flag, value in (("--gpu-memory", gpu_memory), ("--hourly-rate", hourly_rate)):
        if value is not None and not 0 < value < float("inf"):
            raise UserError(f"{flag} {value:g} is out of range: it must be greater than 0.")
    given = parameters.merged(parameters.asked(params, options))
    for warning in check(given):
        click.echo(f"warning: {warning}", err=True)
    click.echo("\n".join(plan_lines(given, gpu=gpu, gpu_memory=gpu_memory, hourly_rate=hourly_rate)))


def plan_lines(
    given: dict[str, Any],
    *,
    gpu: str | None,
    gpu_memory: float | None,
    hourly_rate: float | None,
) -> list[str]:
    """The plan in words; UserError when the run does not fit a GPU that the user named."""
    from components.train.devices import DEFAULT_DEVICE, device_named
    from components.train.plan import GIB, memory_lines, planned_load, refuse_if_too_large
    from components.train.schedule import plan
    from components.train.shape import shape_of

    device = device_named(gpu or DEFAULT_DEVICE)
    shape = shape_of(read_config(given["model_name"], given["model_revision"]), given["model_name"])
    problems = given["max_train_samples"] if given["use_filter"] else given["max_candidate_samples"]
    load = planned_load(given, prompt_tokens=PROMPT_TOKENS, device=device)
    schedule = plan(problems=problems, **{name: given[name] for name in BATCH}, processes=load.processes)
    most = gpu_memory or (device.memory if gpu else UNLIMITED)
    needs = refuse_if_too_large(shape, load, round(most * GIB), f"the {gpu or 'GPU'}")
    lines = [
        f"{given['method']} on {given['model_name']} ({shape.parameters / 1e6:.4g} M parameters), {problems} problems",
        "",
        *memory_lines(shape, needs, load),
    ]
    if load.checkpointing:
        lines.append(f"  {'fits':16} {', '.join(_fitting(shape, given)) or 'no single GPU that is known here'}")
    return [
        *lines,
        "",
        *_course_lines(shape, load, given, steps=schedule.steps, device=device, hourly_rate=hourly_rate),
    ]


def _fitting(shape: Any, given: dict[str, Any]) -> list[str]:
    """The GPUs that are known and large enough, each at the precision that training would choose there."""
    from components.train.devices import DEVICES
    from components.train.plan import GIB, memory, planned_load

    loads = {name: planned_load(given, prompt_tokens=PROMPT_TOKENS, device=each) for name, each in DEVICES.items()}
    return [name for name, load in loads.items() if memory(shape, load).needed <= DEVICES[name].memory * GIB]


def _course_lines(
    shape: Any, load: Any, given: dict[str, Any], *, steps: int, device: Any, hourly_rate: float | None
) -> list[str]:
    """Steps, tokens, time by step of the pipeline, and the price."""
    from components.train.estimate import assumptions, estimate

    found = estimate(shape, load, given, steps=steps, device=device)
    lines = [
        f"Steps      {found.steps} of {given['batch_size']} completions",
        f"Tokens     at most {found.prompt_tokens / 1e6:.3g} M read and {found.completion_tokens / 1e6:.3g} M written",
    ]
    if not load.checkpointing:
        return [*lines, "Time       not estimated for a CPU: the log of train says it after the first step"]
    whole = sum(found.phases.values())
    shares = ", ".join(f"{name} {seconds / whole:.0%}" for name, seconds in found.phases.items())
    notes = {"train": f" ({shares})"}
    lines += [
        f"{step.capitalize():10} {duration(seconds)}{notes.get(step, '')}" for step, seconds in found.seconds.items()
    ]
    gpus = int(given["gpus"])
    held = f"one {device.name}" if gpus == 1 else f"{gpus} {device.name} a step, train using {load.processes} of them"
    lines.append(f"GPU time   {duration(found.total_seconds)} on {held}")
    if hourly_rate is not None:
        lines.append(f"Price      {found.price(hourly_rate, gpus):.2f} at {hourly_rate:g} an hour and GPU")
    return [*lines, "", "The times assume:", *(f"  {one}" for one in assumptions(load, device))]
