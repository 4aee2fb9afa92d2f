"""What only the probes can tell, where services and the cluster misbehave: every fault named for what it is."""

import json
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from cli.doctor import pods as probe_pods
from cli.doctor.examination import examine
from tests.cluster.cluster import RESTRICTED, eventually
from tests.cluster.doctoring import command, doctor
from tests.cluster.installation import SANDBOX, findings_of, probes_left
from tests.cluster.pods import make_pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

# Services that are no sandbox: each listens where one is expected. The first takes connections and never answers.
HANGS = "import socket, time\nlistening = socket.create_server(('0.0.0.0', 8080), backlog=64)\ntime.sleep(600)"
ANSWERS = """
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = json.dumps({"ready": True, "hello": "I am something else"}).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = answer
http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
"""


def stand_in(cluster, namespace: str, image: str, program: str, *names: str) -> None:
    """A pod that runs a program instead of the sandbox, behind Services of these names."""
    pod = make_pod("stand-in", image, ["python", "-c", program], {"app": "stand-in"})
    pod["metadata"]["namespace"] = namespace
    pod["spec"]["securityContext"] |= {"runAsUser": 65532}
    pod["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    spec = {"selector": {"app": "stand-in"}, "ports": [{"port": 8080}]}
    services = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
        for name in names
    ]
    cluster.apply(pod, *services)
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/stand-in", "--timeout=90s")


def test_a_service_that_is_no_sandbox(cluster, installed, python_image):
    space, _ = installed
    with cluster.namespace("doctor-other", RESTRICTED) as other:
        stand_in(cluster, other, python_image, ANSWERS, "sandbox")
        code, findings = doctor(cluster, space, other)
        assert code == 1
        (found,) = findings["sandbox"]
        assert found["state"] == "FAIL"
        assert "did not pass a right program: {'ready': True, 'hello': 'I am something else'}" in found["seen"]
        assert findings["store"][0]["state"] == "ok"


def test_a_sandbox_that_hangs_does_not_hide_what_the_others_are_like(cluster, installed, python_image):
    """Three names of a service that never answers: more than the probe's time, if each could take all it wants."""
    space, _ = installed
    names = ("sandbox", "sandbox-2", "sandbox-3")
    with cluster.namespace("doctor-hangs", RESTRICTED) as hangs:
        stand_in(cluster, hangs, python_image, HANGS, *names)
        urls = ",".join(f"http://{name}.{hangs}:8080" for name in names)
        begun = time.monotonic()
        code, findings = doctor(cluster, space, hangs, "--sandbox-url", urls)
        assert code == 1
        assert time.monotonic() - begun < 60
        assert [each["state"] for each in findings["sandbox"]] == ["FAIL"] * 3
        assert all("is not ready: timed out" in each["seen"] for each in findings["sandbox"])
        assert findings["image prepare"][0]["state"] == "ok"
        assert findings["store"][0]["state"] == "ok"


def test_a_store_that_hangs(cluster, installed, python_image, restored):
    """What the probe has found by the time that it must end counts; what it waits for is named."""
    space, contained = installed
    with cluster.namespace("doctor-hangs", RESTRICTED) as hangs:
        stand_in(cluster, hangs, python_image, HANGS, "store")
        store = cluster.get("secret", "grpo-code-store", "-n", space)
        for key in ("creationTimestamp", "resourceVersion", "uid", "managedFields", "annotations"):
            store["metadata"].pop(key, None)
        store.pop("data")
        store["stringData"] = {
            "S3_ENDPOINT": f"store.{hangs}:8080", "S3_SECURE": "false", "GRPO_STORE": "s3://doctor/prefix",
            "S3_ACCESS_KEY": "doctor", "S3_SECRET_KEY": "doctor-secret",
        }  # fmt: skip
        restored(store)
        code, findings = doctor(cluster, space, contained)
        assert code == 1
        assert "the store gave no answer while the probe ran" in findings["store"][0]["seen"]
        assert "is S3_ENDPOINT right" in findings["store"][0]["mend"]
        assert findings["sandbox"][0]["state"] == findings["policy out"][0]["state"] == "ok"
        assert probes_left(cluster, *installed) == []


def test_a_hub_that_policies_keep_away(cluster, installed, restored):
    """The policies of the pipeline's namespace without the one for the hub: nothing else is held up by them."""
    space, contained = installed
    policies = list(yaml.safe_load_all(cluster.kubectl("kustomize", "manifests/base/pipeline")))
    policies = [
        each for each in policies if each["kind"] == "NetworkPolicy" and not each["metadata"]["name"].endswith("hub")
    ]
    for each in policies:
        each["metadata"]["namespace"] = space
        text = json.dumps(each).replace(f'"{SANDBOX}"', f'"{contained}"').replace('"kubeflow"', f'"{space}"')
        restored(json.loads(text))
    _, findings = doctor(cluster, space, contained)
    (hub,) = findings["hub"]
    assert hub["state"] == "FAIL"
    assert hub["seen"].startswith("steps that fetch Qwen/Qwen2.5-Coder-7B and mbpp from https://")
    assert "let pods labelled grpo-code/hub-client out" in hub["mend"]
    assert findings["store"][0]["state"] == findings["sandbox"][0]["state"] == "ok"


def test_probes_that_no_node_takes_and_that_the_namespace_refuses(cluster, installed, restored):
    """An image that could not be tried is not called missing."""
    space, contained = installed
    _, findings = doctor(cluster, space, contained, "--node-selector", '{"accelerator": "unheard-of"}')
    (image,) = findings["image train"]
    assert image["state"] == "warn"
    assert "last seen Unschedulable" in image["seen"]
    assert image["mend"] == "no node took its pod: the lines about nodes say why"
    metadata = {"name": "no-pods", "namespace": space}
    restored({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "0"}}})
    eventually(lambda: "used" in cluster.get("quota", "no-pods", "-n", space).get("status", {}), "a quota in force")
    _, findings = doctor(cluster, space, contained)
    (image,) = findings["image train"]
    assert image["state"] == "FAIL"
    assert "could run: " in image["seen"]
    assert "exceeded quota: no-pods" in image["seen"]
    assert image["mend"] == f"kubectl describe quota,limitrange -n {space}"
    assert findings["store"][0]["state"] == "skipped"
    assert "no pod could look" in findings["store"][0]["seen"]


def test_a_killed_doctors_pods_are_swept_and_that_is_said(cluster, installed, place, monkeypatch):
    pod = probe_pods.pod_of(probe_pods.Probe("old", installed[0], "nothing:1", []), "")
    cluster.apply(pod)
    old = pod["metadata"]["name"]
    age = probe_pods._age_seconds
    monkeypatch.setattr(probe_pods, "_age_seconds", lambda each: 1e6 if each["metadata"]["name"] == old else age(each))
    found = [finding for group in examine(place, probing=True) for finding in group]
    assert [each.state for each in found if each.seen == "1 pods of a doctor that was killed were removed"] == ["warn"]
    assert probes_left(cluster, *installed) == []


@pytest.fixture(scope="module", autouse=True)
def unanswered(cluster, installed):
    """A doctor that asks a KFP which listens, and that is all. It waits for most of a minute: others need not."""

    def ask():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            line, environment = command(cluster, *installed, "--no-probe")
            environment["KFP_ENDPOINT"] = f"http://127.0.0.1:{listening.getsockname()[1]}"
            begun = time.monotonic()
            subprocess.run([*line, "--help"], env=environment, capture_output=True, check=True)
            started = time.monotonic()  # by then one is there at all, on a machine that is as busy
            done = subprocess.run(line, env=environment, capture_output=True, text=True)
            return done.stdout, (time.monotonic() - started) - (started - begun)

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(ask)


def test_a_kubeflow_pipelines_that_never_answers(unanswered):
    """The doctor ends within its minute nevertheless."""
    said, seconds = unanswered.result()
    assert seconds < 70
    (found,) = findings_of(said)["kfp"]
    assert (found["state"], found["seen"]) == ("FAIL", "no answer within 50 s")
    assert found["mend"] == "kubectl get pods -n kubeflow"
