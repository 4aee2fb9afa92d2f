"""What each step's pod gets, read from the compiled file as Kubeflow Pipelines reads it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.compiling import Fixed, write_pipeline
from components.pods import HUB_CLIENT, KUEUE_PRIORITY, KUEUE_QUEUE, SANDBOX_CLIENT, STEPS, Pods

TASKS = {
    "check": "check",
    "fetch_model": "fetch-model",
    "prepare": "prepare",
    "filter": "filter-learnable",
    "train": "train",
    "evaluate": "evaluate",
    "publish": "publish",
    "reused": "reused",
    "unchanged": "unchanged",
    "finish": "finish",
}
COPIES = {step: [step, f"{step}-2"] for step in ("train", "evaluate", "publish", "reused")}  # one in each branch


class Compiled:
    """The two documents of a compiled file."""

    def __init__(self, file: Path) -> None:
        self.specification, platform = yaml.safe_load_all(file.read_text())
        self.executors = self.specification["deploymentSpec"]["executors"]
        self.kubernetes = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]

    def of(self, step: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """The container and the Kubernetes settings of a step, once for each place that it has in the pipeline."""
        names = [f"exec-{name}" for name in COPIES.get(step, [TASKS[step]])]
        return [(self.executors[name]["container"], self.kubernetes[name]) for name in names]

    def tasks(self) -> dict[str, Mapping[str, Any]]:
        """Every task that runs a step, by its component's name."""
        groups = [self.specification["root"], *self.specification["components"].values()]
        found = {}
        for group in groups:
            for task in group.get("dag", {}).get("tasks", {}).values():
                found[task["componentRef"]["name"].removeprefix("comp-")] = task
        return found


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    def make(pipeline="grpo-code", cache_training=False, **pods):
        file = tmp_path_factory.mktemp("compiled") / "pipeline.yaml"
        write_pipeline(file, Fixed(Pods(**pods), cache_training=cache_training, pipeline=pipeline))
        return Compiled(file)

    return make


@pytest.fixture(scope="module")
def plain(compiled):
    """With every step that there is."""
    return compiled(cache_training=True)


def environment(settings):
    return {
        key["envVar"]: (secret["secretNameParameter"], secret["optional"])
        for secret in settings["secretAsEnv"]
        for key in secret["keyToEnv"]
    }


def parameter_of(reference):
    """The name of the run's parameter that a setting is read from."""
    name = reference["componentInputParameter"] if isinstance(reference, dict) else reference
    return name.split("pipelinechannel--")[-1].rstrip("']}")


@pytest.mark.parametrize("step", STEPS)
def test_amounts_come_from_the_runs_parameters(plain, step):
    for container, _ in plain.of(step):
        resources = container["resources"]
        size = STEPS[step].size
        assert parameter_of(resources["resourceCpuRequest"]) == f"{size}_cpu"
        assert parameter_of(resources["resourceMemoryRequest"]) == f"{size}_memory"
        assert parameter_of(resources["resourceMemoryLimit"]) == f"{size}_memory"
        assert "resourceCpuLimit" not in resources


@pytest.mark.parametrize("pipeline", ["grpo-code", "evaluate-only"])
def test_every_parameter_that_a_pod_asks_for_is_handed_down_to_it(compiled, pipeline):
    """KFP's driver finds what a container asks for among its task's inputs, and those, with what the pod's settings
    name, among the inputs of the group that the task is in; where one is missing it fails."""
    found = compiled(pipeline=pipeline, cache_training=True)
    asked = 0
    for group in (found.specification["root"], *found.specification["components"].values()):
        handed = set(group.get("inputDefinitions", {}).get("parameters", {}))
        for task in group.get("dag", {}).get("tasks", {}).values():
            executor = found.specification["components"][task["componentRef"]["name"]].get("executorLabel")
            inputs = task.get("inputs", {}).get("parameters", {})
            container = set(re.findall(r"inputs\.parameters\['(\S+)'\]", json.dumps(found.executors.get(executor))))
            assert container <= set(inputs), executor
            needed = json.dumps([inputs, found.kubernetes.get(executor)])
            names = set(re.findall(r'"componentInputParameter": "([^"]+)"', needed))
            assert names <= handed, f"{executor} in {sorted(group['dag']['tasks'])}"
            asked += len(container | names)
    assert asked > 20


@pytest.mark.parametrize("step", STEPS)
def test_only_the_steps_that_hold_a_model_ask_for_a_gpu(plain, step):
    for container, settings in plain.of(step):
        gpu = container["resources"].get("accelerator")
        assert (gpu is not None) == (step in ("filter", "train", "evaluate", "publish"))
        assert ("nodeSelector" in settings) == ("tolerations" in settings) == (gpu is not None)
        if gpu:
            assert parameter_of(gpu["resourceType"]) == "gpu_resource"
            assert parameter_of(gpu["resourceCount"]) == "gpus"
            assert parameter_of(settings["nodeSelector"]["nodeSelectorJson"]) == "node_selector"
            assert parameter_of(settings["tolerations"][0]["tolerationJson"]) == "tolerations"


@pytest.mark.parametrize("step", STEPS)
def test_secrets_are_named_by_parameters_and_none_can_hang_a_pod(plain, step):
    for _, settings in plain.of(step):
        found = environment(settings)
        assert all(optional for _, optional in found.values())
        assert {"S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY", "S3_SECURE", "GRPO_STORE"} <= set(found)
        assert parameter_of(found["S3_ENDPOINT"][0]) == "store_secret"
        assert ("GRPO_SANDBOX_TOKEN" in found) == STEPS[step].judges
        assert ("HF_TOKEN" in found) == (step in ("check", "fetch_model", "prepare"))


@pytest.mark.parametrize("step", STEPS)
def test_labels_open_the_network_only_to_those_who_need_it(plain, step):
    for _, settings in plain.of(step):
        labels = settings["podMetadata"]["labels"]
        assert labels["app.kubernetes.io/component"] == step
        judges = step in ("check", "prepare", "filter", "train", "evaluate", "publish")
        assert (labels.get(SANDBOX_CLIENT) == "true") == judges
        assert (labels.get(HUB_CLIENT) == "true") == (step in ("check", "fetch_model", "prepare"))
        assert KUEUE_QUEUE not in labels


@pytest.mark.parametrize("step", STEPS)
def test_a_pod_knows_its_run(plain, step):
    for _, settings in plain.of(step):
        assert settings["fieldPathAsEnv"] == [
            {"name": "GRPO_POD_RUN_ID", "fieldPath": "metadata.labels['pipeline/runid']"}
        ]


@pytest.mark.parametrize("step", STEPS)
def test_a_lost_pod_is_started_again_however_late_it_is_lost(plain, step):
    """KFP counts the time for retries from the first start, and gives up after an hour where none is set."""
    for name, task in plain.tasks().items():
        if name in COPIES.get(step, [TASKS[step]]):
            policy = task["retryPolicy"]
            (_, settings), *_ = plain.of(step)
            deadline = int(settings["activeDeadlineSeconds"])
            assert policy["maxRetryCount"] == 3
            assert int(policy["backoffMaxDuration"].rstrip("s")) > 4 * deadline


def test_shared_memory_and_scratch_are_the_gpu_steps(plain):
    for step in STEPS:
        for _, settings in plain.of(step):
            mounts = {mount["mountPath"]: mount for mount in settings.get("emptyDirMounts", [])}
            assert ("/dev/shm" in mounts) == STEPS[step].gpu
            if STEPS[step].gpu:
                assert (mounts["/dev/shm"]["medium"], mounts["/dev/shm"]["sizeLimit"]) == ("Memory", "8Gi")
            assert ("/scratch" in mounts) == (STEPS[step].gpu or step == "fetch_model")


def test_what_is_fixed_at_compile(compiled):
    made = compiled(
        images={"train": "registry/train@sha256:1", "check": "registry/prepare:2"},
        hours={"train": 2},
        retries=1,
        shm_size="1Gi",
        scratch_size="50Gi",
        model_cache_claim="models",
        queue="team",
        priority="high",
        pull_secrets=("registry",),
        labels={"team": "nlp"},
    )
    for container, settings in made.of("train"):
        assert container["image"] == "registry/train@sha256:1"
        assert settings["activeDeadlineSeconds"] == "7200"
        labels = settings["podMetadata"]["labels"]
        assert (labels[KUEUE_QUEUE], labels[KUEUE_PRIORITY], labels["team"]) == ("team", "high", "nlp")
        assert settings["imagePullSecret"][0]["secretName"] == "registry"
        assert settings["pvcMount"][0]["mountPath"] == "/model-cache"
        assert {"name": "GRPO_MODEL_CACHE", "value": "/model-cache"} in container["env"]
        sizes = {mount["mountPath"]: mount["sizeLimit"] for mount in settings["emptyDirMounts"]}
        assert sizes == {"/scratch": "50Gi", "/dev/shm": "1Gi"}
    (container, settings), *_ = made.of("check")
    assert container["image"] == "registry/prepare:2"
    assert KUEUE_QUEUE not in settings["podMetadata"]["labels"]


def test_without_retries_there_is_no_policy(compiled):
    tasks = compiled(retries=0).tasks()
    assert not any("retryPolicy" in task for task in tasks.values())
