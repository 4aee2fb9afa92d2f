"""`make deploy` with a store of its own that a step uses by its Secret, and `make undeploy`, which leaves nothing."""

import contextlib
import json
import os
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import Images, deploy
from tests.cluster.leftovers import ours
from tests.cluster.pods import run_python

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

OWN, STORE = "grpo-code", "grpo-code-store"
STEP = {"app.kubernetes.io/part-of": "grpo-code"}
FOLDER = "/var/tmp/grpo-code-test-volume"
PLACES = (OWN, STORE, "grpo-code-sandbox", "kubeflow")
STORE_ENV = [
    {"name": key, "valueFrom": {"secretKeyRef": {"name": "grpo-code-store", "key": key}}}
    for key in ("S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY", "S3_SECURE", "GRPO_STORE")
]
USES_THE_STORE = """
from components.shared.store import open_store
store = open_store()
store.write("probe/key", b"value")
print(store.uri("probe/key"), store.read("probe/key"), store.keys("probe/"))
store.delete("probe/key")
"""


HOST = {"path": FOLDER, "type": "DirectoryOrCreate"}


def on_a_node(cluster: Cluster, image: str, command: str, node: str = "") -> str:
    """Run a shell command as root with FOLDER of a node at /volume; returns the node's name."""
    container = {
        "name": "main",
        "image": image,
        "command": ["sh", "-c", command],
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "host", "mountPath": "/volume"}],
    }
    volumes = [{"name": "host", "hostPath": HOST}]
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": volumes,
        **({"nodeName": node} if node else {}),
    }
    with cluster.namespace("test-volume") as place:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runs", "namespace": place}, "spec": spec}
        cluster.apply(pod)
        cluster.kubectl("-n", place, "wait", "pod/runs", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
        return str(cluster.get("-n", place, "pod", "runs")["spec"]["nodeName"])


@contextlib.contextmanager
def claimed(cluster: Cluster, image: str) -> Iterator[None]:
    """A volume that MinIO's user may write to, claimed for it: those of a test cluster often belong to root."""
    empty = "rm -rf /volume/* /volume/.minio.sys"
    node = on_a_node(cluster, image, f"{empty}; chmod 777 /volume")
    host = cluster.get("node", node)["metadata"]["labels"]["kubernetes.io/hostname"]
    there = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}
    size = {"storage": "20Gi"}  # what the component asks for: a claim cannot be changed
    shape = {"accessModes": ["ReadWriteOnce"], "storageClassName": "grpo-code-test"}
    disk = {**shape, "capacity": size, "hostPath": HOST, "persistentVolumeReclaimPolicy": "Retain"}
    disk["nodeAffinity"] = {"required": {"nodeSelectorTerms": [there]}}
    claim = {**shape, "resources": {"requests": size}, "volumeName": "grpo-code-test"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "grpo-code-test"}, "spec": disk},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": STORE}},
    )
    metadata = {"name": "minio", "namespace": STORE}
    thing = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim}
    cluster.kubectl("create", "-f", "-", input=json.dumps(thing))  # what is applied, a later apply may take back
    try:
        yield
    finally:
        cluster.kubectl("delete", "namespace", STORE, "--ignore-not-found", "--timeout=120s")
        cluster.kubectl("delete", "persistentvolume", "grpo-code-test", "--wait=false")
        on_a_node(cluster, image, empty, node)


@pytest.fixture
def volume(cluster: Cluster, images: Images, sandbox: str) -> Iterator[str]:
    with claimed(cluster, images["sandbox"]):
        yield "minio"


def test_a_store_of_ones_own_and_then_nothing_at_all(
    cluster: Cluster, images: Images, sandbox: str, minio_image: str, volume: str
) -> None:
    deploy(cluster, images, "local,minio", MINIO_IMAGE=minio_image)
    ended = run_python(cluster, OWN, images["prepare"], USES_THE_STORE, labels=STEP, env=STORE_ENV)
    assert ended.code == 0, ended.printed
    assert ended.printed.split() == ["s3://grpo-code/probe/key", "b'value'", "['probe/key']"]

    before = cluster.get("-n", STORE, "secret", "minio")["data"]
    cluster.kubectl("-n", STORE, "delete", "secret", "minio")  # as when the store's namespace is made anew
    deploy(cluster, images, "local,minio", MINIO_IMAGE=minio_image)
    assert cluster.get("-n", STORE, "secret", "minio")["data"] == before

    assert len(ours(cluster, *PLACES)) > 20
    with cluster.namespace("test-kept", {"grpo-code/pipeline": "true"}) as kept:  # labelled by somebody else
        deploy(cluster, images, NAMESPACE=kept)
        deploy(cluster, images, NAMESPACE=kept)
        with cluster.namespace("test-going") as going:  # by its owner, at this moment
            deploy(cluster, images, NAMESPACE=going)
        cluster.run("make", "undeploy", timeout=600)
        labels = cluster.get("namespace", kept)["metadata"]["labels"]
        assert labels["grpo-code/pipeline"] == "true"
        assert "grpo-code/deployed" not in labels
        assert not ours(cluster, kept)
    assert ours(cluster, *PLACES) == set()
    for name in (OWN, STORE, "grpo-code-sandbox"):
        assert "NotFound" in cluster.kubectl("get", "namespace", name, check=False)
    deploy(cluster, images)  # as the session's other tests expect it


def test_runs_in_a_namespace_that_others_use_too(cluster: Cluster, images: Images, sandbox: str) -> None:
    """It gets the label, the token and policies for our pods alone; its own pods stay as free as they were."""
    with cluster.namespace("test-profile") as name:
        deploy(cluster, images, "local,kubeflow-multiuser", NAMESPACE=name)
        assert cluster.get("namespace", name)["metadata"]["labels"]["grpo-code/pipeline"] == "true"
        tokens = [cluster.get("-n", place, "secret", "grpo-code-sandbox")["data"] for place in (name, OWN)]
        assert tokens[0] == tokens[1]
        policies = cluster.get("-n", name, "networkpolicy")["items"]
        assert policies
        assert all(policy["spec"]["podSelector"].get("matchLabels") for policy in policies)
    deploy(cluster, images)


def test_two_different_tokens_are_refused(cluster: Cluster, images: Images, sandbox: str) -> None:
    with cluster.namespace("test-profile") as name:
        metadata = {"name": "grpo-code-sandbox", "namespace": name}
        cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"TOKEN": "other"}})
        settings = [f"REGISTRY={images.registry}", f"TAG={images.tag}", "OVERLAY=local", f"NAMESPACE={name}"]
        done = cluster.run("make", "deploy", *settings, check=False)
        assert done.returncode != 0
        assert "Secret grpo-code-sandbox holds different tokens in grpo-code-sandbox and" in done.stderr
        cluster.kubectl("label", "namespace", name, "grpo-code/pipeline-")


@pytest.mark.kfp
def test_the_store_that_comes_with_kfp(cluster: Cluster, images: Images, sandbox: str) -> None:
    """Overlay seaweedfs: the Secret is made from KFP's own, and a step in KFP's namespace may use the store."""
    if not os.environ.get("KFP_ENDPOINT"):
        pytest.skip("no Kubeflow Pipelines: KFP_ENDPOINT is not set")
    deploy(cluster, images, "local,seaweedfs", NAMESPACE="kubeflow")
    try:
        ended = run_python(cluster, "kubeflow", images["prepare"], USES_THE_STORE, labels=STEP, env=STORE_ENV)
        assert ended.code == 0, ended.printed
        assert ended.printed.split() == ["s3://mlpipeline/grpo-code/probe/key", "b'value'", "['probe/key']"]
    finally:
        cluster.run("make", "undeploy", timeout=600)
        deploy(cluster, images)


def test_an_overlay_whose_kinds_the_cluster_does_not_know(cluster: Cluster, images: Images, sandbox: str) -> None:
    """Without Prometheus' operator kubectl says which kind is missing, and the exit code is 1."""
    if "servicemonitors" in cluster.kubectl("api-resources", "--api-group=monitoring.coreos.com", check=False):
        pytest.skip("this cluster has the definitions of Prometheus' operator")
    settings = [f"REGISTRY={images.registry}", f"TAG={images.tag}", "OVERLAY=local,monitoring", f"NAMESPACE={OWN}"]
    done = cluster.run("make", "deploy", *settings, check=False)
    assert done.returncode != 0
    assert 'no matches for kind "ServiceMonitor"' in done.stderr
    cluster.run("make", "undeploy", timeout=600)  # the overlay's policy, which is there by now, goes with nothing less
    deploy(cluster, images)
