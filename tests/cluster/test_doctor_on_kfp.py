"""`doctor --run` on runs of a real Kubeflow Pipelines, each in another trouble; see kfp_troubles.py."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kfp.compiler import Compiler

from cli.endpoint import Endpoint
from cli.submit import Place, continued
from components.pods import RUN_LABEL
from components.shared.errors import UserError
from tests.cluster.cluster import PATIENCE, Cluster, eventually, forwarded
from tests.cluster.installation import ACCESS, BUCKET, SANDBOX, secret
from tests.cluster.kfp_runs import SPACE, Kfp, labelled, refusal, scaled
from tests.cluster.kfp_troubles import CASES, ENDS, FAILED, NPU, QUOTA, SECRETS, KfpCase
from tests.cluster.record import evict
from tests.kfp_at_hand import for_a_single_user

pytestmark = [pytest.mark.kfp, pytest.mark.cluster, pytest.mark.timeout(900)]
AGENT, CONTROLLER = "deployment/ml-pipeline-persistenceagent", "deployment/workflow-controller"


@pytest.fixture(scope="module")
def kfp(cluster: Cluster, doctor_images: dict[str, str], installed: tuple[str, str]) -> Iterator[Kfp]:
    """Every case's run, started; the runs and all that they used are gone afterwards."""
    for_a_single_user()
    from kfp import Client

    space, contained = installed
    token = cluster.get("secret", SANDBOX, "-n", space)["data"]["TOKEN"]
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": QUOTA, "namespace": SPACE},
        "spec": {"hard": {f"requests.{NPU}": "0"}},
    }
    where = {"S3_ENDPOINT": f"minio.{space}:9000", "S3_SECURE": "false", "GRPO_STORE": f"s3://{BUCKET}/prefix"}
    sandbox_secret = {**secret(SPACE, SECRETS["sandbox_secret"]), "data": {"TOKEN": token}}
    store_secret = secret(SPACE, SECRETS["store_secret"], **where, **ACCESS)
    used = [quota, sandbox_secret, store_secret, *refusal()]
    cluster.apply(*used)
    client = Client(os.environ["KFP_ENDPOINT"])
    place = Kfp(cluster, client, doctor_images["prepare"], f"http://sandbox.{contained}:8080", {})
    try:
        with labelled(cluster):
            for case in CASES:
                place.start(case)
            yield place
    finally:
        for run in place.runs.values():
            with contextlib.suppress(Exception):  # those that have ended cannot be terminated
                client.terminate_run(run)
            cluster.kubectl("delete", "workflow", "-n", SPACE, "-l", f"{RUN_LABEL}={run}", "--wait=false", check=False)
            with contextlib.suppress(Exception):
                client.delete_run(run)
        for each in used:
            cluster.kubectl("delete", each["kind"], each["metadata"]["name"], "-n", SPACE, check=False)


@pytest.fixture(scope="module")
def without_sandbox(kfp: Kfp, installed: tuple[str, str]) -> Iterator[None]:
    """The sandbox goes away in the middle of the runs that use it."""
    for name in ("waits", "gives-up"):
        pod = kfp.at_work(kfp.runs[name])
        eventually(lambda pod=pod: "train: a step" in kfp.log(pod), f"a verdict in {name}")
    with scaled(kfp.cluster, installed[1], "deployment/sandbox"):
        yield


def told(kfp: Kfp, run: str, **environment: str) -> tuple[int, str]:
    """The doctor's exit code and what it says of a run."""
    command = [sys.executable, "pipeline.py", "doctor", "--run", run, "--namespace", SPACE, "--json"]
    environment = {**kfp.cluster.environment, "KFP_ENDPOINT": os.environ["KFP_ENDPOINT"], **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout, done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    return done.returncode, f"{finding['seen']} -> {finding['mend']}"


def until_told(kfp: Kfp, run: str, *words: str) -> str:
    """What the doctor says of a run, once it says these words: KFP's drivers come before the step."""
    words = tuple(each.replace("{run}", run) for each in words)
    deadline = time.monotonic() + PATIENCE
    while True:
        code, line = told(kfp, run)
        if all(each in line for each in words):
            assert code == 1
            return line
        assert time.monotonic() < deadline, f"{words} is not in: {line}"
        time.sleep(2)


@pytest.mark.parametrize("case", [case for case in CASES if case.said and not case.befalls], ids=lambda case: case.name)
def test_a_run_in_trouble(kfp: Kfp, case: KfpCase) -> None:
    until_told(kfp, kfp.runs[case.name], *case.said)


def test_a_step_that_is_drained(kfp: Kfp) -> None:
    """Evicted through the API, as `kubectl drain` does it. Argo may see the pod's end, or that it is gone, first.

    In the one case the step has failed, in the other it was lost and is started again.
    """
    run = kfp.runs["drained"]
    pod = kfp.at_work(run)
    evict(kfp.cluster, SPACE, pod)
    begun = (0, f"{run} is under way: train -> ")
    failed = "train: stopped from outside (SIGTERM), as by an eviction, a drain or a deletion; its pod is gone"

    def settled() -> bool:
        again = [name for name in kfp.step_pods(run, "Running") if name != pod]
        return (bool(again) and told(kfp, run) == begun) or told(kfp, run)[1].startswith(failed)

    eventually(settled, "a pod in its place, or the sentence that it was stopped")


def test_a_step_that_is_stopped(kfp: Kfp) -> None:
    """By a signal to the pod's first process, as a node sends it; then without the pod."""
    run = kfp.runs["stopped"]
    stop = ["python", "-c", "import os; os.kill(1, 15)"]  # which ends with the container that it runs in
    kfp.cluster.kubectl("exec", kfp.at_work(run), "-n", SPACE, "-c", "main", "--", *stop, check=False)
    until_told(kfp, run, "train: stopped from outside (SIGTERM), as when it is deleted", FAILED)
    eventually(lambda: kfp.state(run) == "FAILED", "its failure")
    kfp.cluster.kubectl("delete", "pods", "-n", SPACE, "-l", f"{RUN_LABEL}={run}")
    words = "train: stopped from outside (SIGTERM), as by an eviction, a drain or a deletion; its pod is gone"
    until_told(kfp, run, f"{words} -> {FAILED}")


@pytest.mark.parametrize("name", ["waits", "gives-up"])
def test_the_sandbox_goes_away_in_mid_run(kfp: Kfp, without_sandbox: None, name: str) -> None:
    until_told(kfp, kfp.runs[name], *next(case for case in CASES if case.name == name).said)


def test_a_run_whose_workflow_was_deleted(kfp: Kfp) -> None:
    """KFP has no end for it, and terminating it fails; archived, it can be continued."""
    run = kfp.runs["workflow-gone"]
    kfp.at_work(run)
    kfp.cluster.kubectl("delete", "workflow", "-n", SPACE, "-l", f"{RUN_LABEL}={run}")
    eventually(lambda: not kfp.step_pods(run, "Running"), "an end of its pods")
    line = until_told(kfp, run, "KFP shows RUNNING, but there is neither a workflow nor a pod of it", FAILED)
    with pytest.raises(Exception, match="Failed to terminate"):
        kfp.client.terminate_run(run)
    until_told(kfp, run, "KFP shows CANCELING, but there is neither a workflow nor a pod of it")
    endpoint = Endpoint.of(os.environ["KFP_ENDPOINT"])
    with pytest.raises(UserError, match="is still canceling"):
        continued(endpoint, run, {}, Place())
    mend = line.partition(" -> ")[2].partition(";")[0].split()
    assert mend[:3] == ["kfp", "run", "archive"]
    kfp.cluster.run(str(Path(sys.executable).with_name("kfp")), "--endpoint", endpoint.url, *mend[1:])
    given, _ = continued(endpoint, run, {}, Place())
    assert given["resume_run"] == run


def test_a_run_whose_schedule_was_deleted(kfp: Kfp) -> None:
    """KFP's controller takes the workflow of a run along with its schedule."""
    experiment = kfp.client.create_experiment("doctor-test").experiment_id
    case = next(case for case in CASES if case.name == "workflow-gone")
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/pipeline.yaml"
        Compiler().compile(case.pipeline(kfp.image, str(kfp.cluster.registry)), file)
        options = {
            "cron_expression": "*/5 * * * * *",
            "no_catchup": True,
            "max_concurrency": 1,
            "enable_caching": False,
        }
        made = kfp.client.create_recurring_run(
            experiment, "doctor-test", pipeline_package_path=file, params={}, enabled=True, **options
        )
    schedule = made.recurring_run_id

    def fired() -> list[str]:
        found = kfp.client.list_runs(experiment_id=experiment, page_size=20, sort_by="created_at desc").runs or []
        return [str(run.run_id) for run in found if run.recurring_run_id == schedule]

    run = eventually(fired, "a run of the schedule")[0]
    kfp.runs["schedule-gone"] = run
    kfp.at_work(run)
    kfp.client.delete_recurring_run(schedule)
    eventually(lambda: not kfp.step_pods(run, "Running"), "an end of its pods")
    until_told(kfp, run, "KFP shows RUNNING, but there is neither a workflow nor a pod of it")


def test_a_persistence_agent_that_is_away(kfp: Kfp) -> None:
    with scaled(kfp.cluster, SPACE, AGENT):
        run = kfp.start(ENDS)
        workflow = ("workflow", "-n", SPACE, "-l", f"{RUN_LABEL}={run}")
        phases = "jsonpath={.status.phase}=Succeeded"
        eventually(lambda: kfp.cluster.get(*workflow)["items"], "its workflow")
        kfp.cluster.kubectl("wait", *workflow, f"--for={phases}", "--timeout=240s")
        line = until_told(kfp, run, "but the workflow is Succeeded: its persistence agent lags behind")
        assert line.endswith(f"kubectl rollout restart -n kubeflow {AGENT}")
    eventually(lambda: kfp.state(run) == "SUCCEEDED", "the news of its end")
    assert told(kfp, run) == (0, f"{run} has succeeded -> ")


def test_a_controller_that_is_away(kfp: Kfp) -> None:
    with scaled(kfp.cluster, SPACE, CONTROLLER):
        run = kfp.start(ENDS)
        code, line = told(kfp, run)
        see = "kubectl get pods -n kubeflow -l app=workflow-controller"
        seen = f"{run} has not begun: Argo's controller has not taken up its workflow"
        assert (code, line) == (0, f"{seen} -> {see}")


def test_a_failed_run_whose_pods_are_gone(kfp: Kfp, installed: tuple[str, str]) -> None:
    """Argo's word for its end; where the store is at hand, the step's own sentence."""
    run = kfp.runs["memory"]
    eventually(lambda: kfp.state(run) == "FAILED", "its failure")
    kfp.cluster.kubectl("delete", "pods", "-n", SPACE, "-l", f"{RUN_LABEL}={run}")
    killed = "train: killed for want of memory (OOMKilled); its pod is gone"
    until_told(kfp, run, f"{killed} -> --train-memory with more", FAILED)
    run = kfp.runs["speaks"]
    eventually(lambda: kfp.state(run) == "FAILED", "its failure")
    kfp.cluster.kubectl("delete", "pods", "-n", SPACE, "-l", f"{RUN_LABEL}={run}")
    until_told(kfp, run, "train: main: Error (exit code 1) -> " + FAILED)
    with forwarded(kfp.cluster, installed[0], "minio", 9000) as port:
        where = {"S3_ENDPOINT": f"127.0.0.1:{port}", "S3_SECURE": "false", "GRPO_STORE": f"s3://{BUCKET}/prefix"}
        code, line = told(kfp, run, **where, **ACCESS)
    assert (code, line.partition(" -> ")[0]) == (1, "train: The model x has no tokenizer: add one")
    kfp.cluster.kubectl("delete", "workflow", "-n", SPACE, "-l", f"{RUN_LABEL}={run}")
    assert told(kfp, run)[1].startswith(f"{run} failed: its pods are gone, and nothing says why")


def test_a_run_that_kfp_does_not_know(kfp: Kfp) -> None:
    code, line = told(kfp, "00000000-0000-0000-0000-000000000000")
    assert code == 1
    assert line.startswith("nothing is known of a run 0000")
