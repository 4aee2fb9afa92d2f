"""A step of the compiled pipeline as the pod that Kubeflow Pipelines 2.17 would make of it.

Everything of the step's own (image, command, arguments, resources, labels, Secrets, variables, volumes, deadline) is
taken from the compiled file as it stands; what KFP adds to every pod (its launcher's init container and folders, the
hardening, its labels) is added likewise, with launcher.py in place of the launcher, and as Argo does a container beside
the step's, which ends after it. What Argo's own reports from there, the tests ask of the API server.
"""

import contextlib
import json
import secrets
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from cli.uploading import DEMO_PODS
from components.pods import MAIN, RUN_LABEL
from tests.cluster.cluster import ROOT, eventually
from tests.cluster.compiled import Results, Step, StepFailed, read_results
from tests.cluster.ground import BUCKET, Ground

Object = dict[str, Any]
HOME = "/kfp-launcher"
PROGRAM = Path(__file__).with_name("launcher.py")
WAIT, ARGO = "wait", "/var/run/argo"
AT_WORK = f"{ARGO}/{MAIN}"
OWN_FOLDERS = {"s3-scratch": "/s3", "dot-local-scratch": "/.local", "dot-cache-scratch": "/.cache"}
OWN_FOLDERS |= {"dot-config-scratch": "/.config", "minio-scratch": "/minio", "gcs-scratch": "/gcs"}
# KFP 2.17's for every container of a step; runAsNonRoot for its own init container alone.
HARDENED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
SETTINGS = {  # what the step's Kubernetes settings may hold; all of it is used
    "activeDeadlineSeconds",
    "emptyDirMounts",
    "fieldPathAsEnv",
    "nodeSelector",
    "podMetadata",
    "secretAsEnv",
    "tolerations",
}
SECONDS_FOR_A_STEP = 600.0


def resources(step: Step) -> Object:
    """Requests and limits, the run's parameters in them."""
    given = dict(step.container["resources"])
    asked: Object = {"requests": {}, "limits": {}}
    for name, (part, resource) in {
        "resourceCpuRequest": ("requests", "cpu"),
        "resourceMemoryRequest": ("requests", "memory"),
        "resourceMemoryLimit": ("limits", "memory"),
    }.items():
        asked[part][resource] = step.text(given.pop(name))
    accelerator = given.pop("accelerator", None)
    if accelerator:
        asked["limits"][step.text(accelerator["resourceType"])] = step.text(accelerator["resourceCount"])
    assert not given, given
    return asked


def secret_names(step: Step) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for one in step.kubernetes.get("secretAsEnv", ()):
        yield step.setting(one["secretNameParameter"]), one


def variables(step: Step) -> list[Object]:
    """The container's variables: plain ones, those from Secrets, and those from the pod's own fields."""
    found: list[Object] = [dict(one) for one in step.container.get("env", ())]
    for name, one in secret_names(step):
        for pair in one["keyToEnv"]:
            reference = {"name": name, "key": pair["secretKey"], "optional": one["optional"]}
            found.append({"name": pair["envVar"], "valueFrom": {"secretKeyRef": reference}})
    fields = step.kubernetes.get("fieldPathAsEnv", ())
    return found + [{"name": one["name"], "valueFrom": {"fieldRef": {"fieldPath": one["fieldPath"]}}} for one in fields]


def volumes(step: Step) -> list[Object]:
    """The step's own volumes, each with the path at which it is mounted."""
    found = []
    for one in step.kubernetes.get("emptyDirMounts", ()):
        how = {new: one[old] for old, new in (("medium", "medium"), ("sizeLimit", "sizeLimit")) if old in one}
        found.append({"path": one["mountPath"], "volume": {"name": one["volumeName"], "emptyDir": how}})
    return found


def main_container(step: Step, folder: str) -> Object:
    """The step's own container: its command, with the launcher's in front."""
    launch = ["python", f"{HOME}/launch", "--executor_input", json.dumps(step.executor_input(folder))]
    own = {each["volume"]["name"]: each["path"] for each in volumes(step)}
    paths = {"kfp-launcher": HOME, "var-run-argo": ARGO, **OWN_FOLDERS, **own}
    return {
        "name": MAIN,
        "image": step.container["image"],
        "command": [*launch, "--results", f"{folder}/results.json", "--at-work", AT_WORK, "--"],
        "args": [*step.container["command"], *step.container["args"]],
        "env": variables(step),
        "resources": resources(step),
        "securityContext": HARDENED,
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in paths.items()],
    }


def init_container(step: Step) -> Object:
    """What puts the launcher where the step's container finds it, and the FIFO where both containers do."""
    paths = {"kfp-launcher": HOME, "var-run-argo": ARGO, "stand-in": "/stand-in"}
    return {
        "name": "kfp-launcher",
        "image": step.container["image"],
        "command": ["sh", "-c", f"cp /stand-in/{PROGRAM.name} {HOME}/launch && mkfifo {AT_WORK}"],
        "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "256Mi"}},
        "securityContext": {**HARDENED, "runAsNonRoot": True},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in paths.items()],
    }


def wait_container(step: Step) -> Object:
    """What ends when the step's container has, whatever its end, with the amounts that KFP gives to Argo's."""
    return {
        "name": WAIT,
        "image": step.container["image"],
        "command": ["cat", AT_WORK],  # the kernel tells it of the end of the only writer
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}},
        "securityContext": {**HARDENED, "runAsNonRoot": True},
        "volumeMounts": [{"name": "var-run-argo", "mountPath": ARGO}],
    }


def main_of(pod: Object) -> Object:
    """The step's own container of a pod."""
    (found,) = [each for each in pod["spec"]["containers"] if each["name"] == MAIN]
    return found  # itself, to be changed


def make_pod(step: Step, name: str, run_id: str, folder: str) -> Object:
    """The pod. folder: s3:// address below which the step's artifacts go."""
    settings = step.kubernetes
    assert set(settings) <= SETTINGS, set(settings) - SETTINGS
    spec = {
        "restartPolicy": "Never",
        "serviceAccountName": "grpo-code-runner",
        "activeDeadlineSeconds": int(settings["activeDeadlineSeconds"]),
        "securityContext": {"seccompProfile": HARDENED["seccompProfile"]},
        "initContainers": [init_container(step)],
        "containers": [wait_container(step), main_container(step, folder)],
        "volumes": [
            {"name": "stand-in", "configMap": {"name": "stand-in"}},
            *({"name": each, "emptyDir": {}} for each in ("kfp-launcher", "var-run-argo", *OWN_FOLDERS)),
            *(each["volume"] for each in volumes(step)),
        ],
    }
    if "nodeSelector" in settings:
        spec["nodeSelector"] = step.setting(settings["nodeSelector"]["nodeSelectorJson"])
    if "tolerations" in settings:
        spec["tolerations"] = [each for one in settings["tolerations"] for each in step.setting(one["tolerationJson"])]
    labels = {**settings["podMetadata"]["labels"], RUN_LABEL: run_id, "pipelines.kubeflow.org/v2_component": "true"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def demo_in_pods(ground: Ground, changes: Mapping[str, Any]) -> Object:
    """The arguments of a run of the demo, with a GPU for each step that may have one."""
    demo = f"s3://{BUCKET}/demo"
    places = {"model_name": f"{demo}/model", "dataset": f"{demo}/problems", "sandbox_url": ground.sandbox_url()}
    given = tomllib.loads((ROOT / "demo/parameters.toml").read_text())
    return {**given, **DEMO_PODS, "gpus": "1", **places, **changes}


def stand_in(namespace: str) -> Object:
    """The ConfigMap with the launcher's program."""
    metadata = {"name": "stand-in", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {PROGRAM.name: PROGRAM.read_text()}}


@dataclass
class Running:
    """A run whose steps are pods, one after the other. seen: the pods as the API server had them, with their steps."""

    ground: Ground
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    seen: list[tuple[Step, Object]] = field(default_factory=list)

    @property
    def api(self) -> client.CoreV1Api:
        return client.CoreV1Api(self.ground.cluster.api)

    def start(self, step: Step, **limits: str) -> "StepPod":
        """Make a step's pod. limits: of its own container's resources, beside those that the file has."""
        folder = f"s3://{BUCKET}/v2/artifacts/{self.run_id}/{step.name}/{uuid.uuid4()}"
        name = f"{step.name}-{self.run_id[:8]}-{secrets.token_hex(2)}"
        pod = make_pod(step, name, self.run_id, folder)
        main_of(pod)["resources"]["limits"] |= limits
        made = self.api.create_namespaced_pod(self.ground.pipeline, pod)
        self.seen.append((step, self.ground.cluster.api.sanitize_for_serialization(made)))
        return StepPod(self, step, name, folder)

    def run(self, step: Step) -> Results:
        """Run a step's pod to its end, and take it away."""
        pod = self.start(step)
        try:
            return pod.results()
        finally:
            pod.remove()


@dataclass(frozen=True)
class StepPod:
    """The pod of a step, as long as it is there."""

    running: Running
    step: Step
    name: str
    folder: str

    @property
    def namespace(self) -> str:
        return self.running.ground.pipeline

    def status(self) -> Object | None:
        """The pod's status; None when there is no such pod any more."""
        try:
            found = self.running.api.read_namespaced_pod(self.name, self.namespace)
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return dict(self.running.ground.cluster.api.sanitize_for_serialization(found)["status"])

    def phase(self) -> str:
        return (self.status() or {"phase": "Gone"})["phase"]

    def ended(self, seconds: float = SECONDS_FOR_A_STEP) -> Object:
        """The pod's status once it has ended; empty when it was deleted."""

        def over() -> Object | None:
            status = self.status()
            if status is None:
                return {"phase": "Gone"}
            return status if status["phase"] in ("Succeeded", "Failed") else None

        return dict(eventually(over, f"the end of {self.name}", seconds))

    def log(self) -> str:
        """What it has printed so far; what the API server says instead while there is nothing to read."""
        options = {"container": MAIN, "_preload_content": False}
        try:
            found = self.running.api.read_namespaced_pod_log(self.name, self.namespace, **options)
        except ApiException as error:
            return str(error)
        return bytes(found.data).decode(errors="replace")

    def results(self) -> Results:
        """What the step hands on; StepFailed with the end of its log when it did not succeed."""
        status = self.ended()
        if status["phase"] != "Succeeded":
            raise StepFailed(f"{self.name}: {json.dumps(status)[:1500]}\n{self.log()[-3000:]}")
        key = f"{self.folder}/results.json".removeprefix(f"s3://{BUCKET}/")
        with self.running.ground.client() as store:
            return read_results(store.get_object(BUCKET, key).read().decode())

    def remove(self) -> None:
        """Delete the pod, at once."""
        with contextlib.suppress(ApiException):
            self.running.api.delete_namespaced_pod(self.name, self.namespace, grace_period_seconds=0)
