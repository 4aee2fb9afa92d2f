"""Runs that get into trouble on a real Kubeflow Pipelines: small pipelines whose one step has the pod of `train`.

Each step is placed by components/pods.py, as the product's own are: labels, retries, Secrets, limits. What the doctor
must say of a run stands beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kfp import dsl

from cli.parameters import merged
from components.pods import Pods, place

IMAGE = "registry.example/prepare:1"  # of the components as they are defined; replaced by the one that was pushed
REGISTRY = "registry.example"  # stands for the cluster's own
QUOTA, NPU = "doctor-test", "example.com/npu"  # a quota that forbids this resource
REFUSED = {"doctor-test": "refused"}  # a label with which no pod is let in
SECRETS = {"sandbox_secret": "doctor-test-sandbox", "store_secret": "doctor-test-store"}
SMALL = {"train_cpu": "10m", "train_memory": "256Mi", "gpus": "0", **SECRETS}
FAILED = "python pipeline.py run --resume {run}"


def component(body: Callable[..., Any]) -> Any:
    """A component of the name `train`, whatever the function's."""
    made = dsl.component(body, base_image=IMAGE, install_kfp_package=False)
    made.name = made.component_spec.name = "train"
    return made


@component
def train_speaks() -> None:
    from components.shared.errors import UserError, reported

    with reported("train"):
        raise UserError("The model x has no tokenizer: add one.")


@component
def train_sleeps() -> None:
    import time

    print("train: step 1/60", flush=True)
    time.sleep(600)


@component
def train_fills_memory() -> None:
    print("train: step 1/60", flush=True)
    held = bytearray(1)
    while True:
        held += bytes(1 << 20)


@component
def train_is_killed() -> None:
    import os

    os.kill(os.getpid(), 9)


@component
def train_fills_the_disk() -> None:
    import time

    with open("/scratch/x", "wb") as file:
        file.write(bytes(64 << 20))
    time.sleep(600)


@component
def train_judges(sandbox_url: str, patience: float) -> None:
    import time

    from components.shared.errors import reported
    from components.shared.grading import Grader
    from components.shared.problem import Problem
    from components.shared.sandbox import SandboxClient

    fields = {"source": "test", "split": "train", "prelude": "", "setup": "", "hidden_tests": [], "reference": ""}
    problem = Problem(
        task_id="1", prompt="Add one.", entry_point="f", tests=["assert f(1) == 2"], reference_cpu_ms=None, **fields
    )
    with reported("train"):
        grader = Grader(SandboxClient(sandbox_url, retry_seconds=patience), test_timeout_s=1, infra_limit=0.02)
        while True:
            grader.grade([(problem, "def f(n):\n    return n + 1")])
            print("train: a step", flush=True)
            time.sleep(1)


@component
def train_ends() -> None:
    print("train: done", flush=True)


@dataclass(frozen=True)
class KfpCase:
    """One run. said: words of the doctor, {run} its id; befalls: it is the test that brings the trouble about."""

    name: str
    step: Any
    said: tuple[str, ...]
    given: dict[str, Any] = field(default_factory=dict)
    pods: dict[str, Any] = field(default_factory=dict)
    shaped: Callable[[Any], Any] = lambda task: task
    inputs: dict[str, Any] = field(default_factory=dict)
    image: str = ""
    befalls: bool = False

    def pipeline(self, image: str, registry: str, **inputs: Any) -> Any:
        """The pipeline, its step in this image or the case's own."""
        used = self.image.replace(REGISTRY, registry) or image
        settings = {"retries": 1, "images": {"train": used}, "scratch_size": "32Mi", "shm_size": "16Mi", **self.pods}
        given = merged({**SMALL, **self.given})

        @dsl.pipeline(name=f"doctor-test-{self.name}")
        def troubled() -> None:
            task = self.step(**{**self.inputs, **inputs}).set_caching_options(False)
            place(task, "train", given, Pods(**settings))
            self.shaped(task)

        return troubled


def missing_secret(task: Any) -> Any:
    """A Secret that must exist, which none of the product's is."""
    from kfp import kubernetes

    return kubernetes.use_secret_as_env(task, "no-such-secret", {"KEY": "X"}, optional=False)


CASES = (
    KfpCase("gpu", train_sleeps, ("train: waits for 64 nvidia.com/gpu", "--gpus with less"), given={"gpus": "64"}),
    KfpCase(
        "quota",
        train_sleeps,
        (
            f"train: its pod would exceed the quota: exceeded quota: {QUOTA}",
            "kubectl describe quota -n kubeflow",
        ),
        given={"gpu_resource": NPU, "gpus": "1"},
    ),
    KfpCase(
        "refused",
        train_sleeps,
        ("train: its pod was refused: ", "ValidatingAdmissionPolicy 'doctor-test'", "kubectl get events"),
        pods={"labels": REFUSED},
    ),
    KfpCase(
        "image",
        train_sleeps,
        ("train: the image", "never-pushed:1 cannot be pulled", "make images push"),
        image=f"{REGISTRY}/grpo-code/never-pushed:1",
    ),
    KfpCase(
        "secret",
        train_sleeps,
        ("train: the Secret no-such-secret does not exist in kubeflow", "kubectl create secret"),
        shaped=missing_secret,
    ),
    KfpCase(
        "memory",
        train_fills_memory,
        ("train: killed for using more than its memory limit of 256Mi (OOMKilled)", "--train-memory with more", FAILED),
    ),
    KfpCase("killed", train_is_killed, ("train: killed (SIGKILL), most likely for want of memory", FAILED)),
    KfpCase("evicted", train_fills_the_disk, ("train: evicted: Usage of EmptyDir volume", "more disk", FAILED)),
    KfpCase(
        "deadline",
        train_sleeps,
        ("train: stopped after its time limit of 36 s", FAILED),
        pods={"hours": {"train": 0.01}},
    ),
    KfpCase("speaks", train_speaks, ("train: The model x has no tokenizer: add one", FAILED)),
    KfpCase("drained", train_sleeps, (), befalls=True),
    KfpCase("stopped", train_sleeps, (), befalls=True),
    KfpCase("waits", train_judges, ("train: waits for the sandbox at",), inputs={"patience": 900.0}, befalls=True),
    KfpCase(
        "gives-up",
        train_judges,
        ("train: gave up for want of the sandbox", FAILED),
        inputs={"patience": 15.0},
        befalls=True,
    ),
    KfpCase("workflow-gone", train_sleeps, (), befalls=True),
)
ENDS = KfpCase("ends", train_ends, ())
