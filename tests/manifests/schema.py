"""Checking objects against Kubernetes' own schemas, as the official client holds them.

Custom resources (Prometheus' operator) have no schema there, but in `monitoring`; see OTHERS.
"""

import datetime
import re
from typing import Any

from kubernetes import client

from tests.manifests import monitoring

OTHERS = tuple(monitoring.KINDS)
SCALARS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "bool": (bool,), "float": (float, int)}


def model_of(thing: dict[str, Any]) -> Any:
    """The client's class for an object, by apiVersion and kind."""
    version = thing["apiVersion"].split("/")[-1]
    return getattr(client, version[0].upper() + version[1:] + thing["kind"])


def faults(value: Any, kind: str, place: str) -> list[str]:
    """What is wrong with a value that should be of a type as the client writes it, such as list[V1Container]"""
    if match := re.fullmatch(r"list\[(.*)]", kind):
        if not isinstance(value, list):
            return [f"{place} is no list"]
        return [fault for index, item in enumerate(value) for fault in faults(item, match[1], f"{place}[{index}]")]
    if match := re.fullmatch(r"dict\(str, (.*)\)", kind):
        if not isinstance(value, dict):
            return [f"{place} is no mapping"]
        return [fault for key, item in value.items() for fault in faults(item, match[1], f"{place}.{key}")]
    if kind in SCALARS:
        right = isinstance(value, SCALARS[kind]) and (kind == "bool") == isinstance(value, bool)
        return [] if right else [f"{place} is {value!r}, which is no {kind}"]
    if kind in ("object", "datetime"):
        return [] if kind == "object" or isinstance(value, datetime.datetime | str) else [f"{place} is no date"]
    return _faults_of_model(value, getattr(client, kind), place)


def _faults_of_model(value: Any, model: Any, place: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{place} is no mapping"]
    types = {key: model.openapi_types[name] for name, key in model.attribute_map.items()}
    found = [f"{place}.{key} does not exist" for key in value if key not in types]
    for key, item in value.items():
        if key in types:
            found += faults(item, types[key], f"{place}.{key}")
    try:
        names = {key: name for name, key in model.attribute_map.items()}
        model(**{names[key]: item for key, item in value.items() if key in names})  # raises for what is missing
    except ValueError as error:
        found.append(f"{place}: {error}")
    return found


def check(thing: dict[str, Any]) -> list[str]:
    """All that is wrong with an object of a kind that Kubernetes itself or Prometheus' operator knows."""
    if thing["kind"] in OTHERS:
        return monitoring.check(thing)
    return _faults_of_model(thing, model_of(thing), f"{thing['kind']} {thing['metadata']['name']}")
