"""A whole installation of manifests/ (the sandbox, a MinIO, what runs need) in namespaces of the test's own.

All is as `make deploy OVERLAY=local,minio` would make it but for the names of its namespaces, what is the whole
cluster's (admission policy, priority class), what would interfere (autoscaler, disruption budget), and MinIO's disk.
"""

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from minio import Minio

from cli.namespaces import OWN_NAMESPACE, SANDBOX_NAMESPACE, STORE_NAMESPACE
from tests.cluster.cluster import Cluster, forwarded
from tests.cluster.installation import rendered, secret

Object = dict[str, Any]
BY_NAME = "kubernetes.io/metadata.name"
LEFT_OUT = ("HorizontalPodAutoscaler", "PodDisruptionBudget", "PersistentVolumeClaim", "Namespace", "Job")
BUCKET, ENDPOINT_PORT = "grpo-code", 9000
DEPLOYED = "deployment/sandbox"
CLIENTS = "grpo-code-sandbox-clients"  # the policy that lets steps out to one sandbox


@dataclass(frozen=True)
class Ground:
    """The installation. sandboxes: two namespaces, so that what befalls one sandbox leaves the other alone."""

    cluster: Cluster
    pipeline: str
    sandboxes: tuple[str, str]
    store: str
    keys: dict[str, str]

    def sandbox_url(self, which: int = 0) -> str:
        return f"http://sandbox.{self.sandboxes[which]}:8080"

    @contextlib.contextmanager
    def s3(self) -> Iterator[dict[str, str]]:
        """The environment in which this machine finds the store, for as long as the block lasts."""
        with forwarded(self.cluster, self.store, "minio", ENDPOINT_PORT) as port:
            yield {**self.keys, "S3_ENDPOINT": f"127.0.0.1:{port}"}

    @contextlib.contextmanager
    def client(self) -> Iterator[Minio]:
        """A client of the store."""
        with self.s3() as settings:
            keys = settings["S3_ACCESS_KEY"], settings["S3_SECRET_KEY"]
            yield Minio(settings["S3_ENDPOINT"], *keys, secure=False)

    def minio_pod(self) -> str:
        chosen = self.cluster.get("pods", "-n", self.store, "-l", "app.kubernetes.io/name=minio")["items"]
        return str(next(each["metadata"]["name"] for each in chosen if "deletionTimestamp" not in each["metadata"]))


def moved(thing: Any, names: dict[str, str]) -> Any:
    """An object with the namespaces that it is in and refers to under their other names."""
    if isinstance(thing, list):
        return [moved(each, names) for each in thing]
    if not isinstance(thing, dict):
        return thing
    named = {key: names.get(value, value) for key, value in thing.items() if key in ("namespace", BY_NAME)}
    return {key: named.get(key, moved(value, names)) for key, value in thing.items()}


def without_what_is_shared(thing: Object) -> Object:
    """A Deployment without what the cluster has once, MinIO's with a disk that ends with its pod."""
    if thing["kind"] == "Deployment":
        spec = thing["spec"]["template"]["spec"]
        spec.pop("priorityClassName", None)
        for volume in spec.get("volumes", []):
            if volume.pop("persistentVolumeClaim", None):
                volume["emptyDir"] = {}
    return thing


def labels_of(objects: list[Object], namespace: str) -> dict[str, str]:
    found = [each for each in objects if each["kind"] == "Namespace" and each["metadata"]["name"] == namespace]
    return dict(found[0]["metadata"]["labels"])


def of_namespace(objects: list[Object], namespace: str) -> list[Object]:
    inside = [each for each in objects if each["metadata"].get("namespace") == namespace]
    return [without_what_is_shared(each) for each in inside if each["kind"] not in LEFT_OUT]


@contextlib.contextmanager
def installed_ground(cluster: Cluster, registry: str, tag: str, minio: str) -> Iterator[Ground]:
    """Everything that a run needs but Kubeflow Pipelines, ready; it goes with its namespaces."""
    objects = rendered(cluster, REGISTRY=registry, TAG=tag, OVERLAY="local,minio", MINIO_IMAGE=minio)
    with (
        cluster.namespace("e2e", labels_of(objects, OWN_NAMESPACE)) as pipeline,
        cluster.namespace("e2e-sandbox", labels_of(objects, SANDBOX_NAMESPACE)) as first,
        cluster.namespace("e2e-sandbox", labels_of(objects, SANDBOX_NAMESPACE)) as second,
        cluster.namespace("e2e-store", labels_of(objects, STORE_NAMESPACE)) as store,
    ):
        keys = {"S3_ACCESS_KEY": "e2e-test", "S3_SECRET_KEY": secrets.token_hex(16), "S3_SECURE": "false"}
        ground = Ground(cluster, pipeline, (first, second), store, {**keys, "GRPO_STORE": f"s3://{BUCKET}"})
        token = secrets.token_hex(16)
        cluster.apply(
            secret(store, "minio", **ground.keys),
            secret(pipeline, "grpo-code-store", **ground.keys, S3_ENDPOINT=f"minio.{store}:{ENDPOINT_PORT}"),
            *(secret(name, SANDBOX_NAMESPACE, TOKEN=token) for name in (pipeline, first, second)),
        )
        names = {OWN_NAMESPACE: pipeline, STORE_NAMESPACE: store, SANDBOX_NAMESPACE: first}
        for namespace in names:
            cluster.apply(*moved(of_namespace(objects, namespace), names))
        way = [each for each in of_namespace(objects, OWN_NAMESPACE) if each["metadata"]["name"] == CLIENTS]
        (policy,) = moved(way, {**names, SANDBOX_NAMESPACE: second})
        policy["metadata"]["name"] += "-second"
        cluster.apply(policy, *moved(of_namespace(objects, SANDBOX_NAMESPACE), {**names, SANDBOX_NAMESPACE: second}))
        for namespace, deployment in ((store, "deployment/minio"), (first, DEPLOYED), (second, DEPLOYED)):
            cluster.kubectl("rollout", "status", "-n", namespace, deployment, "--timeout=180s")
        with ground.client() as client:
            client.make_bucket(BUCKET)
        yield ground
