"""The rules for the parameters that say where and with how much the pods of a run work; only the standard library."""

import re
from collections.abc import Mapping
from typing import Any

STEPS = ("prepare", "filter", "train", "evaluate")
QUANTITY = re.compile(r"(\d+(\.\d+)?)(m|k|[EPTGM]|[EPTGMK]i)?", re.ASCII)
# What Kubernetes allows as the name of a Secret, a claim, a queue.
NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# Kubernetes' labels: [prefix/]name, and a value that may be empty.
LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII)
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
GPUS = re.compile(r"0|[1-9]\d{0,2}", re.ASCII)
RESOURCE = re.compile(r"([a-z0-9][-a-z0-9.]*/)[A-Za-z0-9][-A-Za-z0-9_.]*")
SECRETS = ("hf_secret", "store_secret", "sandbox_secret")
TOLERATION_KEYS = ("key", "operator", "value", "effect", "tolerationSeconds")
TOLERATIONS_EXAMPLE = '[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]'
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def wrong_placement(given: Mapping[str, Any]) -> list[str]:
    """A sentence for each of these parameters that Kubernetes would refuse, or take and never schedule."""
    wrong = [*_wrong_amounts(given)]
    if not GPUS.fullmatch(given["gpus"]):
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
            elif kind == "cpu" and parsed[3] not in (None, "m"):
                wrong.append(f"{step}_cpu {text!r} is an amount of memory: write it like {example}.")
    return wrong


def _wrong_node_selector(labels: Any) -> list[str]:
    example = '{"accelerator": "a100"}'
    if not isinstance(labels, Mapping) or not all(isinstance(value, str) for value in labels.values()):
        return [f"node_selector must be labels with text values: write it like {example}."]
    for key, value in labels.items():
        if not (isinstance(key, str) and LABEL_KEY.fullmatch(key) and LABEL_VALUE.fullmatch(value)):
            return [f"node_selector {key!r}: {value!r} is no label of a node: write it like {example}."]
    return []


def _wrong_tolerations(tolerations: Any) -> list[str]:
    if not isinstance(tolerations, list) or not all(isinstance(one, Mapping) for one in tolerations):
        return [f"tolerations must be a list of tolerations: write it like {TOLERATIONS_EXAMPLE}."]
    return [wrong for wrong in map(_wrong_toleration, tolerations) if wrong][:1]


def _wrong_toleration(one: Mapping[str, Any]) -> str:
    """What Kubernetes' validation would say of one toleration, empty when it would take it."""
    unknown = [key for key in one if key not in TOLERATION_KEYS]
    if unknown:
        return f"tolerations have no field {unknown[0]!r}: use {', '.join(TOLERATION_KEYS)}."
    seconds = one.get("tolerationSeconds")
    for key in ("key", "operator", "value", "effect"):
        if not isinstance(one.get(key, ""), str):
            return f"tolerations: {key} {one[key]!r} is not text: write it like {TOLERATIONS_EXAMPLE}."
    key, operator, value, effect = (one.get(name) or "" for name in ("key", "operator", "value", "effect"))
    if operator not in ("", "Equal", "Exists"):
        return f"tolerations: operator {operator!r} is unknown: use Equal or Exists."
    if effect and effect not in EFFECTS:
        return f"tolerations: effect {effect!r} is unknown: use {', '.join(EFFECTS)}."
    if not key and operator != "Exists":
        return f"tolerations: one without a key needs operator Exists: write it like {TOLERATIONS_EXAMPLE}."
    if key and not LABEL_KEY.fullmatch(key):
        return f"tolerations: key {key!r} is no key of a taint: write it like {TOLERATIONS_EXAMPLE}."
    if value and (operator == "Exists" or not LABEL_VALUE.fullmatch(value)):
        return (
            f"tolerations: value {value!r} does not fit: leave it out with operator Exists, else write a taint's value."
        )
    if seconds is not None and (not isinstance(seconds, int) or isinstance(seconds, bool) or effect != "NoExecute"):
        return "tolerations: tolerationSeconds must be a whole number, with effect NoExecute."
    return ""
