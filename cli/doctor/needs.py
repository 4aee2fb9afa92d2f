"""What the steps of a run will ask the cluster for, read from its parameters, and the pod that would ask for it."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from cli.cluster import Object
from cli.doctor.capacity import Need
from components.images import STEPS
from components.pods import STEPS as PODS
from components.pods import labels_of


def steps_of(parameters: Mapping[str, Any]) -> list[str]:
    """The steps that these parameters will run; the filter only when it is asked for."""
    return [step for step in STEPS if step != "filter" or parameters["use_filter"]]


def needs_of(parameters: Mapping[str, Any]) -> list[Need]:
    """One need a step; steps that ask for the same are one, named together."""
    together: dict[tuple[str, str, bool], list[str]] = {}
    for step in steps_of(parameters):
        asked = (parameters[f"{step}_cpu"], parameters[f"{step}_memory"], PODS[step].gpu)
        together.setdefault(asked, []).append(step)
    return [_need("+".join(steps), parameters, *asked) for asked, steps in together.items()]


def _need(steps: str, parameters: Mapping[str, Any], cpu: str, memory: str, on_gpu: bool) -> Need:
    gpus = int(parameters["gpus"]) if on_gpu else 0
    resource = parameters["gpu_resource"]
    requests = {"cpu": parse_quantity(cpu), "memory": parse_quantity(memory)}
    return Need(
        steps,
        {**requests, **({resource: Decimal(gpus)} if gpus else {})},
        resource,
        parameters["node_selector"] if on_gpu else {},
        parameters["tolerations"] if on_gpu else [],
    )


def step_pod(need: Need, image: str, namespace: str, service_account: str) -> Object:
    """A pod that asks for what the step's would (see components/pods.py), for a dry run; it is never started."""
    amounts = {name: f"{amount.normalize():f}" for name, amount in need.requests.items()}
    limits = {name: amount for name, amount in amounts.items() if name != "cpu"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "grpo-code-doctor-",
            "namespace": namespace,
            "labels": labels_of(need.step.split("+")[0]),
        },
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": service_account,
            "nodeSelector": dict(need.node_selector),
            "tolerations": list(need.tolerations),
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "resources": {"requests": amounts, "limits": limits},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }
