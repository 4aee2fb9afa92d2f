"""The pipeline as a file for Kubeflow Pipelines, and the options that are fixed in it.

The same sources, options and images give the same bytes. Images are named by digest where their registry says it.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cli.images import settle_tag
from cli.parameters import WHOLE, pipeline_option
from cli.registry import NoDigest, by_digest
from cli.revisions import code_version
from components.images import image
from components.placement import LABEL_KEY, LABEL_VALUE, NAME, QUANTITY
from components.pods import STEPS, Pods, is_own_label
from components.shared.errors import UserError

SUFFIXES = (".yaml", ".yml")  # kfp writes nothing of a pod's settings into JSON
# The rest have one of their own.
IMAGE_OF = {
    **dict.fromkeys(("check", "fetch_model", "reused", "unchanged", "finish"), "prepare"),
    "publish": "evaluate",
}
LONGEST_HOURS = 8760  # a year; Kubernetes counts a pod's deadline in seconds, in 32 bits
NAMES = {  # option: what it names
    "model_cache_claim": "PersistentVolumeClaim",
    "queue": "queue",
    "priority_class": "priority class",
    "pull_secret": "Secret",
}


@dataclass(frozen=True)
class Fixed:
    """What is decided when the pipeline is compiled; a run cannot change it."""

    pods: Pods
    cache_training: bool
    pipeline: str = WHOLE


def fixed_options() -> list[click.Option]:
    """The options that are fixed in the compiled file; `take_fixed` reads them."""
    size = "as Kubernetes writes it, for example 8Gi"
    return [
        pipeline_option(),
        click.Option(["--cache-training/--no-cache-training"], default=False, help="Let KFP reuse train and evaluate."),
        click.Option(["--retries"], type=click.IntRange(0, 10), default=Pods.retries, show_default=True,
                     help="How often a lost pod is started again."),
        click.Option(["--timeout"], multiple=True, metavar="STEP=HOURS", help="Hours after which a pod is ended."),
        click.Option(["--shm-size"], default=Pods.shm_size, show_default=True, help=f"Size of /dev/shm, {size}."),
        click.Option(["--scratch-size"], default="", help=f"Limit on a pod's scratch disk, {size}."),
        click.Option(["--model-cache-claim"], default="", help="PersistentVolumeClaim that keeps models for all runs."),
        click.Option(["--queue"], default="", help="Kueue's local queue for the steps with a GPU."),
        click.Option(["--priority-class"], default="", help="Kueue's workload priority class for them."),
        click.Option(["--pull-secret"], multiple=True, help="Secret for a private registry; may be repeated."),
        click.Option(["--pod-label"], multiple=True, metavar="KEY=VALUE", help="One more label on every step's pod."),
    ]  # fmt: skip


def take_fixed(options: dict[str, Any]) -> Fixed:
    """What the options of a verb fix, images included; they are taken out of `options`. UserError for a wrong one."""
    taken = {option.name: options.pop(option.name) for option in fixed_options() if option.name}
    check_fixed(taken)
    pods = Pods(
        images=step_images(),
        hours=_hours(taken["timeout"]),
        retries=taken["retries"],
        shm_size=taken["shm_size"],
        scratch_size=taken["scratch_size"],
        model_cache_claim=taken["model_cache_claim"],
        queue=taken["queue"],
        priority=taken["priority_class"],
        pull_secrets=tuple(taken["pull_secret"]),
        labels=dict(label.split("=", 1) for label in taken["pod_label"]),
    )
    return Fixed(pods, taken["cache_training"], taken["pipeline"])


def check_fixed(taken: dict[str, Any]) -> None:
    """UserError for the first of these options that Kubernetes would refuse; nobody is asked anything."""
    _hours(taken["timeout"])
    for name in ("shm_size", "scratch_size"):
        size = QUANTITY.fullmatch(taken[name])
        if taken[name] and (not size or not float(size[1]) or size[3] == "m"):
            raise UserError(f"{_flag(name)} {taken[name]!r} is no size: write it like 8Gi.")
    for name, kind in NAMES.items():
        given = taken[name] if isinstance(taken[name], tuple) else (taken[name] or None,)
        for text in given:
            if text is not None and not NAME.fullmatch(text):
                raise UserError(
                    f"{_flag(name)} {text!r} is no name of a {kind}: use small letters, digits, dots and dashes."
                )
    for label in taken["pod_label"]:
        key, equals, value = label.partition("=")
        if not equals or not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(value):
            raise UserError(f"--pod-label {label!r} is no label: write it like team=nlp.")
        if is_own_label(key):
            raise UserError(
                f"--pod-label {label!r} would replace a label that the pipeline sets itself: use another key."
            )
    if taken["priority_class"] and not taken["queue"]:
        raise UserError("--priority-class is Kueue's and needs its queue: name that with --queue.")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def step_images() -> dict[str, str]:
    """Every step's image by digest, or by tag where no digest is to be had, which is said."""
    settle_tag()
    named = {step: image(IMAGE_OF.get(step, step)) for step in STEPS}
    found: dict[str, str] = {}
    for name in sorted(set(named.values())):
        try:
            found[name] = by_digest(name)
        except NoDigest as error:
            click.echo(f"Images are named by tag, {os.environ['TAG']}, not by digest: {error}.", err=True)
            return named
    return {step: found[name] for step, name in named.items()}


def check_name(output: Path) -> None:
    """UserError when kfp's compiler would not take this name for its file."""
    if output.suffix not in SUFFIXES:
        raise UserError(f"-o {output} is no name for a pipeline: it must end in .yaml or .yml.")


def write_pipeline(output: Path, fixed: Fixed) -> None:
    """Compile into a file; UserError when its place cannot be written."""
    from kfp.compiler import Compiler

    from pipeline import PIPELINES

    pipeline = PIPELINES[fixed.pipeline](cache_training=fixed.cache_training, pods=fixed.pods)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        # kfp.Compiler writes in place; the version is what makes KFP's cache notice changed code
        Compiler().compile(pipeline, str(output), pipeline_parameters={"code_version": code_version()})
    except OSError as error:
        raise UserError(
            f"-o {output} cannot be written ({error.strerror}): name a file in a writable folder."
        ) from None


@contextmanager
def compiled(fixed: Fixed) -> Iterator[Path]:
    """The compiled pipeline as a file that lives as long as the context."""
    with tempfile.TemporaryDirectory(prefix="grpo-compile-") as folder:
        file = Path(folder) / "pipeline.yaml"
        write_pipeline(file, fixed)
        yield file


def version_name() -> str:
    """What a version of the pipeline is called in KFP: the code's digest and the images' tag."""
    return f"{code_version()}-{os.environ.get('TAG', 'dev')}"


def _hours(given: tuple[str, ...]) -> dict[str, float]:
    hours = {}
    for text in given:
        step, _, number = text.partition("=")
        if step not in STEPS or not re.fullmatch(r"\d+(\.\d+)?", number, re.ASCII):
            raise UserError(f"--timeout {text!r} is no deadline: write STEP=HOURS, with one of {', '.join(STEPS)}.")
        if not 0.01 <= float(number) <= LONGEST_HOURS:
            raise UserError(
                f"--timeout {text!r} is out of range: it must be at least 0.01 and at most {LONGEST_HOURS}."
            )
        hours[step] = float(number)
    return hours
