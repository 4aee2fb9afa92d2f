"""Pods of the tests' own, admissible under PodSecurity restricted and in the sandbox's namespace."""

import contextlib
import json
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cluster.cluster import Cluster

CLIENT = {"grpo-code/sandbox-client": "true"}
TOKEN = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "grpo-code-sandbox", "key": "TOKEN"}}}
Place = tuple[str, int, str]  # host, port, and how it is tried: TCP connects, UDP asks a name server
TCP, UDP = "tcp", "udp"
# What becomes of trying a place: `reached`, or what failed and how, such as `socket: EPERM` (no socket was to be had at
# all) or `connect: timed out`. Pods run it, and programs that are judged. UDP tells nobody of a connection, so that a
# name server must answer.
TRIED = """
import errno, socket
NAME = "kubernetes.default.svc.cluster.local."
QUESTION = bytes.fromhex("123401000001000000000000") + b"".join(
    len(part).to_bytes() + part.encode() for part in NAME.split(".")) + bytes([0, 1, 0, 1])
def tried(host, port, kind):
    doing = "socket"
    try:
        with socket.socket(type=socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM) as end:
            end.settimeout(2)
            doing = "connect"
            end.connect((host, port))
            if kind == "udp":
                doing = "ask"
                end.send(QUESTION)
                doing = "answer"
                end.recv(512)
        return "reached"
    except TimeoutError:
        return doing + ": timed out"
    except OSError as error:
        return doing + ": " + errno.errorcode.get(error.errno, str(error))
"""
# Whether a place can be reached, told once five tries in a row agree: policies take some seconds to hold a new pod.
# All places at once, for each try at one that is held back takes two seconds.
REACHES = f"""{TRIED}
import concurrent.futures, json, sys, time
def reaches(place, expected):
    deadline, streak = time.monotonic() + seconds, 0
    while time.monotonic() < deadline and streak < 5:
        streak = streak + 1 if (tried(*place) == "reached") is expected else 0
        time.sleep(0.3)
    return expected if streak == 5 else not expected
places, expected, seconds = json.loads(sys.argv[1])
with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
    print(json.dumps(list(pool.map(reaches, places, expected))))
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


def contained(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod with what the sandbox's namespace asks of it besides."""
    pod["spec"] |= {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"]}}
    pod["spec"]["securityContext"] |= {"runAsUser": 65532, "runAsGroup": 65532}
    pod["spec"]["volumes"] = [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}]
    pod["spec"]["containers"][0]["resources"]["limits"]["ephemeral-storage"] = "16Mi"
    return pod


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
    places: Sequence[tuple[str, int] | Place],
    *,
    expected: bool | Sequence[bool],
    labels: dict[str, str] | None = None,
) -> list[bool]:
    """Of each place, whether a pod with these labels reaches it; what is `expected` must last to be believed."""
    ended = run_python(cluster, namespace, image, REACHES, asked_of(places, expected), labels=labels)
    assert ended.code == 0, ended.printed
    reached: list[bool] = json.loads(ended.printed)
    return reached


def what_a_pod_reaches(
    cluster: Cluster, namespace: str, pod: str, places: Sequence[tuple[str, int] | Place], *, expected: bool
) -> list[bool]:
    """The same from within a pod that is there, whose image has Python."""
    command = ["exec", "-n", namespace, pod, "--", "python", "-c", REACHES, asked_of(places, expected)]
    reached: list[bool] = json.loads(cluster.kubectl(*command))
    return reached


def asked_of(places: Sequence[tuple[str, int] | Place], expected: bool | Sequence[bool], seconds: float = 30) -> str:
    """The argument of REACHES; a place that does not say how it is tried is tried by TCP."""
    whole = [place if len(place) == 3 else (*place, TCP) for place in places]
    return json.dumps([whole, [expected] * len(places) if isinstance(expected, bool) else list(expected), seconds])
