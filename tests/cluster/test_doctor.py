"""`doctor` on a real cluster: a sound installation is called sound, and every fault is provoked once and named."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from cli import parameters
from cli.cluster import Cluster as Connection
from cli.doctor import pods as probe_pods
from cli.doctor.finding import Finding
from cli.doctor.installation import (
    Installation,
    account_findings,
    capacity_findings,
    namespace_findings,
    sandbox_findings,
    secret_findings,
)
from tests.cluster.cluster import RESTRICTED, Cluster
from tests.cluster.installation import (
    ACCOUNT,
    SANDBOX,
    TAG,
    findings_of,
    objects_left,
    probes_left,
    sandbox,
    secret,
)
from tests.cluster.record import hollow_node
from tests.cluster.troubles import HOLLOW

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
SMALL = {
    f"{step}_{kind}": size for step in ("train", "evaluate") for kind, size in (("cpu", "50m"), ("memory", "64Mi"))
}
SMALL |= {"prepare_cpu": "50m", "prepare_memory": "64Mi"}


def command(
    cluster: Cluster, space: str, contained: str, *more: str, tag: str = TAG
) -> tuple[list[str], dict[str, str]]:
    """The doctor's command line, and its environment."""
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    url = f"http://sandbox.{contained}:8080"
    line = [
        sys.executable,
        "pipeline.py",
        "doctor",
        "--namespace",
        space,
        "--sandbox-url",
        url,
        "--json",
        *flags,
        *more,
    ]
    return line, {**cluster.environment, "REGISTRY": str(cluster.registry), "TAG": tag}


def doctor(
    cluster: Cluster, space: str, contained: str, *more: str, tag: str = TAG
) -> tuple[int, dict[str, list[dict]]]:
    """The exit code and the findings by check."""
    line, environment = command(cluster, space, contained, *more, tag=tag)
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert done.stdout, done.stderr
    return done.returncode, findings_of(done.stdout)


@pytest.fixture
def place(cluster: Cluster, installed, monkeypatch) -> Installation:
    """The installation as the doctor's checks take it."""
    space, contained = installed
    monkeypatch.setenv("KUBECONFIG", cluster.environment["KUBECONFIG"])
    given = parameters.merged({**SMALL, "sandbox_url": f"http://sandbox.{contained}:8080"})
    images = {step: f"{cluster.registry}/grpo-code-{step}:{TAG}" for step in ("prepare", "train", "evaluate")}
    return Installation(Connection.connect(namespace=space), given, images, ACCOUNT)


def given(place: Installation, **changes) -> Installation:
    return replace(place, parameters={**place.parameters, **changes})


def failed(findings) -> list[Finding]:
    return [finding for finding in findings if finding.state == "FAIL"]


@pytest.fixture
def restored(cluster: Cluster):
    """Applies objects for one test; those that were there before come back as they were."""
    with contextlib.ExitStack() as stack:

        def put(*objects):
            for each in objects:
                names = (each["kind"], each["metadata"]["name"], "-n", each["metadata"]["namespace"])
                before = cluster.kubectl("get", *names, "-o", "yaml", "--ignore-not-found")
                stack.callback(cluster.kubectl, "apply", "--force", "-f", "-", input=before) if before else None
                stack.callback(cluster.kubectl, "delete", *names, "--ignore-not-found", "--grace-period=0", "--force")
            cluster.kubectl("delete", "--ignore-not-found", "-f", "-", input=as_list(objects))
            cluster.apply(*objects)

        yield put


def as_list(objects) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def test_a_sound_installation(cluster, installed):
    begun = time.monotonic()
    code, findings = doctor(cluster, *installed)
    seconds = time.monotonic() - begun
    states = {check: {each["state"] for each in group} for check, group in findings.items()}
    unknown = {"kfp", "model"}  # neither a KFP nor the model hub need be at hand here
    assert {check: state for check, state in states.items() if state != {"ok"} and check not in unknown} == {}
    assert {"store", "sandbox", "sandbox layers", "policy in", "policy out", "image train"} < states.keys()
    assert code == (1 if states["kfp"] == {"FAIL"} else 0)
    assert seconds < 60
    assert probes_left(cluster, *installed) == []
    assert objects_left(cluster, installed[0]) == []


def test_without_probes_nothing_is_made(cluster, installed):
    before = cluster.kubectl("get", "pods", "-A", "-o", "name")
    _, findings = doctor(cluster, *installed, "--no-probe")
    assert findings["probes"][0]["state"] == "skipped"
    assert "grpo-code-doctor" not in before + cluster.kubectl(
        "get", "events", "-n", installed[0], "-o", "name", "--field-selector=reason=none"
    )
    assert "store" not in findings


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_doctor_leaves_nothing(cluster, installed, number):
    line, environment = command(cluster, *installed)
    process = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 40
        while not cluster.get("pods", "-n", installed[0], "-l", "grpo-code/doctor")["items"]:
            assert time.monotonic() < deadline, "no probe pod appeared"
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
    assert "grpo-code-filter:doctor-test cannot be pulled" in findings["image filter"][0]["seen"]
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
        assert "reached the API server, DNS" in findings["policy out"][0]["seen"]
        assert "enforces NetworkPolicy" in findings["policy out"][0]["mend"]
        assert findings["sandbox"][0]["state"] == "ok"
        assert probes_left(cluster, space, unguarded) == []


def test_a_sandbox_that_cannot_start(cluster, installed, place):
    with cluster.namespace("doctor-broken", RESTRICTED) as broken:
        cluster.apply(*sandbox(cluster, broken, f"{cluster.registry}/grpo-code/never-pushed:1", "x"))
        deadline = time.monotonic() + 60
        while True:
            found = failed(sandbox_findings(given(place, sandbox_url=f"http://sandbox.{broken}:8080")))
            if "cannot be pulled" in found[0].seen or time.monotonic() > deadline:
                break
        assert "never-pushed:1 cannot be pulled" in found[0].seen


def test_nameinstalled(place, cluster):
    nowhere = Connection.connect(namespace="no-such-namespace")
    assert (
        failed(namespace_findings(replace(place, cluster=nowhere)))[0].seen == "there is no namespace no-such-namespace"
    )
    with cluster.namespace("doctor-plain") as plain:
        found = failed(namespace_findings(replace(place, cluster=Connection.connect(namespace=plain))))
        assert "lacks the label grpo-code/pipeline=true" in found[0].seen
        cluster.kubectl(*found[0].mend.split()[1:])
        assert not failed(namespace_findings(replace(place, cluster=Connection.connect(namespace=plain))))


def test_accounts(place, cluster):
    assert not failed(account_findings(place))
    assert (
        "there is no ServiceAccount nobody"
        in failed(account_findings(replace(place, service_account="nobody")))[0].seen
    )
    found = failed(account_findings(replace(place, service_account="default")))
    assert "default may not create workflowtaskresults.argoproj.io" in found[0].seen
    assert cluster.kubectl(*found[0].mend.split("then: kubectl ")[1].split(), check=False).startswith("no")


def test_secrets(place, installed, cluster, restored):
    space, _ = installed
    assert not failed(secret_findings(place))
    absent = failed(secret_findings(given(place, store_secret="nothing", sandbox_secret="nothing")))
    assert [finding.check for finding in absent] == ["secret store", "secret sandbox"]
    assert absent[0].mend.startswith(f"kubectl create secret generic nothing -n {space}")
    restored(secret(space, "grpo-code-store", S3_ENDPOINT="x"), secret(space, SANDBOX, TOKEN="another"))
    wrong = failed(secret_findings(place))
    assert "lacks S3_ACCESS_KEY, S3_SECRET_KEY" in wrong[0].seen
    assert "holds another token" in wrong[1].seen
    assert "another" not in wrong[1].line.replace("holds another token", ""), "no value is ever shown"
    subprocess.run(["bash", "-c", wrong[1].mend], env=cluster.environment, check=True, capture_output=True)
    assert [finding.check for finding in failed(secret_findings(place))] == ["secret store"], "the remedy mends it"


def test_quota(place, installed, restored):
    assert not failed(capacity_findings(place))
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-gpus", "namespace": installed[0]},
        "spec": {"hard": {"requests.nvidia.com/gpu": "0"}},
    }
    restored(quota)
    deadline = time.monotonic() + 20
    while not (found := failed(capacity_findings(place))) and time.monotonic() < deadline:
        time.sleep(0.3)
    assert found[0].check == "train+evaluate admission"
    assert "exceeded quota: no-gpus" in found[0].seen
    assert found[0].mend == f"kubectl describe quota,limitrange -n {installed[0]}"


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"gpu_resource": "example.com/npu"}, "train+evaluate gpus", "no node offers example.com/npu"),
        ({"gpus": "64"}, "train+evaluate gpus", "no node has the 64 of train+evaluate"),
        (
            {"node_selector": {"accelerator": "unheard-of"}},
            "train+evaluate node selector",
            "has the labels accelerator=",
        ),
        ({"train_memory": "64Ti"}, "train room", "no node is large enough for train"),
    ],
)
def test_nodes(place, changes, check, words):
    found = failed(capacity_findings(given(place, **changes)))
    assert [finding.check for finding in found] == [check]
    assert words in found[0].seen


def test_a_tainted_and_a_cordoned_node(place, cluster):
    with hollow_node(cluster):
        chosen = given(place, gpus="0", node_selector={HOLLOW: "true"})
        found = failed(capacity_findings(chosen))
        assert "hollow has dedicated=others:NoSchedule" in found[0].seen
        tolerations = json.loads(found[0].mend.removeprefix("--tolerations ").strip("'"))
        assert not failed(capacity_findings(given(chosen, tolerations=tolerations))), "the remedy mends it"
        cluster.kubectl("cordon", "hollow")
        found = failed(capacity_findings(given(chosen, tolerations=tolerations)))
        assert (found[0].seen, found[0].mend) == ("hollow is cordoned", "kubectl uncordon hollow")


def test_gpus_that_are_taken(place, installed, cluster, python_image):
    node = next(node for node in place.cluster.list("nodes") if "nvidia.com/gpu" in node["status"]["allocatable"])
    gpus = node["status"]["allocatable"]["nvidia.com/gpu"]
    holder = probe_pods.pod_of(
        probe_pods.Probe("holder", installed[0], python_image, []), "import time; time.sleep(300)"
    )
    holder["metadata"]["name"] = "holder"
    del holder["metadata"]["labels"]["grpo-code/doctor"]
    holder["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = gpus
    cluster.apply(holder)
    try:
        cluster.kubectl("wait", "-n", installed[0], "--for=condition=PodScheduled", "pod/holder", "--timeout=60s")
        found = failed(capacity_findings(place))
        assert found[0].check == "train+evaluate room"
        assert (
            f"0 nvidia.com/gpu free and 1 asked for (nvidia.com/gpu is held by {installed[0]}/holder)" in found[0].seen
        )
    finally:
        cluster.kubectl("delete", "pod", "holder", "-n", installed[0], "--grace-period=0", "--force")
