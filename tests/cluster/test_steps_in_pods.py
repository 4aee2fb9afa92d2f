"""A whole run of the demo, each step's image in a pod as the compiled pipeline says, and the same run without pods."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.browsing import every_form, opened_browser
from tests.cluster.cluster import ROOT
from tests.cluster.compiled import Compiled, Step
from tests.cluster.ground import BUCKET, Ground
from tests.cluster.step_pods import HARDENED, Running, demo_in_pods, main_of

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

STEPS = ["check", "fetch-model", "prepare", "filter-learnable", "train", "evaluate", "finish"]
WITH_GPU = ["filter-learnable", "train", "evaluate"]
SMALL = {
    "use_filter": True,
    "max_candidate_samples": 32,
    "max_train_samples": 24,
    "hidden_tests": 6,
    "max_eval_samples": 16,
    "num_eval_examples": 16,
    "eval_k": 2,
    "regression_dataset": "",
}
COMPARED = {  # files of a run below runs/<run>/, and what in them is not of the run itself
    "prepare/problems.jsonl": ("reference_cpu_ms",),
    "prepare/heldout.jsonl": ("reference_cpu_ms",),
    "filter/kept.jsonl": ("reference_cpu_ms",),
    "train/samples.jsonl": (),
    "train/metrics.jsonl": ("seconds",),
}
HIDDEN = "hidden"  # not counted at a step where training had waited too long for the counts before it
OF_THE_RUN = ("run_id", "tuned_run", "seconds")


@dataclass(frozen=True)
class Both:
    """The two runs: the pods' steps with what the API server made of them, and the files that each has left."""

    running: Running
    in_pods: Path
    here: Path


@pytest.fixture(scope="module")
def both(ground: Ground, compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Run both, at the same time: neither waits for the other."""
    folder, running = tmp_path_factory.mktemp("both"), Running(ground)
    with run_here(folder / "out") as process:
        compiled.walk(demo_in_pods(ground, {**SMALL, "gpus": ground.cluster.gpus}), running.run_id, running.run)
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0, said
    with ground.client() as store:
        for each in store.list_objects(BUCKET, prefix=f"runs/{running.run_id}/", recursive=True):
            store.fget_object(BUCKET, each.object_name, str(folder / "store" / each.object_name))
    return Both(running, folder / "store/runs" / running.run_id, folder / "out/runs/here")


def run_here(store: Path) -> "subprocess.Popen[str]":
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items() if not isinstance(value, bool)]
    command = [sys.executable, "pipeline.py", "local", "--params", "demo/parameters.toml", "--use-filter", *options]
    environment = {**os.environ, "GRPO_STORE": str(store)}
    out = subprocess.PIPE
    return subprocess.Popen(
        [*command, "--run-id", "here"], cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, text=True
    )


def test_every_step_was_a_pod_with_what_the_compiled_file_says(both: Both) -> None:
    assert [step.name for step, _ in both.running.seen] == STEPS
    for step, pod in both.running.seen:
        spec, container, settings = pod["spec"], step.container, step.kubernetes
        main = main_of(pod)
        assert [each["name"] for each in spec["initContainers"]] == ["kfp-launcher"]
        assert [each["name"] for each in spec["containers"]] == ["wait", "main"]
        assert main["image"] == container["image"]
        assert main["args"] == [*container["command"], *container["args"]]
        assert main["command"][-1] == "--"
        own = {each["name"]: each["value"] for each in main["env"] if "value" in each}
        assert own == {each["name"]: each["value"] for each in container["env"]}
        assert own["GRPO_IMAGE"] == container["image"]
        assert {key: main["securityContext"][key] for key in HARDENED} == HARDENED
        assert settings["podMetadata"]["labels"].items() <= pod["metadata"]["labels"].items()
        assert str(spec["activeDeadlineSeconds"]) == settings["activeDeadlineSeconds"]
        assert secrets_in(main) == secrets_of(step)
        assert mounts_in(spec, main) == {
            (one["mountPath"], one.get("medium", ""), one.get("sizeLimit", ""))
            for one in settings.get("emptyDirMounts", ())
        }


def secrets_in(container: dict) -> set[tuple[str, str, str, bool]]:
    """(variable, Secret, key, whether it may be missing)."""
    taken = [(each["name"], each.get("valueFrom", {}).get("secretKeyRef")) for each in container["env"]]
    return {(name, ref["name"], ref["key"], ref["optional"]) for name, ref in taken if ref}


def secrets_of(step: Step) -> set[tuple[str, str, str, bool]]:
    found = set()
    for one in step.kubernetes["secretAsEnv"]:
        name = step.scope[one["secretNameParameter"]["componentInputParameter"]]
        found |= {(pair["envVar"], name, pair["secretKey"], one["optional"]) for pair in one["keyToEnv"]}
    return found


def mounts_in(spec: dict, container: dict) -> set[tuple[str, str, str]]:
    """(path, medium, size) of the volumes that have no path of KFP's own."""
    volumes = {each["name"]: each.get("emptyDir") for each in spec["volumes"]}
    own = [each for each in container["volumeMounts"] if each["name"] in ("scratch", "shm")]
    return {
        (each["mountPath"], volumes[each["name"]].get("medium", ""), volumes[each["name"]].get("sizeLimit", ""))
        for each in own
    }


def test_a_gpu_was_asked_for_and_given(gpu: None, both: Both) -> None:
    """The scheduler has one of the node's for it, or the pod would still be pending."""
    asked = {step.name: main_of(pod)["resources"] for step, pod in both.running.seen}
    assert [name for name, each in asked.items() if each["limits"].get("nvidia.com/gpu") == "1"] == WITH_GPU
    for each in asked.values():
        assert each["limits"]["memory"] == each["requests"]["memory"] == "2Gi"
        assert each["requests"]["cpu"] == "500m"


@pytest.mark.parametrize("name", COMPARED)
def test_the_run_on_this_machine_went_the_same_way(both: Both, name: str) -> None:
    """Verdicts, the order of prompts, and metrics; one thread in both."""

    def rows(folder: Path) -> list[dict]:
        read = [json.loads(line) for line in (folder / name).read_text().splitlines()]
        return [{key: value for key, value in row.items() if key not in COMPARED[name]} for row in read]

    in_pods, here = rows(both.in_pods), rows(both.here)
    assert any(row.get(HIDDEN, True) for row in in_pods)
    for one, other in zip(in_pods, here, strict=True):
        if None in (one.get(HIDDEN, 0), other.get(HIDDEN, 0)):
            del one[HIDDEN], other[HIDDEN]
    assert in_pods == here


def test_the_comparison_came_out_the_same(both: Both) -> None:
    def told(folder: Path) -> dict:
        read = json.loads((folder / "evaluate/evaluation.json").read_text())
        return {key: value for key, value in read.items() if key not in OF_THE_RUN}

    assert told(both.in_pods)["per_problem"]
    assert told(both.in_pods) == told(both.here)


def test_the_run_says_that_it_succeeded(both: Both) -> None:
    status = json.loads((both.in_pods / "status.json").read_text())
    assert (status["outcome"], status["run_id"]) == ("succeeded", both.running.run_id)


@pytest.mark.browser
def test_the_report_opens_in_a_browser(both: Both) -> None:
    with opened_browser() as browser:
        for page, _ in every_form(browser, both.in_pods / "evaluate/report.html"):
            assert "pass@1" in page.inner_text("body")
