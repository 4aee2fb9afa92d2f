"""`doctor` on a real cluster: a sound installation is called sound, and what its probes find wrong is named."""

import os
import secrets
import signal
import subprocess
import time

import pytest

from cli.doctor import pods as probe_pods
from tests.cluster.cluster import RESTRICTED, Cluster, eventually
from tests.cluster.doctoring import command, doctor
from tests.cluster.installation import (
    SANDBOX,
    doctor_tag,
    objects_left,
    probes_left,
    sandbox,
    secret,
)
from tests.cluster.pods import make_pod, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_a_sound_installation(cluster, installed):
    begun = time.monotonic()
    code, findings = doctor(cluster, *installed)
    seconds = time.monotonic() - begun
    states = {check: {each["state"] for each in group} for check, group in findings.items()}
    unknown = {"kfp", "model", "hub"}  # neither a KFP nor the model hub need be at hand here
    assert {check: state for check, state in states.items() if state != {"ok"} and check not in unknown} == {}
    assert {"store", "sandbox", "sandbox layers", "policy in", "policy out", "image train"} < states.keys()
    assert code == (1 if {"FAIL"} in (states["kfp"], states["hub"]) else 0)
    assert seconds < 60
    assert probes_left(cluster, *installed) == []
    assert objects_left(cluster, installed[0]) == []


def created_pods(cluster: Cluster, *namespaces: str) -> set[str]:
    """The pods of which the cluster has events: those that are gone, too."""
    return {
        each["involvedObject"]["name"]
        for namespace in namespaces
        for each in cluster.get("events", "-n", namespace, "--field-selector=involvedObject.kind=Pod")["items"]
    }


def doctors_pods(cluster: Cluster, *namespaces: str) -> set[str]:
    """Those of them that were doctors', also of a moment ago: a pod made after them has its events by now, too."""
    name = f"after-{secrets.token_hex(3)}"
    with running(cluster, namespaces[0], make_pod(name, "nothing:1", ["true"])):
        eventually(lambda: name in created_pods(cluster, namespaces[0]), "the event of a pod")
        return {each for each in created_pods(cluster, *namespaces) if each.startswith("grpo-code-doctor-")}


def test_without_probes_nothing_is_made(cluster, installed):
    before = doctors_pods(cluster, *installed)
    _, findings = doctor(cluster, *installed, "--no-probe")
    assert findings["probes"][0]["state"] == "skipped"
    assert "store" not in findings
    assert doctors_pods(cluster, *installed) == before
    doctor(cluster, *installed)
    assert doctors_pods(cluster, *installed) > before, "so that the line above could have failed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_doctor_leaves_nothing(cluster, installed, number):
    line, environment = command(cluster, *installed)
    process = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        probes = ("pods", "-n", installed[0], "-l", "grpo-code/doctor")
        eventually(lambda: cluster.get(*probes)["items"], "a probe pod", 40)
        os.kill(process.pid, number)
        _, complaint = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert complaint.strip().endswith("Stopped.")
    assert "Traceback" not in complaint
    assert probes_left(cluster, *installed) == []
    assert objects_left(cluster, installed[0]) == []


def test_what_a_killed_doctor_has_left_is_removed(cluster, installed, place, monkeypatch):
    pod = probe_pods.pod_of(probe_pods.Probe("old", installed[0], "nothing:1", []), "")
    cluster.apply(pod)
    pods = probe_pods.ProbePods(place.cluster, time.monotonic() + 10)
    assert pods.sweep([installed[0]]) == 0, "it may belong to a doctor that is at work"
    monkeypatch.setattr(probe_pods, "OLDEST_SECONDS", -1)
    assert pods.sweep([installed[0]]) == 1
    assert probes_left(cluster, installed[0]) == []


def test_images_store_and_token_that_are_wrong(cluster, installed, restored):
    """One doctor for four faults: an image never pushed, a wrong key, a wrong token, a model that is not there."""
    space, contained = installed
    token = secret(space, SANDBOX, TOKEN="another")
    store = secret(
        space,
        "grpo-code-store",
        S3_ENDPOINT=f"minio.{space}:9000",
        S3_SECURE="false",
        GRPO_STORE="s3://doctor/prefix",
        S3_ACCESS_KEY="doctor",
        S3_SECRET_KEY="wrong-secret",
    )
    restored(token, store)
    code, findings = doctor(cluster, space, contained, "--use-filter", "--model-name", "s3://doctor/no-model")
    assert code == 1
    assert f"grpo-code-filter:{doctor_tag()} cannot be pulled" in findings["image filter"][0]["seen"]
    assert "make images push" in findings["image filter"][0]["mend"]
    assert "SignatureDoesNotMatch" in findings["store"][0]["seen"]
    assert "kubectl get secret grpo-code-store" in findings["store"][0]["mend"]
    assert "does not accept the token in grpo-code-sandbox" in findings["sandbox"][0]["seen"]
    assert "another token than the sandbox's own" in findings["secret sandbox"][0]["seen"]
    assert findings["model"][0]["state"] == "FAIL"
    assert findings["policy out"][0]["state"] == "ok", "what is wrong elsewhere does not hide what is right"


def test_a_store_out_of_reach_and_no_sandbox(cluster, installed, restored):
    space, _ = installed
    store = secret(
        space, "grpo-code-store", S3_ENDPOINT=f"minio.{space}:9001", S3_SECURE="false", GRPO_STORE="s3://doctor",
        S3_ACCESS_KEY="doctor", S3_SECRET_KEY="doctor-secret",
    )  # fmt: skip
    restored(store)
    code, findings = doctor(cluster, space, "nowhere-at-all")
    assert code == 1
    assert "it cannot be reached" in findings["store"][0]["seen"]
    assert "its name is unknown" in findings["sandbox"][0]["seen"]
    assert findings["sandbox pods"][0]["seen"] == "there is no Service sandbox in nowhere-at-all"
    assert findings["policy in"][0]["state"] == findings["policy out"][0]["state"] == "skipped"


def test_policies_that_are_not_there(cluster, installed, doctor_images):
    """A sandbox that nothing guards: strangers get in, and what runs beside it gets out."""
    space, _ = installed
    with cluster.namespace("doctor-open", RESTRICTED) as unguarded:
        token = cluster.get("secret", SANDBOX, "-n", space)["data"]["TOKEN"]
        cluster.apply(*sandbox(cluster, unguarded, doctor_images["sandbox"], "x", guarded=False))
        patch = f'{{"data": {{"TOKEN": "{token}"}}}}'
        cluster.kubectl("patch", "secret", SANDBOX, "-n", unguarded, "-p", patch)
        cluster.kubectl("rollout", "restart", "-n", unguarded, "deployment/sandbox")
        cluster.kubectl("rollout", "status", "-n", unguarded, "deployment/sandbox", "--timeout=180s")
        code, findings = doctor(cluster, space, unguarded)
        assert code == 1
        assert findings["sandbox policy"][0]["state"] == "FAIL"
        assert "denies egress and ingress to all pods" in findings["sandbox policy"][0]["seen"]
        assert "a pod without the label grpo-code/sandbox-client reached" in findings["policy in"][0]["seen"]
        assert "a pod in the sandbox's namespace reached the API server, DNS" in findings["policy out"][0]["seen"]
        assert "enforces NetworkPolicy" in findings["policy out"][0]["mend"]
        assert findings["sandbox"][0]["state"] == "ok"
        assert probes_left(cluster, space, unguarded) == []


def test_a_bucket_that_is_not_there(cluster, installed, restored):
    space, contained = installed
    store = secret(
        space, "grpo-code-store", S3_ENDPOINT=f"minio.{space}:9000", S3_SECURE="false", GRPO_STORE="s3://no-such-bucket",
        S3_ACCESS_KEY="doctor", S3_SECRET_KEY="doctor-secret",
    )  # fmt: skip
    restored(store)
    code, findings = doctor(cluster, space, contained)
    assert code == 1
    assert "NoSuchBucket" in findings["store"][0]["seen"]
    assert findings["store"][0]["mend"].startswith("mc mb STORE/no-such-bucket")


def test_a_sandbox_that_reaches_what_it_must_not(cluster, installed, doctor_images):
    """It answers 503: nothing holds it back here, and it is told that it must not reach the API server."""
    space, _ = installed
    with cluster.namespace("doctor-unready", RESTRICTED) as unready:
        objects = sandbox(cluster, unready, doctor_images["sandbox"], "x", guarded=False)
        (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
        told = "--must-not-reach=$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"
        deployment["spec"]["template"]["spec"]["containers"][0]["args"].append(told)
        cluster.apply(*objects)
        for state in ("create", "jsonpath={.status.phase}=Running"):
            cluster.kubectl(
                "wait", "-n", unready, f"--for={state}", "pod", "-l", "app.kubernetes.io/name=sandbox", "--timeout=120s"
            )
        code, findings = doctor(cluster, space, unready)
        assert code == 1
        assert findings["sandbox pods"][0]["state"] == "FAIL"
        assert "none of 1 is ready" in findings["sandbox pods"][0]["seen"]
        assert findings["sandbox pods"][0]["mend"] == f"kubectl get pods,events -n {unready}"
        # The Service is headless: without a ready pod its name leads nowhere.
        assert findings["sandbox"][0]["state"] == "FAIL"
        assert "its name is unknown" in findings["sandbox"][0]["seen"]
