"""The rules for the parameters that say where and with how much the pods of a run work; only the standard library."""

import re
from collections.abc import Mapping
from typing import Any

STEPS = ("prepare", "filter", "train", "evaluate")
QUANTITY = re.compile(r"(\d+(\.\d+)?)(m|k|[EPTGM]|[EPTGMK]i)?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")  # what Kubernetes allows as the name of a Secret
RESOURCE = re.compile(r"([a-z0-9][-a-z0-9.]*/)[A-Za-z0-9][-A-Za-z0-9_.]*")
SECRETS = ("hf_secret", "store_secret", "sandbox_secret")
TOLERATION_KEYS = ("key", "operator", "value", "effect", "tolerationSeconds")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def wrong_placement(given: Mapping[str, Any]) -> list[str]:
    """A sentence for each of these parameters that Kubernetes would refuse, or take and never schedule."""
    wrong = [*_wrong_amounts(given)]
    if not re.fullmatch(r"\d{1,3}", given["gpus"]):
        wrong.append(f"gpus {given['gpus']!r} is no number of GPUs: write it like 1, or 0 for a CPU.")
    if not RESOURCE.fullmatch(given["gpu_resource"]):
        wrong.append(f"gpu_resource {given['gpu_resource']!r} is no resource name: write it like nvidia.com/gpu.")
    wrong += [
        f"{name} {given[name]!r} is no name of a Secret: use small letters, digits, dots and dashes."
        for name in SECRETS
        if not NAME.fullmatch(given[name])
    ]
    return [*wrong, *_wrong_node_selector(given["node_selector"]), *_wrong_tolerations(given["tolerations"])]


def _wrong_amounts(given: Mapping[str, Any]) -> list[str]:
    wrong = []
    for step in STEPS:
        for kind, example in (("cpu", "2 or 500m"), ("memory", "16Gi")):
            text = given[f"{step}_{kind}"]
            parsed = QUANTITY.fullmatch(text)
            if not parsed or float(parsed[1]) == 0:
                wrong.append(f"{step}_{kind} {text!r} is no amount of {kind}: write it like {example}.")
            elif kind == "memory" and (parsed[3] in (None, "m")):
                wrong.append(f"{step}_memory {text!r} has no unit: write it like {example}.")
    return wrong


def _wrong_node_selector(labels: Any) -> list[str]:
    if isinstance(labels, Mapping) and all(isinstance(value, str) and key for key, value in labels.items()):
        return []
    return ['node_selector must be labels with text values: write it like {"accelerator": "a100"}.']


def _wrong_tolerations(tolerations: Any) -> list[str]:
    example = '[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]'
    if not isinstance(tolerations, list) or not all(isinstance(one, Mapping) for one in tolerations):
        return [f"tolerations must be a list of tolerations: write it like {example}."]
    for one in tolerations:
        unknown = [key for key in one if key not in TOLERATION_KEYS]
        if unknown:
            return [f"tolerations have no field {unknown[0]!r}: use {', '.join(TOLERATION_KEYS)}."]
        if one.get("operator", "Equal") not in ("Equal", "Exists"):
            return [f"tolerations: operator {one['operator']!r} is unknown: use Equal or Exists."]
        if one.get("effect") and one["effect"] not in EFFECTS:
            return [f"tolerations: effect {one['effect']!r} is unknown: use {', '.join(EFFECTS)}."]
        if not one.get("key") and one.get("operator") != "Exists":
            return [f"tolerations: one without a key needs operator Exists: write it like {example}."]
    return []
