"""Whether a node would take a step: the scheduler's rules, on nodes and pods as the API server prints them."""

from decimal import Decimal

import pytest

from cli.doctor.capacity import Need, free_on, place_findings, requests_of

GPU = "nvidia.com/gpu"


def node(name: str = "n1", *, cpu="8", memory="64Gi", gpus: str | None = "2", labels=(), taints=(), **spec) -> dict:
    allocatable = {"cpu": cpu, "memory": memory, **({GPU: gpus} if gpus else {})}
    return {
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"taints": [dict(zip(("key", "value", "effect"), taint, strict=True)) for taint in taints], **spec},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str = "p", on: str = "n1", phase: str = "Running", **requests: str) -> dict:
    named = {"gpu": GPU}
    asked = {named.get(key, key): value for key, value in requests.items()}
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": asked}}]},
        "status": {"phase": phase},
    }


def need(gpus: int = 1, cpu: str = "4", memory: str = "32Gi", **more) -> Need:
    requests = {"cpu": Decimal(cpu), "memory": Decimal(memory.removesuffix("Gi")) * 2**30}
    return Need("train", {**requests, **({GPU: Decimal(gpus)} if gpus else {})}, GPU, **more)


def verdicts(need: Need, nodes: list[dict], pods: list[dict] = ()) -> dict[str, tuple[str, str, str]]:
    found = list(place_findings(need, nodes, list(pods)))
    return {each.check.removeprefix("train "): (each.state, each.seen, each.mend) for each in found}


def test_a_node_that_has_all_of_it():
    found = verdicts(need(), [node()], [pod(cpu="2", memory="16Gi", gpu="1")])
    assert {state for state, _, _ in found.values()} == {"ok"}
    assert found["room"][1] == "n1 has 6 cpu, 48.0 Gi memory, 1 nvidia.com/gpu free for train"


def test_no_node_with_a_gpu_ends_the_search():
    found = verdicts(need(), [node(gpus=None)])
    assert found["gpus"][:2] == ("FAIL", "no node offers nvidia.com/gpu")
    assert found["gpus"][2].startswith("install its device plug-in, or --gpus 0; look with: kubectl describe nodes")
    assert found["room"][0] == "skipped"


def test_more_gpus_than_any_node_has_are_not_added_up():
    found = verdicts(need(gpus=4), [node(), node("n2")])
    assert found["gpus"][1] == "nvidia.com/gpu: 2 on n1, 2 on n2; no node has the 4 of train"
    assert found["gpus"][2] == "--gpus 2"


def test_steps_without_a_gpu_are_not_asked_about_gpus():
    assert "gpus" not in verdicts(need(gpus=0), [node(gpus=None)])


def test_labels_narrow_the_nodes():
    nodes = [node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"}, cpu="1")]
    wanted = need(node_selector={"zone": "y"})
    found = verdicts(wanted, nodes)
    assert found["node selector"][0] == "ok"
    assert "no node is large enough for train: b has 1 cpu in all and 4 asked for" in found["room"][1]
    assert verdicts(need(node_selector={"zone": "z"}), nodes)["node selector"][2].startswith(
        "kubectl label node a zone=z"
    )


@pytest.mark.parametrize(
    ("taint", "toleration", "allowed"),
    [
        (("gpu", "a", "NoSchedule"), {"key": "gpu", "operator": "Exists"}, True),
        (("gpu", "a", "NoSchedule"), {"key": "gpu", "value": "a"}, True),
        (("gpu", "a", "NoSchedule"), {"key": "gpu", "value": "b"}, False),
        (("gpu", "a", "NoSchedule"), {"key": "gpu", "value": "a", "effect": "NoExecute"}, False),
        (("gpu", "a", "NoExecute"), {"operator": "Exists"}, True),
        (("gpu", "a", "NoSchedule"), {"key": "other", "operator": "Exists"}, False),
        (("gpu", "", "NoSchedule"), {"key": "gpu", "operator": "Equal"}, True),
        (("gpu", "a", "PreferNoSchedule"), {"key": "other", "operator": "Exists"}, True),
    ],
)
def test_taints_and_tolerations(taint, toleration, allowed):
    found = verdicts(need(tolerations=[toleration]), [node(taints=[taint])])
    assert found["taints"][0] == ("ok" if allowed else "FAIL")
    if not allowed:
        assert f"n1 has gpu={taint[1]}:{taint[2]}" in found["taints"][1]
        assert '"key": "gpu"' in found["taints"][2]


def test_a_node_that_is_cordoned_or_ill():
    cordon = ("node.kubernetes.io/unschedulable", "", "NoSchedule")
    for taints in ([cordon], []):  # the taint follows the mark a moment later
        assert verdicts(need(), [node(taints=taints, unschedulable=True)])["node health"][1:] == (
            "n1 is cordoned",
            "kubectl uncordon n1",
        )
    lost = ("node.kubernetes.io/unreachable", "", "NoExecute")
    assert verdicts(need(), [node(taints=[lost])])["node health"][1] == "n1 is unfit for new pods: unreachable"
    assert verdicts(need(), [node(taints=[lost]), node("n2")])["node health"][1] == "n2 ready"


def test_gpus_that_others_hold_are_named_largest_first():
    pods = [pod("small", gpu="1", cpu="1"), pod("done", phase="Succeeded", gpu="2"), pod("elsewhere", on="n2", gpu="2")]
    found = verdicts(need(gpus=2), [node()], pods)
    assert found["room"][0] == "FAIL"
    assert "n1 has 1 nvidia.com/gpu free and 2 asked for (nvidia.com/gpu is held by team/small)" in found["room"][1]
    assert found["room"][2] == "kubectl describe node n1"


def test_a_taken_node_is_nearer_than_one_that_is_too_small():
    found = verdicts(need(), [node("tiny", cpu="1", memory="1Gi"), node("busy")], [pod(on="busy", gpu="2")])
    assert found["room"][1].startswith("train would wait: busy has 0 nvidia.com/gpu free")


def test_what_a_pod_reserves():
    """The larger of all containers together and each init container; sidecars count with both, overhead on top."""
    spec = {
        "initContainers": [
            {"name": "i", "resources": {"requests": {"cpu": "3"}}},
            {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
        ],
        "containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {GPU: "1"}}},
            {"name": "b", "resources": {}},
        ],
        "overhead": {"cpu": "250m"},
    }
    assert requests_of({"spec": spec}) == {"cpu": Decimal("3.25"), GPU: Decimal(1)}
    assert free_on(node(), [{"metadata": {}, "spec": {**spec, "nodeName": "n1"}, "status": {}}])["cpu"] == Decimal(
        "4.75"
    )
