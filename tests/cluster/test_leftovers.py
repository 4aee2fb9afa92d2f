"""What must be gone at the end of the tests on a cluster is known, tried without one."""

import pytest

from tests.cluster import leftovers
from tests.cluster.troubles import HOLLOW


class Changing:
    """A cluster of which the test says what is there, one answer after the other; the last one stays."""

    def __init__(self, *states: list[dict]) -> None:
        self.states = list(states)

    def get(self, kinds: str, *options: str) -> dict:
        things = self.states[0]
        if kinds == leftovers.CLUSTER_WIDE and len(self.states) > 1:
            del self.states[0]
        labelled = [each for each in things if each["metadata"].get("labels", {}).get("app.kubernetes.io/part-of")]
        asked = labelled if "-l" in options else things
        return {"items": [each for each in asked if each["kind"].lower() in kinds]}


def thing(kind: str, name: str, *, namespace: str = "", labels: dict | None = None, **spec: object) -> dict:
    metadata = {"name": name, "labels": labels or {}, **({"namespace": namespace} if namespace else {})}
    return {"kind": kind, "metadata": metadata, "spec": spec}


OURS = {"app.kubernetes.io/part-of": "grpo-code"}
OF_OTHERS = [
    thing("Namespace", "team-a"),
    thing("Namespace", "testing"),
    thing("Node", "node1"),
    thing("PersistentVolume", "pvc-1", claimRef={"namespace": "team-a"}),
    thing("ClusterRole", "admin"),
]


@pytest.mark.parametrize(
    ("more", "called"),
    [
        (thing("Namespace", "e2e-sandbox-0a1b2c"), "Namespace e2e-sandbox-0a1b2c"),
        (thing("Namespace", "grpo-code-sandbox"), "Namespace grpo-code-sandbox"),
        (thing("Namespace", "kubeflow", labels={"grpo-code/deployed": "true"}), "label grpo-code/deployed of Name"),
        (thing("RuntimeClass", "doctor-gvisor-0a1b2c"), "RuntimeClass doctor-gvisor-0a1b2c"),
        (thing("RuntimeClass", "grpo-code-gvisor", labels=OURS), "RuntimeClass grpo-code-gvisor"),
        (thing("PriorityClass", "doctor-test-high"), "PriorityClass doctor-test-high"),
        (thing("ValidatingAdmissionPolicy", "sandbox", labels=OURS), "ValidatingAdmissionPolicy sandbox"),
        (thing("Node", "ill", labels={HOLLOW: "ill"}), "Node ill"),
        (thing("PersistentVolume", "grpo-code-test"), "PersistentVolume grpo-code-test"),
        (thing("PersistentVolume", "pvc-2", claimRef={"namespace": "e2e-store-0a1b2c"}), "PersistentVolume pvc-2"),
        (thing("ClusterRoleBinding", "test-gateway-0a1b2c"), "ClusterRoleBinding test-gateway-0a1b2c"),
        (thing("Secret", "grpo-code-store", namespace="kubeflow", labels=OURS), "Secret grpo-code-store in kubeflow"),
    ],
)
def test_what_tests_or_the_product_leave_is_found(more: dict, called: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it was there before, or goes in a while; what others have made meanwhile does not count."""
    monkeypatch.setattr(leftovers, "SECONDS_TO_GO", 0)
    before = leftovers.present(Changing([]))
    assert before == set()
    (found,) = leftovers.left(Changing([*OF_OTHERS, more]), before)
    assert found.startswith(called)
    there = leftovers.present(Changing([*OF_OTHERS, more]))
    assert leftovers.left(Changing([*OF_OTHERS, more]), there) == []
    monkeypatch.setattr(leftovers, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(leftovers, "SECONDS_TO_GO", 60)
    assert leftovers.left(Changing([*OF_OTHERS, more], OF_OTHERS), before) == []


def test_a_product_that_was_deployed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "SECONDS_TO_GO", 0)
    deployed = [thing("Namespace", "grpo-code-sandbox")]
    before = leftovers.present(Changing(deployed))
    own, test = thing("Namespace", "grpo-code"), thing("Namespace", "test-0a1b2c")
    assert leftovers.left(Changing([*deployed, own, test]), before) == ["Namespace test-0a1b2c"]
