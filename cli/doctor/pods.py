"""Probe pods: what they look like, and that none outlives the doctor."""

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cli.cluster import Cluster, Forbidden, Object
from cli.doctor.seen import IMAGE_REASONS
from components.shared.errors import InfraError

DOCTOR_LABEL = "grpo-code/doctor"
PROGRAM = Path(__file__).with_name("inside.py")
POLL_SECONDS = 0.4
GRACE_SECONDS = 5  # to remove the object from the bucket
OLDEST_SECONDS = 120  # a probe pod older than this belongs to a doctor that was killed
USER_ID = 65532
UNFINISHED = "not done in time"  # how the trouble of a probe begins that was given up


Order = tuple[str, dict[str, Any]]  # a check of inside.py, and its arguments


@dataclass(frozen=True)
class Probe:
    """One probe pod.

    orders: what inside.py is to do, in order; memory: its limit, as Kubernetes writes it; names: whether it has a name
    server to ask.
    """

    name: str
    namespace: str
    image: str
    orders: list[Order]
    labels: dict[str, str] = field(default_factory=dict)
    env: list[Object] = field(default_factory=list)
    service_account: str = ""
    pull_secrets: tuple[str, ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: list[Object] = field(default_factory=list)
    runtime_class: str = ""
    names: bool = True


@dataclass(frozen=True)
class Outcome:
    """How a probe ended. found: what its program printed, by check; trouble: why it printed nothing, else empty."""

    found: dict[str, Any]
    trouble: str = ""
    pod: Object = field(default_factory=dict)


def secret_env(variable: str, secret: str, key: str) -> Object:
    """A variable from a Secret that need not exist."""
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key, "optional": True}}}


def _container(probe: Probe, program: str) -> Object:
    return {
        "name": "main",
        "image": probe.image,
        "command": ["python", "-c", program, json.dumps(probe.orders)],
        "env": probe.env,
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi", "ephemeral-storage": "16Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi", "ephemeral-storage": "64Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def pod_of(probe: Probe, program: str) -> Object:
    """The pod, admissible in a namespace that enforces PodSecurity *restricted* and the sandbox's admission policy."""
    spec: Object = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": OLDEST_SECONDS // 2,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(probe, program)],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
        "nodeSelector": probe.node_selector,
        "tolerations": probe.tolerations,
    }
    if probe.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in probe.pull_secrets]
    if probe.runtime_class:
        spec["runtimeClassName"] = probe.runtime_class
    if not probe.names:
        spec |= {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"]}}
    if probe.service_account:
        spec["serviceAccountName"] = probe.service_account
    labels = {DOCTOR_LABEL: "true", "sidecar.istio.io/inject": "false", **probe.labels}
    name = f"grpo-code-doctor-{probe.name}-{secrets.token_hex(3)}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": probe.namespace, "labels": labels},
        "spec": spec,
    }


class ProbePods:
    """The pods of one doctor; `run` may be called from several threads, and leaving the context deletes every pod."""

    def __init__(self, cluster: Cluster, deadline: float) -> None:
        """deadline: on time.monotonic(), by which every probe has ended or is given up."""
        self.cluster, self.deadline = cluster, deadline
        self.program = PROGRAM.read_text(encoding="utf-8")
        self.lock, self.made, self.closed = threading.Lock(), dict[tuple[str, str], bool](), False

    @contextlib.contextmanager
    def present(self) -> Iterator["ProbePods"]:
        """For the time in which probes may run."""
        try:
            yield self
        finally:
            self.close()

    def close(self) -> None:
        """Delete all pods that were made, and make no more."""
        with self.lock:
            self.closed = True
            left = [key for key, there in self.made.items() if there]
        for namespace, name in left:
            self._delete(namespace, name)

    def sweep(self, namespaces: list[str]) -> int:
        """Delete what a doctor that was killed has left behind; returns how many pods that were."""
        removed, found = 0, list[tuple[str, Object]]()
        for namespace in namespaces:
            with contextlib.suppress(Forbidden):  # who may not look there has left nothing there
                pods = self.cluster.list("pods", namespace=namespace, labelSelector=DOCTOR_LABEL)
                found += [(namespace, pod) for pod in pods]
        for namespace, pod in found:
            if _age_seconds(pod) > OLDEST_SECONDS:
                self.cluster.delete("pods", pod["metadata"]["name"], namespace=namespace)
                removed += 1
        return removed

    def run(self, probe: Probe) -> Outcome:
        """Create the pod, wait for its end, read what it printed, delete it."""
        body = pod_of(probe, self.program)
        namespace, name = probe.namespace, body["metadata"]["name"]
        with self.lock:  # held while it is created: whoever closes knows of every pod
            if self.closed:
                return Outcome({}, "the doctor was stopped")
            self.made[namespace, name] = True
            try:
                self.cluster.create("pods", body, namespace=namespace)
            except InfraError as error:
                self.made[namespace, name] = False
                return Outcome({}, str(error).rstrip("."))
        try:
            return self._watched(namespace, name)
        finally:
            self._delete(namespace, name)

    def _watched(self, namespace: str, name: str) -> Outcome:
        pod: Object = {}
        while time.monotonic() < self.deadline and not self.closed:
            pod = self.cluster.get("pods", name, namespace=namespace) or {}
            if not pod:
                return Outcome({}, "the probe pod was deleted by somebody else")
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                return self._ended(namespace, name, pod)
            reason, message = waiting_for(pod)
            if reason in IMAGE_REASONS:
                return Outcome({}, f"{reason}: {message}", pod)
            time.sleep(POLL_SECONDS)
        reason, message = waiting_for(pod)
        found: dict[str, Any] = {}
        with contextlib.suppress(InfraError):  # what it had found by then counts; one that never started has no log
            found, _ = parse(self.cluster.log(name, namespace=namespace) or "")
        return Outcome(found, f"{UNFINISHED}; last seen {reason or 'running'} {message}".strip(), pod)

    def _ended(self, namespace: str, name: str, pod: Object) -> Outcome:
        text = self.cluster.log(name, namespace=namespace) or ""
        found, rest = parse(text)
        code = 0
        for status in pod["status"].get("containerStatuses") or []:
            code = (status.get("state", {}).get("terminated") or {}).get("exitCode", 0)
        if code == 0 and pod["status"]["phase"] == "Succeeded":
            return Outcome(found, "", pod)
        why = pod["status"].get("reason") or (rest[-1] if rest else f"exit code {code}")
        return Outcome(found, f"the probe failed: {why}", pod)

    def _delete(self, namespace: str, name: str) -> None:
        with self.lock:
            if not self.made.get((namespace, name)):
                return
        with contextlib.suppress(InfraError):
            self.cluster.delete("pods", name, namespace=namespace, grace_seconds=GRACE_SECONDS)
            with self.lock:
                self.made[namespace, name] = False


def parse(text: str) -> tuple[dict[str, Any], list[str]]:
    """What a probe printed: its findings by check, and the lines that are none."""
    found: dict[str, Any] = {}
    rest = []
    for line in text.splitlines():
        try:
            told = json.loads(line)
            found[told["check"]] = told["found"]
        except (ValueError, TypeError, KeyError):
            rest.append(line)
    return found, rest


def waiting_for(pod: Object) -> tuple[str, str]:
    """What keeps a pod from running, as Kubernetes puts it: (reason, message), both empty when nothing does."""
    status = pod.get("status") or {}
    for each in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = (each.get("state") or {}).get("waiting")
        if waiting:
            return waiting.get("reason", ""), waiting.get("message", "")
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return condition.get("reason", ""), condition.get("message", "")
    return "", ""


def _age_seconds(pod: Object) -> float:
    made = datetime.fromisoformat(pod["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
    return (datetime.now(UTC) - made).total_seconds()
