"""Every command of docs/debugging.md, run as it stands there, on a run with one step at work and one that is stuck."""

import json
import os
import subprocess
import time
from dataclasses import replace

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.page import Block, blocks
from tests.cluster.record import hollow_node, start
from tests.cluster.troubles import CASES, RUN

PLAIN = [block for block in blocks() if block.kind == "sh"]
NEEDS_KFP = [block for block in blocks() if block.kind == "sh kfp"]


def titles(found: list[Block]) -> list[str]:
    return [f"{number}-{block.title}" for number, block in enumerate(found)]


@pytest.fixture(scope="module")
def run(cluster: Cluster, installed: tuple[str, str], python_image: str):
    """A run in the installation's namespace: train is at work, another pod of it is stuck."""
    space = installed[0]
    wanted = [case for case in CASES if case.name in ("fine", "no-gpu")]
    for case in wanted:
        start(cluster, space, case, python_image)
    cluster.kubectl("label", "pod", "run-fine", "-n", space, "grpo-code/sandbox-client=true")
    cluster.kubectl("label", "pod", "run-no-gpu", "-n", space, "app.kubernetes.io/component=evaluate", "--overwrite")
    try:
        cluster.kubectl("wait", "-n", space, "--for=condition=Ready", "pod/run-fine", "--timeout=90s")
        yield {"NS": space, "SANDBOX": installed[1], "RUN": RUN}
    finally:
        names = [f"run-{case.name}" for case in wanted]
        cluster.kubectl("delete", "pod", *names, "-n", space, "--grace-period=0", "--force", check=False)


def bash(cluster: Cluster, block: Block, variables: dict[str, str]) -> subprocess.CompletedProcess:
    """Run a block; metrics of a pod that is seconds old are waited for."""
    deadline = time.monotonic() + (150 if "kubectl top" in block.body else 0)
    while True:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.body],
            env={**cluster.environment, **variables},
            capture_output=True,
            text=True,
            timeout=180,
        )
        if done.returncode == 0 or time.monotonic() > deadline:
            return done
        time.sleep(3)


SHOWN = {  # what must be among the output of the commands of a section, so that none of them looks at nothing
    "Which pods does a run have?": ("run-fine", "train", "run-no-gpu", "evaluate"),
    "What does it print?": ("train: at work",),
    "How is it doing?": ("run-fine", "/dev/shm", "VmRSS"),
    "Why did it end?": ("run-fine", "Running"),
    "The store": ("S3_ENDPOINT",),
}


@pytest.mark.cluster
@pytest.mark.timeout(400)
@pytest.mark.parametrize("block", PLAIN, ids=titles(PLAIN))
def test_a_block_of_the_page(cluster, run, block):
    done = bash(cluster, block, run)
    assert done.returncode == 0, f"{block.body}\n{done.stdout}\n{done.stderr}"
    assert "error" not in done.stderr.lower()
    for words in SHOWN.get(block.title, ()):
        assert words in done.stdout
    if "describe pods -n $NS" in block.body:
        assert "Insufficient nvidia.com/gpu" in done.stdout
    if "kubectl debug" in block.body:
        assert done.stdout.split().count("python") > 1, done.stdout  # the service and its workers
    if "readyz" in block.body:
        assert json.loads(done.stdout)["ready"] is True
    if "sha256sum" in block.body:
        digests = [line for line in done.stdout.splitlines() if line.endswith(" -")]
        assert len(digests) == 2
        assert digests[0] == digests[1]
        assert run["NS"] in done.stdout
        assert "run-fine" in done.stdout
    if "go-template='{{range" in block.body:
        assert {"S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY"} <= set(done.stdout.split())
        assert "doctor-secret" not in done.stdout


@pytest.mark.cluster
@pytest.mark.timeout(400)
def test_the_block_that_lets_go_of_a_pod(cluster, installed, python_image):
    """The pod is on a node whose kubelet is silent, so that nobody ends it."""
    (block,) = [block for block in blocks() if block.kind == "sh pod"]
    case = next(case for case in CASES if case.name == "node-lost")
    with hollow_node(cluster):
        start(cluster, installed[0], replace(case, name="let-go", metadata={}), python_image)
        name = ("pod", "run-let-go", "-n", installed[0])
        cluster.kubectl("wait", *name, "--for=condition=PodScheduled", "--timeout=60s")
        cluster.kubectl("delete", *name, "--wait=false")
        assert cluster.get(*name)["metadata"]["deletionTimestamp"], "it hangs"
        done = bash(cluster, block, {"NS": installed[0], "POD": "run-let-go"})
        assert "NotFound" in cluster.kubectl("get", *name, check=False), done.stdout + done.stderr


@pytest.mark.cluster
@pytest.mark.timeout(400)
def test_the_block_that_takes_a_node_out(cluster):
    (block,) = [block for block in blocks() if block.kind == "sh node"]
    with hollow_node(cluster):
        done = bash(cluster, block, {"NODE": "hollow"})
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["node/hollow", "cordoned", "node/hollow", "uncordoned"]


@pytest.mark.kfp
@pytest.mark.cluster
@pytest.mark.timeout(400)
def test_the_blocks_that_need_kfp(cluster, python_image):
    """On a workflow that Argo runs under the label that KFP gives: its step asks for more GPUs than there are."""
    if not os.environ.get("KFP_ENDPOINT"):
        pytest.skip("no Kubeflow Pipelines: KFP_ENDPOINT is not set")
    workflow = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "page", "namespace": "kubeflow", "labels": {"pipeline/runid": RUN}},
        "spec": {
            "entrypoint": "step",
            "serviceAccountName": "pipeline-runner",
            "templates": [
                {
                    "name": "step",
                    "container": {
                        "image": python_image,
                        "command": ["true"],
                        "resources": {"limits": {"nvidia.com/gpu": "64"}},
                    },
                }
            ],
        },
    }
    cluster.kubectl("create", "-f", "-", input=json.dumps(workflow))
    variables = {"NS": "kubeflow", "RUN": RUN}
    try:
        shown = ""
        deadline = time.monotonic() + 60
        while "Unschedulable" not in shown and time.monotonic() < deadline:
            done = bash(cluster, NEEDS_KFP[0], variables)
            assert done.returncode == 0, done.stderr
            shown = done.stdout
        assert "page" in shown
        assert "Insufficient nvidia.com/gpu" in shown
        for block in NEEDS_KFP[1:]:
            assert bash(cluster, block, variables).returncode == 0
    finally:
        cluster.kubectl("delete", "workflow", "page", "-n", "kubeflow", "--wait=false")
