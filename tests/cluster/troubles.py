"""Pods of a run that get into each kind of trouble, and how to tell that they are in it.

The tests provoke every one of them on a cluster; `python -m tests.cluster.record` writes what the API server says of
them to tests/cli/doctor/recorded, where the diagnosis is tried without a cluster.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
RUN = "2f8b6a34-51c7-4f4e-9d0a-8a4d6c9e7b10"
HOLLOW = "grpo-code/hollow-node"  # the label of a node on which nothing runs, with its name
FINALIZER = "grpo-code/kept-by-a-test"  # Argo keeps its pods in the same way until it has read their end
MEBIBYTES = "b = bytearray(1)\nwhile True: b += bytes(1 << 20)"


REGISTRY = "registry.example"  # stands for the cluster's own


@dataclass(frozen=True)
class Case:
    """One trouble. changes: to the pod's spec; container: to its main container; said: words of the diagnosis."""

    name: str
    reached: Callable[[Object], bool]
    said: tuple[str, ...]
    changes: Object = field(default_factory=dict)
    container: Object = field(default_factory=dict)
    metadata: Object = field(default_factory=dict)
    hollow: bool = False  # needs the hollow node

    def pod(self, image: str) -> Object:
        """The pod, as KFP would label it."""
        labels = {"pipeline/runid": RUN, "app.kubernetes.io/component": "train", "grpo-code/case": self.name}
        main = {
            "name": "main",
            "image": image,
            "command": ["python", "-c", "import time; time.sleep(600)"],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            **self.container,
        }
        main["image"] = main["image"].replace(REGISTRY, image.rpartition("/")[0])
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"run-{self.name}", "labels": labels, **self.metadata},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [main],
                **self.changes,
            },
        }


def unschedulable(pod: Object) -> bool:
    return any(
        each["type"] == "PodScheduled" and each["status"] == "False" for each in pod["status"].get("conditions", [])
    )


def waiting(*reasons: str) -> Callable[[Object], bool]:
    def reached(pod: Object) -> bool:
        states = [each["state"].get("waiting", {}) for each in pod["status"].get("containerStatuses", [])]
        return any(state.get("reason") in reasons for state in states)

    return reached


def phase(wanted: str) -> Callable[[Object], bool]:
    return lambda pod: pod["status"]["phase"] == wanted


def disrupted(pod: Object) -> bool:
    return any(each["type"] == "DisruptionTarget" for each in pod["status"].get("conditions", []))


def asks(**amounts: str) -> Object:
    """A container that asks for these amounts: gpu, cpu, memory."""
    names = {"gpu": "nvidia.com/gpu"}
    whole = {names.get(name, name): amount for name, amount in amounts.items()}
    return {"resources": {"requests": whole, "limits": whole}}


def runs(program: str, **more: Any) -> Object:
    return {"command": ["python", "-c", program], **more}


def secret_env(secret: str, key: str) -> Object:
    return {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}]}


TERM = {"matchExpressions": [{"key": "accelerator", "operator": "In", "values": ["unheard-of"]}]}
UNHEARD_OF = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}

CASES = (
    Case("no-gpu", unschedulable, ("waits for 64 nvidia.com/gpu", "--gpus"), container=asks(gpu="64")),
    Case("no-cpu", unschedulable, ("waits for 4k cpu", "--train-cpu"), container=asks(cpu="4k", memory="16Mi")),
    Case("no-memory", unschedulable, ("waits for 64Ti memory", "--train-memory"), container=asks(memory="64Ti")),
    Case(
        "selector",
        unschedulable,
        ("no node has the labels accelerator=unheard-of", "--node-selector"),
        {"nodeSelector": {"accelerator": "unheard-of"}},
    ),
    Case(
        "image",
        waiting("ErrImagePull", "ImagePullBackOff"),
        ("never-pushed:1 cannot be pulled", "make images push"),
        container={"image": f"{REGISTRY}/grpo-code/never-pushed:1"},
    ),
    Case(
        "secret",
        waiting("CreateContainerConfigError"),
        ("the Secret no-such-secret does not exist", "kubectl create secret generic no-such-secret"),
        container=secret_env("no-such-secret", "KEY"),
    ),
    Case(
        "secret-key",
        waiting("CreateContainerConfigError"),
        ("the Secret half-a-secret", "has no key MISSING", "kubectl edit secret half-a-secret"),
        container=secret_env("half-a-secret", "MISSING"),
    ),
    Case(
        "mount",
        lambda pod: False,  # told by an event
        ("cannot start", 'secret "no-such-volume" not found'),
        {"volumes": [{"name": "v", "secret": {"secretName": "no-such-volume"}}]},
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    ),
    Case(
        "out-of-memory",
        phase("Failed"),
        ("more than its memory limit of 64Mi (OOMKilled)", "--train-memory", "--resume " + RUN),
        container=runs(MEBIBYTES),
    ),
    Case(
        "evicted",
        phase("Failed"),
        ("evicted: Usage of EmptyDir volume", "more disk", "--resume " + RUN),
        {"volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Mi"}}]},
        runs(
            "import time; open('/tmp/x', 'wb').write(bytes(8 << 20)); time.sleep(600)",
            volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}],
        ),
    ),
    Case(
        "deadline",
        phase("Failed"),
        ("stopped after its time limit of 3 s", "--resume " + RUN),
        {"activeDeadlineSeconds": 3},
    ),
    Case(
        "drained",
        disrupted,
        ("evicted on request", "--resume " + RUN),
        metadata={"finalizers": [FINALIZER]},
    ),
    Case(
        "own-words",
        phase("Failed"),
        ("train: The model x has no tokenizer: add one", "--resume " + RUN),
        container=runs(
            "import sys; print('train: The model x has no tokenizer: add one.', file=sys.stderr); sys.exit(2)"
        ),
    ),
    Case(
        "defect", phase("Failed"), ("train: ZeroDivisionError: division by zero", "--resume"), container=runs("1 / 0")
    ),
    Case(
        "killed",
        phase("Failed"),
        ("killed from outside (SIGKILL)", "kubectl logs run-killed", "--resume " + RUN),
        container=runs("import os; os.kill(os.getpid(), 9); os._exit(137)"),
    ),
    Case(
        "stopped",
        phase("Failed"),
        ("stopped from outside (SIGTERM), as when it is deleted", "kubectl logs run-stopped", "--resume " + RUN),
        container=runs("import sys; sys.exit(143)"),
    ),
    Case(
        "wordless",
        phase("Failed"),
        ("ended with exit code 3 and no word of its own", "kubectl logs run-wordless", "--resume " + RUN),
        container=runs("import sys; sys.exit(3)"),
    ),
    Case(
        "as-root",
        waiting("CreateContainerConfigError"),
        ("CreateContainerConfigError: container has runAsNonRoot and image will run as root", "kubectl describe pod"),
        {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}},
    ),
    Case(
        "queued",
        unschedulable,
        ("train: held in a queue that has not admitted it", "kubectl get workloads"),
        {"schedulingGates": [{"name": "example.com/queue"}]},
    ),
    Case(
        "affinity",
        unschedulable,
        ("no node takes it: ", "didn't match Pod's node affinity", "kubectl describe nodes"),
        {"affinity": {"nodeAffinity": UNHEARD_OF}, "tolerations": [{"operator": "Exists"}]},
    ),
    Case(
        "taint",
        unschedulable,
        (
            "node hollow has dedicated=others:NoSchedule, which it does not tolerate",
            '--tolerations \'[{"key": "dedicated"',
        ),
        {"nodeSelector": {HOLLOW: "hollow"}},
        hollow=True,
    ),
    Case(
        "node-lost",
        disrupted,
        ("its node hollow was lost", "kubectl get node hollow", "--resume " + RUN),
        {
            "nodeSelector": {HOLLOW: "hollow"},
            "tolerations": [
                {"key": "dedicated", "operator": "Exists"},
                {
                    "key": "node.kubernetes.io/unreachable",
                    "effect": "NoExecute",
                    "operator": "Exists",
                    "tolerationSeconds": 0,
                },
            ],
        },
        metadata={"finalizers": [FINALIZER]},
        hollow=True,
    ),
    Case(
        "fine",
        phase("Running"),
        ("is under way: train",),
        container=runs("import time; print('train: at work', flush=True); time.sleep(600)"),
    ),
)
