"""What the sandbox's namespace refuses: whatever is softer than the sandbox's own pods, one field at a time."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from cli.doctor.pods import Probe, pod_of
from tests.cluster.asking import HOME
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import Images
from tests.cluster.pods import contained, make_pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

Object = dict[str, Any]
Path = tuple[str | int, ...]
MAKERS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
}
POLICY, RESTRICTED, INVALID = "the admission policy", "PodSecurity", "no such object"
# What may be left out of the deployed pods' template, and why that makes them no softer.
LEFT_OPEN = {
    "containers.args": "what the service is told: /readyz and tests/manifests hold it",
    "containers.env": "the token, of which the service asks itself",
    "containers.image": "what runs, not how it is held",
    "containers.imagePullPolicy": "what runs, not how it is held",
    "containers.lifecycle": "when it ends",
    "containers.livenessProbe": "when it is started again",
    "containers.name": "what it is called",
    "containers.ports": "names for ports; who may come in is a matter of the network policies",
    "containers.readinessProbe": "when it is asked",
    "containers.resources.requests": "what is set aside for it, not what it may take",
    "containers.startupProbe": "when it is asked",
    "containers.volumeMounts": "without it there is less to write to",
    "priorityClassName": "who is scheduled first",
    "securityContext.fsGroup": "whose the scratch volume is",
    "securityContext.runAsUser": "runAsNonRoot has the kubelet refuse root; who else it is does not matter",
    "serviceAccountName": "no account of the namespace has rights or a token",
    "terminationGracePeriodSeconds": "when it ends",
    "topologySpreadConstraints": "where it is scheduled",
    "volumes.name": "what it is called",
}
# Of a pod that says nothing of these: test_a_pod_without_limits_gets_the_namespaces.
PUT_IN = "containers.resources.limits"


def leaves(thing: Any, at: Path = ()) -> Iterator[Path]:
    """The paths of all values; a list of plain values is one."""
    if isinstance(thing, dict) and thing:
        for key, value in thing.items():
            yield from leaves(value, (*at, key))
    elif isinstance(thing, list) and any(isinstance(each, dict) for each in thing):
        for index, value in enumerate(thing):
            yield from leaves(value, (*at, index))
    else:
        yield at


def without(thing: Any, path: Path) -> Any:
    """A copy in which the value is not there, nor what would be empty without it."""
    key, *rest = path
    changed = copy.copy(thing)
    if rest and (left := without(thing[key], tuple(rest))):
        changed[key] = left
    else:
        del changed[key]
    return changed


def value_at(thing: Any, path: Path) -> Any:
    """None where there is none."""
    for key in path:
        try:
            thing = thing[key]
        except (KeyError, IndexError):
            return None
    return thing


def name_of(path: Path) -> str:
    """A field's name, the same for every container."""
    return ".".join(each for each in path if isinstance(each, str)).replace("initContainers.", "containers.")


def is_under(field: str, names: Any) -> bool:
    return any(field == name or field.startswith(f"{name}.") for name in names)


def made(kind: str, spec: Object) -> Object:
    """A pod with this spec, or what makes such pods."""
    metadata = {"name": "softened", "namespace": HOME}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
    labels = {"app": "softened"}
    body: Object = {"template": {"metadata": {"labels": labels}, "spec": spec}}
    if kind == "Job":
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": body}
    named = {"serviceName": "softened"} if kind == "StatefulSet" else {}
    body |= {"selector": {"matchLabels": labels}, **named}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}


def created(cluster: Cluster, thing: Object) -> tuple[str, Object]:
    """Who refuses to make a thing and what is said; nobody, and what pods it would have been made into."""
    path = MAKERS[thing["kind"]].format(HOME)
    dry_run = [("dryRun", "All")]
    try:
        answer = cluster.api.call_api(
            path, "POST", query_params=dry_run, body=thing, response_type="object", auth_settings=["BearerToken"],
            _return_http_data_only=True,
        )  # fmt: skip
    except ApiException as error:
        said = json.loads(error.body)["message"]
        known = {
            "ValidatingAdmissionPolicy 'grpo-code-sandbox'": POLICY,
            "violates PodSecurity": RESTRICTED,
            "is invalid": INVALID,
        }
        return next((who for words, who in known.items() if words in said), said), {"said": said}
    spec = answer["spec"]
    return "", spec if thing["kind"] == "Pod" else spec["template"]["spec"]


@pytest.fixture
def spec(cluster: Cluster, sandbox: str) -> Object:
    """The deployed pods', with an init container that is as hard as their own."""
    found: Object = cluster.get("-n", HOME, "deployment", "sandbox")["spec"]["template"]["spec"]
    found.pop("serviceAccount", None)  # an old name of serviceAccountName, which the API server would go by
    kept = ("image", "args", "resources", "securityContext", "volumeMounts")
    first = {key: value for key, value in found["containers"][0].items() if key in kept}
    return {**found, "initContainers": [{"name": "first", **copy.deepcopy(first)}]}


@pytest.mark.parametrize("kind", MAKERS)
def test_nothing_that_hardens_the_deployed_pods_can_be_left_out(cluster: Cluster, spec: Object, kind: str) -> None:
    """Each field by itself, but for those of LEFT_OPEN; PodSecurity only warns of what makes pods."""
    spec = {**spec, "restartPolicy": "Never"} if kind == "Job" else spec
    assert created(cluster, made(kind, spec))[0] == ""
    refused, open_fields = {}, set()
    for path in leaves(spec):
        who, result = created(cluster, made(kind, without(spec, path)))
        if who:
            refused[path] = who
            assert who != POLICY or str(path[-1]) in result["said"]
        elif value_at(result, path) != value_at(spec, path):  # else it is the API server's default
            open_fields.add(name_of(path))
    for_pods = set() if kind == "Pod" else refused_to_pods(cluster, spec, RESTRICTED)
    put_in = {PUT_IN} if kind == "Pod" else set()
    assert {field for field in open_fields if not is_under(field, {*LEFT_OPEN, *put_in, *for_pods})} == set()
    closed = {name_of(path) for path, who in refused.items() if who in (POLICY, RESTRICTED)}
    assert {field for field in closed if is_under(field, LEFT_OPEN)} == set(), "they are left open without need"
    assert {"securityContext.runAsGroup", "containers.securityContext.readOnlyRootFilesystem", "dnsPolicy"} <= closed


def refused_to_pods(cluster: Cluster, spec: Object, by: str) -> set[str]:
    """The fields without which a pod is refused by somebody."""
    found = {path: created(cluster, made("Pod", without(spec, path)))[0] for path in leaves(spec)}
    return {name_of(path) for path, who in found.items() if who == by}


def test_what_is_left_open_is_there(spec: Object) -> None:
    """So that the list above holds nothing that is no longer true."""
    fields = {name_of(path) for path in leaves(spec)}
    assert {name for name in LEFT_OPEN if not any(is_under(field, [name]) for field in fields)} == set()


TOKEN = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
# What is put in and not left out: who refuses it, in which words, and the change.
ADDED: dict[str, tuple[str, str, Callable[[Object], Any]]] = {
    "a token in a volume": (POLICY, "service account's token", lambda spec: spec["volumes"].append(TOKEN)),
    "a volume on disk": (POLICY, "medium: Memory", lambda spec: spec["volumes"].append({"name": "x", "emptyDir": {}})),
    "root's group": (POLICY, "runAsGroup", lambda spec: spec["securityContext"].update(runAsGroup=0)),
    "root's group for a container": (
        POLICY,
        "runAsGroup",
        lambda spec: spec["initContainers"][0]["securityContext"].update(runAsGroup=0),
    ),
    "the cluster's names": (POLICY, "dnsPolicy", lambda spec: spec.update(dnsPolicy="ClusterFirst")),
    "the node's network": (RESTRICTED, "hostNetwork", lambda spec: spec.update(hostNetwork=True)),
    "the node's processes": (RESTRICTED, "hostPID", lambda spec: spec.update(hostPID=True)),
    "a folder of the node": (
        RESTRICTED,
        "hostPath",
        lambda spec: spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
    ),
    "root": (RESTRICTED, "runAsUser", lambda spec: spec["securityContext"].update(runAsUser=0)),
    "a capability": (
        RESTRICTED,
        "unrestricted capabilities",
        lambda spec: spec["containers"][0]["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
    ),
}


@pytest.mark.parametrize("what", ADDED)
def test_what_softens_a_pod_cannot_be_put_in(cluster: Cluster, spec: Object, what: str) -> None:
    who, words, change = ADDED[what]
    change(spec)
    refuser, result = created(cluster, made("Pod", spec))
    assert refuser == who
    assert words in result["said"]
    if who == POLICY:
        assert created(cluster, made("Deployment", spec))[0] == POLICY


def test_a_pod_without_limits_gets_the_namespaces(cluster: Cluster, spec: Object) -> None:
    del spec["containers"][0]["resources"]
    who, result = created(cluster, made("Pod", spec))
    assert who == ""
    limits = {"cpu": "1", "memory": "512Mi", "ephemeral-storage": "64Mi"}
    assert result["containers"][0]["resources"]["limits"] == limits


def test_the_doctors_probe_is_taken_and_the_tests_own_pod(cluster: Cluster, sandbox: str, images: Images) -> None:
    """The first, which looks from beside the sandbox whether it gets out, is the product's own."""
    probe = pod_of(Probe("captive", HOME, images["sandbox"], [], names=False), "pass")
    for pod in (probe, contained(make_pod("softened", images["sandbox"], ["true"]))):
        assert created(cluster, pod)[0] == ""
