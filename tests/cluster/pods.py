"""Pods of the tests' own, admissible under PodSecurity restricted and in the sandbox's namespace."""

import contextlib
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.cluster.cluster import Cluster

CLIENT = {"grpo-code/sandbox-client": "true"}
TOKEN = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "grpo-code-sandbox", "key": "TOKEN"}}}
# Whether a place can be reached, told once five tries in a row agree: policies take some seconds to hold a new pod.
# All places at once, for each try at one that is held back takes two seconds.
REACHES = """
import concurrent.futures, json, os, socket, sys, time
def tried(host, port):
    try:
        socket.create_connection((host, port), 2).close()
        return True
    except OSError:
        return False
def reaches(host, port, expected):
    deadline, streak = time.monotonic() + 30, 0
    while time.monotonic() < deadline and streak < 5:
        streak = streak + 1 if tried(host, port) is expected else 0
        time.sleep(0.3)
    return expected if streak == 5 else not expected
asked = json.loads(sys.argv[1])
with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
    print(json.dumps(list(pool.map(lambda place: reaches(*place), asked))))
"""


@dataclass
class Ended:
    """A pod that has ended: its container's exit code and what it printed."""

    code: int
    printed: str


def make_pod(name: str, image: str, command: list[str], labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod with everything on that hardens it, and a /tmp."""
    container = {
        "name": "main",
        "image": image,
        "command": command,
        "env": [],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "3Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


@contextlib.contextmanager
def running(cluster: Cluster, namespace: str, pod: dict[str, Any]) -> Iterator[str]:
    """The pod for as long as the block lasts; yields its name."""
    pod["metadata"]["namespace"] = namespace
    name = pod["metadata"]["name"]
    cluster.apply(pod)
    try:
        yield name
    finally:
        cluster.kubectl("-n", namespace, "delete", "pod", name, "--wait=false", check=False)


def run_pod(cluster: Cluster, namespace: str, pod: dict[str, Any], *, timeout: float = 600) -> Ended:
    """Run a pod to its end; AssertionError with its state when that takes too long."""
    deadline = time.monotonic() + timeout
    with running(cluster, namespace, pod) as name:
        while time.monotonic() < deadline:
            status = cluster.get("-n", namespace, "pod", name)["status"]
            if status["phase"] in ("Succeeded", "Failed"):
                code = status["containerStatuses"][0]["state"]["terminated"]["exitCode"]
                return Ended(code, cluster.kubectl("-n", namespace, "logs", name))
            time.sleep(0.5)
        raise AssertionError(f"pod {name} has not ended: {json.dumps(status)[:2000]}")


def run_python(
    cluster: Cluster,
    namespace: str,
    image: str,
    program: str,
    *arguments: str,
    labels: dict[str, str] | None = None,
    env: list[dict[str, Any]] | None = None,
) -> Ended:
    """Run a Python program in a pod of its own."""
    pod = make_pod(f"python-{secrets.token_hex(3)}", image, ["python", "-c", program, *arguments], labels)
    pod["spec"]["containers"][0]["env"] = env or []
    return run_pod(cluster, namespace, pod)


def what_is_reached(
    cluster: Cluster,
    namespace: str,
    image: str,
    places: list[tuple[str, int]],
    *,
    expected: bool,
    labels: dict[str, str] | None = None,
) -> list[bool]:
    """Of each place (host, port), whether a pod with these labels reaches it; `expected` must last to be believed."""
    asked = json.dumps([(host, port, expected) for host, port in places])
    ended = run_python(cluster, namespace, image, REACHES, asked, labels=labels)
    assert ended.code == 0, ended.printed
    reached: list[bool] = json.loads(ended.printed)
    return reached
