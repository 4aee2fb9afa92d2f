"""The namespace of a Kubeflow profile, made as Kubeflow's controllers make one, for a KFP that has none beside it."""

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.gateways import ISTIO

EDITOR = "default-editor"  # the account of a profile's notebooks and runs
SECRET = "mlpipeline-minio-artifact"
GROUP = "rbac.authorization.k8s.io"
# Kubeflow's own role of who may edit in a profile is put together from those that carry this label.
TO_EDIT = "rbac.authorization.kubeflow.org/aggregate-to-kubeflow-edit"


@contextlib.contextmanager
def profile_of_its_own(cluster: Cluster) -> Iterator[str]:
    """A profile's namespace, with its account, that account's rights, and what KFP's runs look for there."""
    labels = {"app.kubernetes.io/part-of": "kubeflow-profile", "istio-injection": "enabled"}
    with cluster.namespace("test-profile", labels) as name:
        role = f"{name}-edit"
        theirs = cluster.get("-n", "kubeflow", "secret", SECRET)["data"]
        keys = {key: base64.b64decode(value).decode() for key, value in theirs.items()}
        cluster.apply(*_rights(name, role), *_for_runs(name, keys))
        try:
            yield name
        finally:
            cluster.kubectl("delete", "clusterrole", role)


def token_of(cluster: Cluster, profile: str) -> str:
    """A token of the profile's account for Kubeflow's gateway, by the command of docs/kubernetes.md."""
    audience = f"--audience={ISTIO['AUDIENCE']}"
    return cluster.kubectl("create", "token", EDITOR, "-n", profile, audience).strip()


def _rights(namespace: str, role: str) -> list[dict[str, Any]]:
    """The account, with Kubeflow's rights in a profile and Kubernetes' own."""
    subject = {"kind": "ServiceAccount", "name": EDITOR, "namespace": namespace}
    bindings = [
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{EDITOR}-{which}", "namespace": namespace},
            "subjects": [subject],
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": which},
        }
        for which in (role, "edit")
    ]
    aggregated = {"clusterRoleSelectors": [{"matchLabels": {TO_EDIT: "true"}}]}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": EDITOR, "namespace": namespace}},
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role},
            "aggregationRule": aggregated,
            "rules": [],
        },
        *bindings,
    ]


def _for_runs(namespace: str, keys: dict[str, str]) -> list[dict[str, Any]]:
    """The store's Secret, the launcher's settings and the addresses that KFP's profile controller puts there."""
    repository = {
        "archiveLogs": True,
        "s3": {
            "endpoint": "seaweedfs.kubeflow:9000",
            "bucket": "mlpipeline",
            "insecure": True,
            "keyFormat": f"private-artifacts/{namespace}/{{{{workflow.name}}}}/{{{{pod.name}}}}",
            "accessKeySecret": {"name": SECRET, "key": "accesskey"},
            "secretKeySecret": {"name": SECRET, "key": "secretkey"},
        },
    }
    maps = {
        "kfp-launcher": {"defaultPipelineRoot": f"minio://mlpipeline/private-artifacts/{namespace}/v2/artifacts"},
        "metadata-grpc-configmap": {
            "METADATA_GRPC_SERVICE_HOST": "metadata-grpc-service.kubeflow",
            "METADATA_GRPC_SERVICE_PORT": "8080",
        },
        "artifact-repositories": {"default-namespaced": json.dumps(repository)},
    }
    annotations = {"workflows.argoproj.io/default-artifact-repository": "default-namespaced"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": namespace},
            "stringData": keys,
        },
        *(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
                "data": data,
            }
            for name, data in maps.items()
        ),
    ]
