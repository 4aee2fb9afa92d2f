"""The diagnosis of a run, on what a real Kubernetes (1.34) said of pods in trouble; tests/cluster/record.py wrote it.

That each trouble still looks like this on a cluster is what tests/cluster/test_doctor_run.py asks.
"""

import json
from pathlib import Path

import pytest

from cli.cluster import Cluster
from cli.doctor.diagnosis import Evidence, diagnose
from cli.doctor.evidence import gather
from cli.endpoint import Endpoint
from components.shared.errors import InfraError
from components.shared.grading import Grader
from components.shared.sandbox import SandboxClient
from tests.builders import make_problem
from tests.cli.small_kfp import small_kfp
from tests.cluster.troubles import CASES, RUN

RECORDED = Path(__file__).with_name("recorded")
RUNNING = {"status": {"phase": "Running"}}


def recorded(name: str, **more) -> Evidence:
    seen = json.loads((RECORDED / f"{name}.json").read_text())
    return Evidence(run_id=RUN, namespace="kubeflow", **{**seen, **more})


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_trouble_is_named_in_one_line_with_its_remedy(case):
    finding = diagnose(recorded(case.name, workflow=RUNNING, run_state="RUNNING"))
    for words in case.said:
        assert words in finding.line
    assert "\n" not in finding.line
    assert finding.state == ("ok" if case.name == "fine" else "FAIL")


@pytest.mark.parametrize("case", [case for case in CASES if case.name != "fine"], ids=lambda case: case.name)
def test_a_pod_that_only_waits_needs_no_resuming_and_one_that_ended_does(case):
    line = diagnose(recorded(case.name, workflow=RUNNING)).line
    assert (f"python pipeline.py run --resume {RUN}" in line) is any("--resume" in words for words in case.said)


def test_the_pod_that_ended_the_run_comes_before_one_that_waits():
    waiting, ended = recorded("no-gpu"), recorded("out-of-memory")
    both = {"pods": [*waiting.pods, *ended.pods], "events": [*waiting.events, *ended.events]}
    assert "OOMKilled" in diagnose(recorded("no-gpu", **both, workflow={"status": {"phase": "Failed"}})).line
    assert "nvidia.com/gpu" in diagnose(recorded("no-gpu", **both, workflow=RUNNING)).line


def test_events_of_an_earlier_pod_of_the_same_name_say_nothing():
    """Argo starts a lost pod again under its old name."""
    seen = recorded("mount")
    for event in seen.events:
        event["involvedObject"]["uid"] = "another"
    assert "no-such-volume" not in diagnose(seen).line


def test_the_failure_in_the_store_is_what_the_step_said():
    failure = {"step": "train", "kind": "user", "message": "The model y is gated: accept its terms.", "exit_code": 2}
    told = diagnose(recorded("own-words", workflow={"status": {"phase": "Failed"}}, failure=failure))
    assert "The model y is gated: accept its terms" in told.line
    gone = diagnose(Evidence(RUN, "kubeflow", run_state="FAILED", failure=failure))
    assert (
        gone.line
        == f"FAIL    run: train: The model y is gated: accept its terms -> python pipeline.py run --resume {RUN}"
    )


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("Succeeded", "the workflow is Succeeded"),
        ("Failed", "the workflow is Failed"),
        ("Error", "the workflow is Error"),
    ],
)
def test_a_run_that_kfp_takes_for_alive_while_its_workflow_is_over(phase, words):
    finding = diagnose(Evidence(RUN, "kubeflow", run_state="RUNNING", workflow={"status": {"phase": phase}}))
    assert words in finding.line
    assert "rollout restart -n kubeflow deployment/ml-pipeline-persistenceagent" in finding.mend
    assert ("--resume" in finding.mend) is (phase != "Succeeded")


def test_a_run_that_kfp_takes_for_alive_and_that_has_nothing_left():
    finding = diagnose(Evidence(RUN, "kubeflow", run_state="RUNNING"))
    assert "neither a workflow nor a pod" in finding.line
    assert f"--resume {RUN}" in finding.mend


def disruption(reason: str, message: str = "") -> dict:
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("reason", "words", "mend"),
    [
        ("PreemptionByScheduler", "train: preempted by a pod of higher priority", "kubectl get priorityclasses"),
        ("TerminationByKubelet", "train: ended by its node, which was short of something", "kubectl get nodes"),
        ("EvictionByEvictionAPI", "train: evicted on request, as by a node's drain", "kubectl get nodes"),
        ("NewInKubernetes", "train: disrupted: out of the blue", "kubectl get nodes"),
    ],
)
def test_a_pod_that_had_to_go(reason, words, mend):
    """The conditions of https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions."""
    seen = recorded("drained")
    (pod,) = seen.pods
    kept = [each for each in pod["status"]["conditions"] if each["type"] != "DisruptionTarget"]
    pod["status"]["conditions"] = [*kept, disruption(reason, "out of the blue")]
    finding = diagnose(recorded("drained", pods=[pod]))
    assert finding.seen.startswith(words)
    assert finding.mend == f"{mend}; then: python pipeline.py run --resume {RUN}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reason": "NodeLost"}, "was lost (not heard of)"),
        ({"conditions": [disruption("DeletionByTaintManager")]}, "was lost (not heard of)"),
        ({"conditions": [disruption("DeletionByPodGC")], "node": "gone"}, "was lost (gone)"),
    ],
)
def test_a_node_that_was_lost_under_a_pod(changes, words):
    """By the pod's reason, which kubelets of old wrote, by its condition, and where the node object is no more."""
    seen = recorded("fine")
    (pod,) = seen.pods
    changes = dict(changes)
    nodes = [{"metadata": {"name": "another"}, "status": {}}]
    if changes.pop("node", "") != "gone":
        ready = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
        nodes.append({"metadata": {"name": pod["spec"]["nodeName"]}, "status": ready})
    pod["status"] |= changes
    finding = diagnose(recorded("fine", pods=[pod], nodes=nodes))
    assert finding.seen == f"train: its node {pod['spec']['nodeName']} {words}"
    assert finding.mend == f"kubectl get node {pod['spec']['nodeName']}; then: python pipeline.py run --resume {RUN}"


def test_a_pod_that_its_queue_holds():
    """As Kueue does with the steps that have a GPU."""
    seen = recorded("no-gpu")
    (pod,) = seen.pods
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "Scheduling is blocked"}
    pod["status"]["conditions"] = [gated]
    finding = diagnose(recorded("no-gpu", pods=[pod], workflow=RUNNING))
    assert finding.seen == "train: held in a queue that has not admitted it"
    assert finding.mend == f"kubectl get workloads -n {pod['metadata']['namespace']}"


def test_of_two_steps_that_failed_the_first_is_named():
    """The last one fails as well where it is the store that is missing, and KFP's pods have no names in order."""
    (first,) = recorded("out-of-memory").pods
    (last,) = json.loads(json.dumps(recorded("out-of-memory").pods))
    last["metadata"] |= {"name": "another", "creationTimestamp": "2036-01-01T00:00:00Z"}
    last["metadata"]["labels"]["app.kubernetes.io/component"] = "finish"
    step = first["metadata"]["labels"]["app.kubernetes.io/component"]
    for pods in ([first, last], [last, first]):
        seen = recorded("out-of-memory", pods=pods, workflow={"status": {"phase": "Failed"}})
        assert diagnose(seen).seen.startswith(f"{step}: ")


def test_a_run_that_nobody_knows():
    finding = diagnose(Evidence("x", "kubeflow", run_state="unknown"))
    assert (finding.state, finding.seen) == ("FAIL", "nothing is known of a run x")


def test_a_run_of_which_kfp_cannot_be_asked():
    finding = diagnose(Evidence("x", "kubeflow", not_asked="It asks for a login."))
    assert finding.seen == "nothing is known of a run x, and KFP cannot be asked: It asks for a login"


def test_a_question_that_kfp_refuses_is_no_unknown_run(answering):
    answering(200, {"items": []})
    with small_kfp() as kfp:
        asked = Endpoint.of(kfp.url, token="t"), Cluster.connect()
        assert (gather("x", asked[1], asked[0]).run_state, gather("x", asked[1], None).not_asked) == ("unknown", "")
        kfp.refuse = (401, "Jwt is expired")
        seen = gather("x", asked[1], asked[0])
    assert seen.run_state == ""
    assert "does not accept this token (HTTP 401; it said: Jwt is expired)" in seen.not_asked


def test_a_run_that_has_succeeded():
    assert diagnose(Evidence(RUN, "kubeflow", run_state="SUCCEEDED")).state == "ok"


# The end of a log as KFP 2.17's launcher and Argo's executor leave it after a step that has failed.
LAUNCHER = """\
E1129 21:56:55.805965      15 launcher_v2.go:449] Component failed to execute successfully: {0}
I1129 21:56:55.806017      15 launcher_v2.go:867] Executing uploadOutputArtifacts attempt: 1
I1129 21:56:55.838108      15 launcher_v2.go:206] publish success.
F1129 21:56:55.846248      15 main.go:59] failed to execute component: {0}
time=2026-11-29T21:56:56.654Z level=INFO msg="file signal handler exiting due to context cancellation" argo=true
time=2026-11-29T21:56:56.654Z level=INFO msg="sub-process exited" error="exit status 1" argo=true
Error: exit status 1
"""


@pytest.mark.parametrize(
    ("said", "ended", "words"),
    [
        (
            "train: step 3/60\ntrain: The model x is gated: set HF_TOKEN.\n",
            "exit status 2",
            "train: The model x is gated:",
        ),
        ("train: step 3/60\n", "signal: killed", "train: killed (SIGKILL), most likely for want of memory"),
        ("train: step 3/60\n", "exit status 143", "train: stopped from outside (SIGTERM)"),
        ("train: step 3/60\n", "exit status 3", "train: ended with exit code 3 and no word of its own"),
        (
            "Traceback (most recent call last):\nOSError: no space left\n",
            "exit status 1",
            "train: OSError: no space left",
        ),
    ],
)
def test_what_a_step_said_behind_kfps_launcher(said, ended, words):
    log = {"run-own-words": said + LAUNCHER.format(ended)}
    assert words in diagnose(recorded("own-words", logs=log)).line


# What the API server answers, as Argo passes it on in the node of a pod that it could not create.
QUOTA = (
    'pods "run-x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, '
    "used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2"
)
POD_SECURITY = 'pods "run-x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'


@pytest.mark.parametrize(
    ("message", "words"),
    [(QUOTA, "its pod would exceed the quota: exceeded quota: gpus"), (POD_SECURITY, "its pod was refused: ")],
)
@pytest.mark.parametrize(("phase", "resumed"), [("Pending", False), ("Error", True)])
def test_a_pod_that_may_not_be_created(message, words, phase, resumed):
    node = {"type": "Pod", "phase": phase, "displayName": "train", "message": message}
    workflow = {
        "metadata": {"namespace": "kubeflow"},
        "status": {"phase": "Error" if resumed else "Running", "nodes": {"a": node}},
    }
    finding = diagnose(Evidence(RUN, "kubeflow", workflow=workflow))
    assert words in finding.line
    assert ("--resume" in finding.mend) is resumed


def test_the_sandbox_out_of_reach_in_the_steps_own_words(capsys, monkeypatch, free_port):
    """The words are the client's: it is asked to judge where nobody listens."""
    monkeypatch.setattr("components.shared.sandbox.QUIET_SECONDS", 0.0)
    client = SandboxClient(f"http://127.0.0.1:{free_port}", retry_seconds=1.0)
    with pytest.raises(InfraError) as gave_up:
        Grader(client, test_timeout_s=1, infra_limit=0.02).grade([(make_problem("1"), "x = 1")])
    while_waiting = capsys.readouterr().out
    name = "run-fine"
    waits = diagnose(recorded("fine", logs={name: while_waiting}))
    assert f"train: waits for the sandbox at http://127.0.0.1:{free_port}" in waits.line
    assert waits.mend == "kubectl get pods,events -n grpo-code-sandbox"
    ended = diagnose(recorded("own-words", logs={"run-own-words": f"train: {gave_up.value}"}))
    assert "train: gave up for want of the sandbox: 1 of 1 programs could not be judged" in ended.line
    assert f"--resume {RUN}" in ended.mend


def kfp_workflow(phase: str, message: str, task: str = "fetch-model") -> dict:
    """A step's nodes as KFP 2.17 has Argo write them: the pod's is called `executor`, below one of the task's name."""
    nodes = {
        "step": {"type": "DAG", "displayName": f"{task}(0)", "phase": "Running", "boundaryID": "root"},
        "pod": {"type": "Pod", "displayName": "executor(0)", "phase": phase, "boundaryID": "step", "message": message},
    }
    ended = phase in ("Failed", "Error")
    return {
        "metadata": {"namespace": "kubeflow"},
        "status": {"phase": "Failed" if ended else "Running", "nodes": nodes},
    }


@pytest.mark.parametrize(
    ("task", "step"),
    [("fetch-model", "fetch_model"), ("filter-learnable", "filter"), ("train", "train"), ("x-y", "x-y")],
)
def test_a_refused_pod_goes_by_its_steps_name(task, step):
    assert diagnose(Evidence(RUN, "kubeflow", workflow=kfp_workflow("Pending", QUOTA, task))).seen.startswith(
        f"{step}: its"
    )


@pytest.mark.parametrize(
    ("message", "seen", "mend"),
    [
        (
            "main: OOMKilled (exit code 1)",
            "fetch_model: killed for want of memory (OOMKilled); its pod is gone",
            "--prepare-memory with more, or a smaller --micro-batch-size; then: ",
        ),
        ("main: Error (exit code 143)", "fetch_model: stopped from outside (SIGTERM), as by an eviction, a drain", ""),
        ("main: Error (exit code 137)", "fetch_model: killed from outside (SIGKILL); its pod is gone", ""),
        ("main: Error (exit code 1)", "fetch_model: main: Error (exit code 1)", ""),
        ("pod deleted", "fetch_model: pod deleted", ""),
    ],
)
def test_a_failed_step_whose_pod_is_gone(message, seen, mend):
    finding = diagnose(Evidence(RUN, "kubeflow", workflow=kfp_workflow("Failed", message), run_state="FAILED"))
    assert finding.seen.startswith(seen)
    assert finding.mend == f"{mend}python pipeline.py run --resume {RUN}"


def test_a_workflow_that_nobody_has_taken_up():
    finding = diagnose(Evidence(RUN, "kubeflow", workflow={"metadata": {"namespace": "kubeflow"}}, run_state="PENDING"))
    assert finding.state == "warn"
    assert "has not begun: Argo's controller has not taken up its workflow" in finding.seen


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "CANCELING"])
def test_a_run_that_kfp_can_never_end(state):
    finding = diagnose(Evidence(RUN, "kubeflow", run_state=state))
    assert finding.seen == f"KFP shows {state}, but there is neither a workflow nor a pod of it"
    assert finding.mend == f"kfp run archive {RUN}; then: python pipeline.py run --resume {RUN}"
