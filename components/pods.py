"""How a step becomes a pod: resources, secrets, labels, volumes, retries and deadlines, in one place for all steps.

What Kubeflow Pipelines can take from a run's parameters (resources, node selector, tolerations, names of Secrets) is
taken from there. The rest is fixed when the pipeline is compiled: `Pods`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.shared.mirror import CACHE_VARIABLE
from components.shared.run import IMAGE_VARIABLE, POD_RUN_VARIABLE
from components.shared.sandbox import TOKEN_VARIABLE
from components.shared.store import S3_SETTINGS, STORE_VARIABLE

SANDBOX_CLIENT, HUB_CLIENT = "grpo-code/sandbox-client", "grpo-code/hub-client"  # what network policies select
KUEUE_QUEUE, KUEUE_PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
RUN_LABEL = "pipeline/runid"
STEP_LABEL = "app.kubernetes.io/component"
PART_OF_LABEL = "app.kubernetes.io/part-of"
OWN_LABELS = ("grpo-code/", "pipeline/", "pipelines.kubeflow.org/", "workflows.argoproj.io/")
MAIN = "main"  # the container that holds a step
STORE_KEYS = (*S3_SETTINGS, "S3_SECURE", STORE_VARIABLE)
SCRATCH, MODEL_CACHE = "/scratch", "/model-cache"
FIRST_PAUSE = 15  # seconds before a lost pod is started again, twice as long each time; a failed one waits as long


@dataclass(frozen=True)
class Needs:
    """What a step needs. size: whose cpu and memory parameters it goes by. hours: after that its pod is ended."""

    size: str
    hours: float
    gpu: bool = False
    judges: bool = False
    hub: bool = False
    scratch: bool = False


STEPS: dict[str, Needs] = {
    "check": Needs("prepare", 1, judges=True, hub=True),
    "fetch_model": Needs("prepare", 12, hub=True, scratch=True),
    "prepare": Needs("prepare", 6, judges=True, hub=True),
    "filter": Needs("filter", 24, gpu=True, judges=True, scratch=True),
    "train": Needs("train", 168, gpu=True, judges=True, scratch=True),
    "evaluate": Needs("evaluate", 24, gpu=True, judges=True, scratch=True),
    "publish": Needs("evaluate", 24, gpu=True, judges=True, scratch=True),
    "reused": Needs("prepare", 1),
    "unchanged": Needs("prepare", 1),
    "finish": Needs("prepare", 1),
}
# Parameters that only pods have a use for; train and evaluate get theirs by way of the pipeline that holds both.
PLACEMENT: dict[str, Any] = {
    "gpu_resource": str,
    "gpus": str,
    **{f"{step}_{kind}": str for step in ("prepare", "filter", "train", "evaluate") for kind in ("cpu", "memory")},
    "node_selector": dict,
    "tolerations": list,
    "hf_secret": str,
    "store_secret": str,
    "sandbox_secret": str,
}


@dataclass(frozen=True)
class Pods:
    """What is fixed at compile. hours: deadlines other than those of STEPS. images: step -> image, else by name."""

    images: Mapping[str, str] = field(default_factory=dict)
    hours: Mapping[str, float] = field(default_factory=dict)
    retries: int = 3
    shm_size: str = "8Gi"
    scratch_size: str = ""
    model_cache_claim: str = ""
    queue: str = ""
    priority: str = ""
    pull_secrets: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


def place(task: Any, step: str, given: Mapping[str, Any], pods: Pods | None) -> Any:
    """Give a step's task its pod; without `pods`, on one machine, the task stays as it is. Returns the task."""
    if pods is None:
        return task
    needs = STEPS[step]
    if step in pods.images:
        task.set_container_image(pods.images[step])
    task.set_env_variable(IMAGE_VARIABLE, task.container_spec.image)
    _resources(task, needs, given)
    _secrets(task, needs, given, pods)
    _labels(task, step, needs, pods)
    _volumes(task, needs, pods)
    _lifetime(task, step, needs, pods)
    return task


def _resources(task: Any, needs: Needs, given: Mapping[str, Any]) -> None:
    """No limit on CPU: torch counts the node's cores, and would be throttled rather than use fewer.

    kfp hands these parameters down into a condition only if they are registered as the task's; else its driver fails.
    """
    from kfp import kubernetes
    from kfp.dsl.pipeline_channel import PipelineChannel

    names = [f"{needs.size}_cpu", f"{needs.size}_memory", *(("gpu_resource", "gpus") if needs.gpu else ())]
    cpu, memory, *gpu = values = [given[name] for name in names]
    task.register_pipeline_channels([value for value in values if isinstance(value, PipelineChannel)])
    task.set_cpu_request(cpu).set_memory_request(memory).set_memory_limit(memory)
    if gpu:
        resource, number = gpu
        task.set_accelerator_type(resource).set_accelerator_limit(number)
        kubernetes.add_node_selector_json(task, given["node_selector"])
        kubernetes.add_toleration_json(task, given["tolerations"])


def _secrets(task: Any, needs: Needs, given: Mapping[str, Any], pods: Pods) -> None:
    """All optional: a pod whose Secret is missing would hang without a word, where check says which one it is."""
    from kfp import kubernetes

    kubernetes.use_secret_as_env(task, given["store_secret"], {key: key for key in STORE_KEYS}, optional=True)
    if needs.judges:
        kubernetes.use_secret_as_env(task, given["sandbox_secret"], {"TOKEN": TOKEN_VARIABLE}, optional=True)
    if needs.hub:
        kubernetes.use_secret_as_env(task, given["hf_secret"], {"HF_TOKEN": "HF_TOKEN"}, optional=True)
    else:
        task.set_env_variable("HF_HUB_OFFLINE", "1")  # its model comes from the store
    kubernetes.use_field_path_as_env(task, POD_RUN_VARIABLE, f"metadata.labels['{RUN_LABEL}']")
    if pods.pull_secrets:
        kubernetes.set_image_pull_secrets(task, list(pods.pull_secrets))


def labels_of(step: str) -> dict[str, str]:
    """What network policies and people know a step's pod by."""
    labels = {PART_OF_LABEL: "grpo-code", STEP_LABEL: step}
    if STEPS[step].judges:
        labels[SANDBOX_CLIENT] = "true"
    if STEPS[step].hub:
        labels[HUB_CLIENT] = "true"
    return labels


def is_own_label(key: str) -> bool:
    """Whether a label is the pipeline's, KFP's or Argo's own, or has an option, so that a user's may not replace it."""
    return key in (PART_OF_LABEL, STEP_LABEL, KUEUE_QUEUE, KUEUE_PRIORITY) or key.startswith(OWN_LABELS)


def _labels(task: Any, step: str, needs: Needs, pods: Pods) -> None:
    from kfp import kubernetes

    labels = {**pods.labels, **labels_of(step)}
    if needs.gpu and pods.queue:
        labels[KUEUE_QUEUE] = pods.queue
    if needs.gpu and pods.priority:
        labels[KUEUE_PRIORITY] = pods.priority
    for key, value in labels.items():
        kubernetes.add_pod_label(task, key, value)


def _volumes(task: Any, needs: Needs, pods: Pods) -> None:
    from kfp import kubernetes

    if needs.scratch:
        kubernetes.empty_dir_mount(task, "scratch", SCRATCH, size_limit=pods.scratch_size or None)
        task.set_env_variable("TMPDIR", SCRATCH)
    if needs.gpu:
        # torch hands tensors to its workers through /dev/shm, of which a container has 64 MB; counts as its memory.
        kubernetes.empty_dir_mount(task, "shm", "/dev/shm", medium="Memory", size_limit=pods.shm_size)
        if pods.model_cache_claim:
            kubernetes.mount_pvc(task, pods.model_cache_claim, MODEL_CACHE)
            task.set_env_variable(CACHE_VARIABLE, MODEL_CACHE)


def _lifetime(task: Any, step: str, needs: Needs, pods: Pods) -> None:
    """The time in which a lost pod is started again counts from its first start: it must outlast all attempts."""
    from kfp import kubernetes

    seconds = round(3600 * pods.hours.get(step, needs.hours))
    kubernetes.set_timeout(task, seconds)
    if pods.retries:
        longest = (pods.retries + 1) * seconds + FIRST_PAUSE * 2**pods.retries
        task.set_retry(pods.retries, f"{FIRST_PAUSE}s", 2.0, f"{longest}s")
