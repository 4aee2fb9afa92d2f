"""Whether a node is there for a step: GPUs, node selector, taints, and what running pods have left. Pure functions.

Each check narrows the nodes down; the first that leaves none is the failure, and those after it have nothing to check.
Objects are Kubernetes' own, as JSON.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity

from cli.cluster import Object
from cli.doctor.finding import Finding, fail, ok, skipped

ENDED = ("Succeeded", "Failed")
BLOCKING = ("NoSchedule", "NoExecute")
CONDITION_TAINTS = "node.kubernetes.io/"  # set by Kubernetes itself for what a node suffers from


@dataclass(frozen=True)
class Need:
    """What a step's pod asks a node for; requests by resource: cores, bytes, or a count."""

    step: str
    requests: Mapping[str, Decimal]
    gpu_resource: str
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Object] = ()

    @property
    def gpus(self) -> int:
        return int(self.requests.get(self.gpu_resource, 0))

    def tolerating(self, tolerations: Sequence[Object]) -> "Need":
        """The same need with these tolerations."""
        return replace(self, tolerations=tolerations)


def place_findings(need: Need, nodes: Sequence[Object], pods: Sequence[Object]) -> Iterator[Finding]:
    """Whether one of the nodes would take the step now; pods: all that the cluster has."""
    left = list(nodes)
    for check, narrow in CHECKS.items():
        if (check == "gpus" and not need.gpus) or (check == "node selector" and not need.node_selector):
            continue
        name = f"{need.step} {check}"
        if left:
            left, finding = narrow(name, need, left, pods)
            yield finding
        else:
            yield skipped(name, "no node is left to look at")


Narrowed = tuple[list[Object], Finding]


def _offering(check: str, need: Need, nodes: list[Object], pods: Sequence[Object]) -> Narrowed:
    resource = need.gpu_resource
    offered = {name_of(node): int(allocatable(node).get(resource, 0)) for node in nodes}
    enough = [node for node in nodes if offered[name_of(node)] >= need.gpus]
    shown = ", ".join(f"{count} on {name}" for name, count in offered.items() if count)
    if enough:
        return enough, ok(check, f"{resource}: {shown}; {need.step} asks for {need.gpus}")
    if shown:
        most = max(offered.values())
        return [], fail(check, f"{resource}: {shown}; no node has the {need.gpus} of {need.step}", f"--gpus {most}")
    see = "kubectl describe nodes | grep -A8 Allocatable"
    return [], fail(check, f"no node offers {resource}", f"install its device plug-in, or --gpus 0; look with: {see}")


def _selected(check: str, need: Need, nodes: list[Object], pods: Sequence[Object]) -> Narrowed:
    wanted = need.node_selector
    fitting = [node for node in nodes if wanted.items() <= (node["metadata"].get("labels") or {}).items()]
    shown = ",".join(f"{key}={value}" for key, value in wanted.items())
    if fitting:
        return fitting, ok(check, f"{shown} fits {names(fitting)}")
    mend = f"kubectl label node {name_of(nodes[0])} {shown.replace(',', ' ')}  # or another --node-selector"
    return [], fail(check, f"no node that could take {need.step} has the labels {shown}", mend)


def _healthy(check: str, need: Need, nodes: list[Object], pods: Sequence[Object]) -> Narrowed:
    ready = [node for node in nodes if _is_ready(node) and not _suffers(node) and not _cordoned(node)]
    if ready:
        return ready, ok(check, f"{names(ready)} ready")
    node = nodes[0]
    name = name_of(node)
    if _cordoned(node):
        return [], fail(check, f"{name} is cordoned", f"kubectl uncordon {name}")
    what = ", ".join(taint["key"].removeprefix(CONDITION_TAINTS) for taint in _suffers(node)) or "not ready"
    return [], fail(check, f"{name} is unfit for new pods: {what}", f"kubectl describe node {name}")


def _tolerated(check: str, need: Need, nodes: list[Object], pods: Sequence[Object]) -> Narrowed:
    barred = {name_of(node): barring(node, need.tolerations) for node in nodes}
    fitting = [node for node in nodes if not barred[name_of(node)]]
    if fitting:
        return fitting, ok(check, f"none bars {need.step} from {names(fitting)}")
    name, taints = min(barred.items(), key=lambda item: len(item[1]))
    shown = ", ".join(map(shown_taint, taints))
    return [], fail(check, f"{name} has {shown}, which {need.step} does not tolerate", tolerating(taints))


def _roomy(check: str, need: Need, nodes: list[Object], pods: Sequence[Object]) -> Narrowed:
    best: tuple[list[str], Object, dict[str, Decimal]] | None = None
    for node in nodes:
        free = free_on(node, pods)
        lacking = _lacking(need, free)
        if not lacking:
            shown = ", ".join(f"{amount_of(name, free[name])} {name}" for name in need.requests)
            return [node], ok(check, f"{name_of(node)} has {shown} free for {need.step}")
        # a node that would do once others have ended is nearer than one that is too small for ever
        if best is None or _distance(need, node, lacking) < _distance(need, best[1], best[0]):
            best = (lacking, node, free)
    if best is None:
        return [], skipped(check, "no node is left to look at")
    return [], _no_room(check, need, *best, pods)


def _lacking(need: Need, there: Mapping[str, Decimal]) -> list[str]:
    return [name for name, amount in need.requests.items() if amount > there.get(name, Decimal(0))]


def _distance(need: Need, node: Object, lacking: list[str]) -> tuple[int, int]:
    return len(_lacking(need, allocatable(node))), len(lacking)


def _no_room(
    check: str, need: Need, lacking: list[str], node: Object, free: Mapping[str, Decimal], pods: Sequence[Object]
) -> Finding:
    """Too small for ever, or taken at present, and by whom."""
    name, whole = name_of(node), allocatable(node)
    small = _lacking(need, whole)
    if small:
        seen = _compared(need, small, whole, "in all")
        options = " ".join(f"--{need.step.split('+')[0]}-{what}" for what in small if "/" not in what) or "--gpus"
        return fail(check, f"no node is large enough for {need.step}: {name} has {seen}", f"{options} with less")
    holders = ", ".join(_holders(name, lacking[0], pods)) or "nobody"
    seen = f"{need.step} would wait: {name} has {_compared(need, lacking, free, 'free')}"
    return fail(check, f"{seen} ({lacking[0]} is held by {holders})", f"kubectl describe node {name}")


def _compared(need: Need, names: Sequence[str], there: Mapping[str, Decimal], how: str) -> str:
    """`2 cpu in all and 4 asked for`, for each resource."""
    parts = []
    for each in names:
        amount, asked = there.get(each, Decimal(0)), need.requests[each]
        parts.append(f"{amount_of(each, amount)} {each} {how} and {amount_of(each, asked)} asked for")
    return ", ".join(parts)


CHECKS = {
    "gpus": _offering,
    "node selector": _selected,
    "node health": _healthy,
    "taints": _tolerated,
    "room": _roomy,
}


def free_on(node: Object, pods: Sequence[Object]) -> dict[str, Decimal]:
    """What of a node's resources no pod has asked for."""
    free = dict(allocatable(node))
    for pod in pods:
        if pod["spec"].get("nodeName") == name_of(node) and pod["status"].get("phase") not in ENDED:
            for resource, amount in requests_of(pod).items():
                free[resource] = free.get(resource, Decimal(0)) - amount
    return free


def requests_of(pod: Object) -> dict[str, Decimal]:
    """What the scheduler reserves for a pod: its containers and sidecars, or its largest init container if more.

    After https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers.
    """
    spec = pod["spec"]
    together: dict[str, Decimal] = {}
    most: dict[str, Decimal] = {}
    for container in spec.get("initContainers") or []:
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            together = _sum(together, asked)
            asked = together
        else:
            asked = _sum(together, asked)
        most = {name: max(most.get(name, Decimal(0)), asked.get(name, Decimal(0))) for name in {*most, *asked}}
    for container in spec["containers"]:
        together = _sum(together, _requests(container))
    whole = {name: max(most.get(name, Decimal(0)), together.get(name, Decimal(0))) for name in {*most, *together}}
    return _sum(whole, {name: parse_quantity(amount) for name, amount in (spec.get("overhead") or {}).items()})


def allocatable(node: Object) -> dict[str, Decimal]:
    return {name: parse_quantity(amount) for name, amount in node["status"]["allocatable"].items()}


def amount_of(resource: str, amount: Decimal) -> str:
    """An amount for people: memory in GiB, the rest as it is."""
    return f"{amount / 2**30:.1f} Gi" if resource in ("memory", "ephemeral-storage") else f"{amount.normalize():f}"


def name_of(thing: Object) -> str:
    return str(thing["metadata"]["name"])


def names(things: Sequence[Object]) -> str:
    """The names of a few things, and how many more there are."""
    shown = ", ".join(name_of(thing) for thing in things[:3])
    return f"{shown} and {len(things) - 3} more" if len(things) > 3 else shown


def _requests(container: Object) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}  # a limit alone is a request too
    return {name: parse_quantity(amount) for name, amount in asked.items()}


def _sum(one: Mapping[str, Decimal], other: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {name: one.get(name, Decimal(0)) + other.get(name, Decimal(0)) for name in {*one, *other}}


def barring(node: Object, tolerations: Sequence[Object]) -> list[Object]:
    """The taints of a node that keep a pod with these tolerations off; not those that mark its health."""
    return [taint for taint in _taints(node) if not _tolerates(tolerations, taint)]


def shown_taint(taint: Object) -> str:
    """A taint as `kubectl taint` writes it."""
    return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"


def tolerating(taints: Sequence[Object]) -> str:
    """The option that makes the steps tolerate these taints."""
    wanted = [{"key": taint["key"], "operator": "Exists", "effect": taint["effect"]} for taint in taints]
    return f"--tolerations '{json.dumps(wanted)}'"


def _is_ready(node: Object) -> bool:
    conditions = node["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _cordoned(node: Object) -> bool:
    """By the mark itself: its taint is put on by a controller, a moment later."""
    return bool(node["spec"].get("unschedulable"))


def _all_taints(node: Object) -> list[Object]:
    return [taint for taint in node["spec"].get("taints") or [] if taint["effect"] in BLOCKING]


def _suffers(node: Object) -> list[Object]:
    return [taint for taint in _all_taints(node) if taint["key"].startswith(CONDITION_TAINTS)]


def _taints(node: Object) -> list[Object]:
    return [taint for taint in _all_taints(node) if not taint["key"].startswith(CONDITION_TAINTS)]


def _tolerates(tolerations: Sequence[Object], taint: Object) -> bool:
    """Kubernetes' rule: key, effect and value must match, where given; `Exists` asks for no value."""
    for each in tolerations:
        key, effect = each.get("key"), each.get("effect")
        exists = each.get("operator") == "Exists"
        fits = (not key and exists) or key == taint["key"]
        if (
            fits
            and effect in (None, "", taint["effect"])
            and (exists or each.get("value", "") == taint.get("value", ""))
        ):
            return True
    return False


def _holders(node: str, resource: str, pods: Sequence[Object]) -> list[str]:
    """The pods on a node that have most of a resource, largest first."""
    held = [
        (requests_of(pod).get(resource, Decimal(0)), f"{pod['metadata']['namespace']}/{name_of(pod)}")
        for pod in pods
        if pod["spec"].get("nodeName") == node and pod["status"].get("phase") not in ENDED
    ]
    return [name for amount, name in sorted(held, reverse=True)[:3] if amount]
