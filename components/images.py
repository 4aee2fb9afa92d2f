"""The names of the step images, from REGISTRY and TAG: the only place that spells them."""

import os

STEPS = ("prepare", "filter", "train", "evaluate")


def image(step: str) -> str:
    """The image of a step as the compiled pipeline names it, for example `registry/grpo-code-train:1f2e3d4`."""
    registry = os.environ.get("REGISTRY", "").rstrip("/")
    prefix = f"{registry}/" if registry else ""
    tag = os.environ.get("TAG") or "dev"  # make exports an empty one: kfp's cache must not tell its runs from others
    return f"{prefix}grpo-code-{step}:{tag}"
