"""A small installation in namespaces of the test's own, as the doctor would find it at a user's."""

import base64
import json
import secrets
import sys
import time
from functools import cache
from typing import Any

import yaml

from cli.images import default_tag
from cli.namespaces import OWN_NAMESPACE
from tests.cluster.cluster import Cluster

Object = dict[str, Any]
ACCOUNT = "pipeline-runner"
SECONDS_TO_GO = 30.0  # a probe has five seconds to end by itself; the kubelet may have much else to do
KEPT = ("Deployment", "Service", "NetworkPolicy", "ServiceAccount", "LimitRange")
SANDBOX = "grpo-code-sandbox"
BUCKET, ACCESS = "doctor", {"S3_ACCESS_KEY": "doctor", "S3_SECRET_KEY": "doctor-secret"}
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "fsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}


@cache
def doctor_tag() -> str:
    """The tag of the images that the fixture doctor_images builds; another one for other code, as nodes keep images."""
    return f"doctor-{default_tag()}"


def secret(namespace: str, name: str, **values: str) -> Object:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data}


def account(namespace: str) -> list[Object]:
    """The account of runs, with the rights that KFP's own role gives it."""
    metadata = {"name": ACCOUNT, "namespace": namespace}
    rules = [
        {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get"]},
        {"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]},
    ]
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        },
    ]


def rendered(cluster: Cluster, **settings: str) -> list[Object]:
    """What `make deploy` would apply with these variables, runs being in the namespace that it makes."""
    words = [f"{name}={value}" for name, value in {"NAMESPACE": OWN_NAMESPACE, **settings}.items()]
    return list(yaml.safe_load_all(cluster.run("env", *words, sys.executable, "-m", "cli.deploy", "render").stdout))


def sandbox(
    cluster: Cluster, namespace: str, image: str, token: str, *, guarded: bool = True, overlay: str = "local"
) -> list[Object]:
    """The sandbox of manifests/, in another namespace; unguarded without its policies, and content to have none."""
    found = []
    for each in rendered(cluster, REGISTRY="registry.example", TAG="1", OVERLAY=overlay):
        if each["kind"] not in KEPT or each["metadata"].get("namespace") != SANDBOX:
            continue
        if each["kind"] == "NetworkPolicy" and not guarded:
            continue
        each["metadata"]["namespace"] = namespace
        if each["kind"] == "Deployment":
            spec = each["spec"]["template"]["spec"]
            del spec["priorityClassName"]
            spec["containers"][0]["image"] = image
            if not guarded:
                arguments = spec["containers"][0]["args"]
                spec["containers"][0]["args"] = [each for each in arguments if "--must-not-reach" not in each]
        found.append(each)
    return [secret(namespace, SANDBOX, TOKEN=token), *found]


def minio(namespace: str, image: str, python: str) -> list[Object]:
    """A MinIO, and beside it a container with its client, by which the test makes and looks into the bucket."""
    client = {
        "name": "client",
        "image": python,
        "command": ["python", "-c", "import time; time.sleep(3600)"],
        "securityContext": CONTAINED,
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "minio", "namespace": namespace, "labels": {"app": "minio"}},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": RESTRICTED,
            "containers": [
                {
                    "name": "minio",
                    "image": image,
                    "args": ["server", "/data", "--address", ":9000"],
                    "env": [
                        {"name": "HOME", "value": "/data"},
                        {"name": "MINIO_ROOT_USER", "value": ACCESS["S3_ACCESS_KEY"]},
                        {"name": "MINIO_ROOT_PASSWORD", "value": ACCESS["S3_SECRET_KEY"]},
                    ],
                    "securityContext": CONTAINED,
                    "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    "readinessProbe": {"tcpSocket": {"port": 9000}, "periodSeconds": 1},
                },
                client,
            ],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "minio", "namespace": namespace},
        "spec": {"selector": {"app": "minio"}, "ports": [{"port": 9000}]},
    }
    return [pod, service]


def install(cluster: Cluster, namespace: str, sandbox_namespace: str, images: dict[str, str]) -> None:
    """Everything that a run needs but Kubeflow Pipelines; returns when it is ready."""
    token = secrets.token_hex(16)
    store = secret(
        namespace,
        "grpo-code-store",
        S3_ENDPOINT=f"minio.{namespace}:9000",
        S3_SECURE="false",
        GRPO_STORE=f"s3://{BUCKET}/prefix",
        **ACCESS,
    )
    cluster.apply(
        *account(namespace),
        store,
        secret(namespace, SANDBOX, TOKEN=token),
        *minio(namespace, images["minio"], images["prepare"]),
        *sandbox(cluster, sandbox_namespace, images["sandbox"], token),
    )
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/minio", "--timeout=300s")
    in_bucket(cluster, namespace, f"client.make_bucket({BUCKET!r})")
    cluster.kubectl("rollout", "status", "-n", sandbox_namespace, "deployment/sandbox", "--timeout=180s")


def objects_left(cluster: Cluster, namespace: str) -> list[str]:
    """The keys in the bucket of the test's MinIO."""
    listing = f"print(*(each.object_name for each in client.list_objects({BUCKET!r}, recursive=True)))"
    return in_bucket(cluster, namespace, listing).split()


def in_bucket(cluster: Cluster, namespace: str, program: str) -> str:
    """What a Python program prints that has `client`, MinIO's, at hand."""
    keys = f"{ACCESS['S3_ACCESS_KEY']!r}, {ACCESS['S3_SECRET_KEY']!r}"
    whole = f"from minio import Minio\nclient = Minio('localhost:9000', {keys}, secure=False)\n{program}"
    return cluster.kubectl("exec", "-n", namespace, "minio", "-c", "client", "--", "python", "-c", whole)


def probes_left(cluster: Cluster, *namespaces: str) -> list[str]:
    """Probe pods that are still there after a while in which those that are just being ended have gone."""
    deadline = time.monotonic() + SECONDS_TO_GO
    while True:
        found = [
            each["metadata"]["name"]
            for namespace in namespaces
            for each in cluster.get("pods", "-n", namespace, "-l", "grpo-code/doctor")["items"]
        ]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.5)


def findings_of(text: str) -> dict[str, list[Object]]:
    """What `doctor --json` printed, by check."""
    found: dict[str, list[Object]] = {}
    for each in json.loads(text)["findings"]:
        found.setdefault(each["check"], []).append(each)
    return found
