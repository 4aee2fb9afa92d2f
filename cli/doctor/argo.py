"""What Argo's workflow says of a run's steps, where their pods are gone or never came to be. Pure functions."""

import re
from collections.abc import Mapping

from cli.cluster import Object
from cli.doctor.seen import SIGKILL, SIGTERM, Trouble, option_of, short
from components.pods import MAIN, STEPS

ATTEMPT = re.compile(r"\(\d+\)$")  # at the end of what Argo calls one try of a node
ENDING = re.compile(MAIN + r": (\w+) \(exit code (\d+)\)")
POD = "executor"  # what KFP calls the node of every step's pod
TASKS = {"filter-learnable": "filter"}  # the tasks that KFP does not call by their step's name


def refusal_trouble(workflow: Object | None) -> Trouble | None:
    """A pod that Argo was not allowed to create: it exists nowhere, and only the workflow says why."""
    nodes = _nodes(workflow)
    for node in nodes.values():
        message = str(node.get("message") or "")
        if node.get("type") != "Pod" or "forbidden" not in message:
            continue
        ended = node.get("phase") in ("Failed", "Error")
        space = str((workflow or {}).get("metadata", {}).get("namespace", ""))
        step = step_of_node(node, nodes)
        if "exceeded quota" in message:
            quota = message[message.index("exceeded quota") :]
            return Trouble(
                step, f"its pod would exceed the quota: {short(quota)}", f"kubectl describe quota -n {space}", ended
            )
        mend = f"kubectl get events -n {space} --field-selector reason=FailedCreate"
        return Trouble(step, f"its pod was refused: {short(message)}", mend, ended)
    return None


def ended_trouble(workflow: Object | None) -> Trouble | None:
    """How the first of the pods that failed has ended, for a run whose pods are gone: Argo keeps a word and a code.

    After an eviction by request, for one, the pod is gone as soon as Argo has read its end.
    """
    nodes = _nodes(workflow)
    for node in nodes.values():
        message = str(node.get("message") or "").rstrip(".")
        if node.get("type") != "Pod" or node.get("phase") not in ("Failed", "Error") or not message:
            continue
        step = step_of_node(node, nodes)
        ending = ENDING.match(message)
        reason, code = (ending[1], int(ending[2])) if ending else ("", 0)
        if reason == "OOMKilled":
            mend = f"{option_of(step, 'memory')} with more, or a smaller --micro-batch-size"
            return Trouble(step, "killed for want of memory (OOMKilled); its pod is gone", mend, True)
        words = {
            SIGTERM: "stopped from outside (SIGTERM), as by an eviction, a drain or a deletion; its pod is gone",
            SIGKILL: "killed from outside (SIGKILL); its pod is gone",
        }
        return Trouble(step, words.get(code, short(message)), "", True)
    return None


def step_of_node(node: Object, nodes: Mapping[str, Object]) -> str:
    """The step to which a node of a pod belongs: KFP calls all of them alike, below a node with the task's name."""
    name = str(node.get("displayName", "a step"))
    if name.startswith(POD):
        name = str((nodes.get(str(node.get("boundaryID"))) or {}).get("displayName", name))
    name = ATTEMPT.sub("", name)
    step = TASKS.get(name, name.replace("-", "_"))
    return step if step in STEPS else name


def _nodes(workflow: Object | None) -> Mapping[str, Object]:
    return ((workflow or {}).get("status") or {}).get("nodes") or {}
