"""What the sandbox's namespace refuses: pods and deployments that are softer than its own."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import Images
from tests.cluster.pods import make_pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

HOME = "grpo-code-sandbox"


SOFTENED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "readOnlyRootFilesystem": lambda spec: spec["containers"][0]["securityContext"].pop("readOnlyRootFilesystem"),
    "resources.limits": lambda spec: spec["containers"][0]["resources"].pop("limits"),
    "automountServiceAccountToken": lambda spec: spec.pop("automountServiceAccountToken"),
    "enableServiceLinks": lambda spec: spec.pop("enableServiceLinks"),
    "service account's token": lambda spec: spec["volumes"].append(
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    ),
}
RESTRICTED = {
    "allowPrivilegeEscalation": lambda spec: spec["containers"][0]["securityContext"].pop("allowPrivilegeEscalation"),
    "unrestricted capabilities": lambda spec: spec["containers"][0]["securityContext"].pop("capabilities"),
    "runAsNonRoot": lambda spec: spec["securityContext"].pop("runAsNonRoot"),
    "seccompProfile": lambda spec: spec["securityContext"].pop("seccompProfile"),
    "hostNetwork": lambda spec: spec.update(hostNetwork=True),
    "hostPath": lambda spec: spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
}


@pytest.mark.parametrize("field", SOFTENED)
def test_a_softened_deployment_is_refused(cluster: Cluster, sandbox: str, field: str) -> None:
    deployment = cluster.get("-n", HOME, "deployment", "sandbox")
    deployment["metadata"] = {"name": "softened", "namespace": HOME}
    assert "created" in cluster.apply(deployment, dry_run=True)
    SOFTENED[field](deployment["spec"]["template"]["spec"])
    said = cluster.apply(deployment, dry_run=True, check=False)
    assert "ValidatingAdmissionPolicy 'grpo-code-sandbox'" in said
    assert field in said


@pytest.mark.parametrize("field", [name for name in (*SOFTENED, *RESTRICTED) if name != "resources.limits"])
def test_a_softened_pod_is_refused(cluster: Cluster, sandbox: str, images: Images, field: str) -> None:
    pod = make_pod("softened", images["sandbox"], ["true"])
    pod["metadata"]["namespace"] = HOME
    assert "created" in cluster.apply(copy.deepcopy(pod), dry_run=True)
    (SOFTENED | RESTRICTED)[field](pod["spec"])
    said = cluster.apply(pod, dry_run=True, check=False)
    assert field in said
    assert "denied" in said or "forbidden" in said


def test_a_pod_without_limits_gets_the_namespaces(cluster: Cluster, sandbox: str, images: Images) -> None:
    pod = make_pod("unlimited", images["sandbox"], ["true"])
    pod["metadata"]["namespace"] = HOME
    pod["spec"]["containers"][0].pop("resources")
    text = json.dumps({**pod})
    made = json.loads(cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=text))
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "memory": "512Mi"}
