"""`doctor --run` on runs of a real Kubeflow Pipelines: one waits for GPUs, one has ended with a sentence."""

import json
import os
import subprocess
import sys
import time

import pytest

from tests.cluster.cluster import Cluster

pytestmark = [pytest.mark.kfp, pytest.mark.cluster, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def runs(doctor_images: dict[str, str]):
    """Two runs under way: {name: id}."""
    if not os.environ.get("KFP_ENDPOINT"):
        pytest.skip("no Kubeflow Pipelines: KFP_ENDPOINT is not set")
    from kfp import Client, dsl

    @dsl.component(base_image=doctor_images["prepare"], install_kfp_package=False)
    def waits():
        print("never")

    @dsl.component(base_image=doctor_images["prepare"], install_kfp_package=False)
    def speaks():
        from components.shared.errors import UserError, reported

        with reported("train"):
            raise UserError("The model x has no tokenizer: add one.")

    @dsl.pipeline(name="doctor-test-waits")
    def waiting():
        waits().set_accelerator_type("nvidia.com/gpu").set_accelerator_limit("64")

    @dsl.pipeline(name="doctor-test-speaks")
    def speaking():
        speaks()

    client = Client(os.environ["KFP_ENDPOINT"])
    made = {
        name: client.create_run_from_pipeline_func(
            pipeline, run_name=f"doctor-test {name}", enable_caching=False
        ).run_id
        for name, pipeline in (("waits", waiting), ("speaks", speaking))
    }
    yield made
    client.terminate_run(made["waits"])


def until(cluster: Cluster, run: str, words: str) -> tuple[int, str]:
    """Ask the doctor until it says these words, for two minutes at most: KFP's drivers come before the step."""
    deadline = time.monotonic() + 120
    while True:
        command = [sys.executable, "pipeline.py", "doctor", "--run", run, "--namespace", "kubeflow", "--json"]
        environment = {**cluster.environment, "KFP_ENDPOINT": os.environ["KFP_ENDPOINT"]}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        (finding,) = json.loads(done.stdout)["findings"]
        line = f"{finding['seen']} -> {finding['mend']}"
        if words in line or time.monotonic() > deadline:
            return done.returncode, line
        time.sleep(2)


def test_a_step_that_waits_for_gpus(cluster, runs):
    code, line = until(cluster, runs["waits"], "waits for")
    assert (code, line.split(",")[0]) == (1, "waits: waits for 64 nvidia.com/gpu")


def test_a_step_that_says_what_is_wrong(cluster, runs):
    code, line = until(cluster, runs["speaks"], "no tokenizer")
    assert code == 1
    assert line == f"speaks: The model x has no tokenizer: add one -> python pipeline.py run --resume {runs['speaks']}"


def test_a_run_that_kfp_does_not_know(cluster, runs):
    code, line = until(cluster, "00000000-0000-0000-0000-000000000000", "nothing is known")
    assert code == 1
    assert line.startswith("nothing is known of a run 0000")
