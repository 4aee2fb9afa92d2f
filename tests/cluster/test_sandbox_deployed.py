"""The sandbox as deployed: ready in time, judging for those who may ask, walled in, scaled; refused when softened."""

import datetime
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import Images, deploy
from tests.cluster.pods import CLIENT, TOKEN, make_pod, run_python, running, what_is_reached
from tests.manifests.rendering import OVERLAYS
from tests.manifests.schema import OTHERS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

HOME, OWN = "grpo-code-sandbox", "grpo-code"
SECONDS_TO_BE_READY = 10
# Asks for one verdict at a URL until there is an answer of any kind; prints the status and the outcome.
ASKS = """
import json, os, sys, time, urllib.error, urllib.request
item = {"id": "1", "program": "def f(n):\\n    return n * n", "entry_point": "f", "setup": "",
        "tests": ["assert f(3) == 9"], "timeout_s": 5}
headers = {"Content-Type": "application/json"}
if os.environ.get("TOKEN"):
    headers["Authorization"] = "Bearer " + os.environ["TOKEN"]
answer, deadline = None, time.monotonic() + float(sys.argv[2])
while answer is None and time.monotonic() < deadline:
    try:
        request = urllib.request.Request(sys.argv[1] + "/v1/verdicts", json.dumps({"items": [item]}).encode(), headers)
        with urllib.request.urlopen(request, timeout=20) as reply:
            answer = [reply.status, json.load(reply)["verdicts"][0]["outcome"]]
    except urllib.error.HTTPError as error:
        answer = [error.code, ""]
    except OSError:
        time.sleep(0.5)
print(json.dumps(answer))
"""


def asked(cluster: Cluster, images: Images, namespace: str, url: str, *, patience: int = 30, **more: Any) -> Any:
    """[status, outcome] of one verdict asked for by a pod, None when nobody answered for `patience` seconds."""
    ended = run_python(cluster, namespace, images["sandbox"], ASKS, url, str(patience), **more)
    assert ended.code == 0, ended.printed
    return json.loads(ended.printed)


@pytest.fixture
def pipeline(cluster: Cluster, namespace: str) -> str:
    """A namespace whose labelled pods may use the sandbox, with the token there."""
    secret = cluster.get("-n", HOME, "secret", "grpo-code-sandbox")
    metadata = {"name": "grpo-code-sandbox", "namespace": namespace}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": secret["data"]})
    return namespace


@pytest.fixture
def unlabelled(cluster: Cluster) -> Iterator[str]:
    """A namespace that is none of the pipeline's, held by no policy."""
    with cluster.namespace("test-other") as name:
        yield name


def places(cluster: Cluster, outside: str) -> list[tuple[str, int]]:
    """A host outside, the API server's service address, the node's kubelet, the cluster's name server."""
    addresses = [each for node in cluster.get("nodes")["items"] for each in node["status"].get("addresses", [])]
    node = next(each["address"] for each in addresses if each["type"] == "InternalIP")
    api = cluster.get("-n", "default", "service", "kubernetes")["spec"]["clusterIP"]
    names = cluster.get("-n", "kube-system", "service", "kube-dns")["spec"]["clusterIP"]
    return [(outside, 80), (api, 443), (node, 10250), (names, 53)]


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_it_is_ready_in_time_once_its_image_is_there(cluster: Cluster, sandbox: str) -> None:
    cluster.kubectl("-n", HOME, "delete", "pod", "-l", "app.kubernetes.io/name=sandbox", "--grace-period=1")
    cluster.kubectl("-n", HOME, "rollout", "status", "deployment/sandbox", "--timeout=120s")
    pods = cluster.get("-n", HOME, "pods", "-l", "app.kubernetes.io/name=sandbox")["items"]
    pod = max(pods, key=lambda each: each["metadata"]["creationTimestamp"])
    ready = next(each for each in pod["status"]["conditions"] if each["type"] == "Ready")
    assert ready["status"] == "True"
    took = moment(ready["lastTransitionTime"]) - moment(pod["metadata"]["creationTimestamp"])
    assert took.total_seconds() <= SECONDS_TO_BE_READY
    logs = cluster.kubectl("-n", HOME, "logs", pod["metadata"]["name"])
    assert "what must not be reached cannot be reached" in logs


@pytest.mark.parametrize("service", ["sandbox", "sandbox-balanced"])
def test_a_pod_with_the_label_gets_its_verdict(
    cluster: Cluster, images: Images, sandbox: str, pipeline: str, service: str
) -> None:
    url = f"http://{service}.{HOME}:8080"
    assert asked(cluster, images, pipeline, url, labels=CLIENT, env=[TOKEN]) == [200, "passed"]


def test_a_pod_with_the_label_and_no_token_is_told_so(
    cluster: Cluster, images: Images, sandbox: str, pipeline: str
) -> None:
    assert asked(cluster, images, pipeline, sandbox, labels=CLIENT) == [401, ""]


def test_both_labels_are_needed(cluster: Cluster, images: Images, sandbox: str, pipeline: str, unlabelled: str) -> None:
    """Each held back while a pod with both labels is served (the test above): the rule is AND, not OR."""
    address = cluster.get("-n", HOME, "service", "sandbox-balanced")["spec"]["clusterIP"]
    for namespace, labels in ((pipeline, {}), (unlabelled, CLIENT)):
        reached = what_is_reached(
            cluster, namespace, images["sandbox"], [(address, 8080)], expected=False, labels=labels
        )
        assert reached == [False]
    reached = what_is_reached(cluster, pipeline, images["sandbox"], [(address, 8080)], expected=True, labels=CLIENT)
    assert reached == [True]


def test_nothing_gets_out_of_the_sandboxs_namespace(
    cluster: Cluster, images: Images, sandbox: str, unlabelled: str, outside: str
) -> None:
    targets = places(cluster, outside)
    image = images["sandbox"]
    assert what_is_reached(cluster, unlabelled, image, targets, expected=True) == [True] * len(targets)
    assert what_is_reached(cluster, HOME, image, targets, expected=False) == [False] * len(targets)


def test_a_step_reaches_the_sandbox_names_and_the_api_server_and_no_more(
    cluster: Cluster, images: Images, sandbox: str, outside: str
) -> None:
    beyond, api, _, names = places(cluster, outside)
    image, address = images["sandbox"], cluster.get("-n", HOME, "service", "sandbox-balanced")["spec"]["clusterIP"]
    allowed = [(address, 8080), api, names]
    assert what_is_reached(cluster, OWN, image, allowed, expected=True, labels=CLIENT) == [True] * 3
    assert what_is_reached(cluster, OWN, image, [beyond], expected=False, labels=CLIENT) == [False]
    others = [beyond, (address, 8080)]
    assert what_is_reached(cluster, OWN, image, others, expected=False) == [False] * 2


def test_in_a_shared_namespace_labels_hold_a_step_and_nobody_else(
    cluster: Cluster, images: Images, sandbox: str, namespace: str, outside: str
) -> None:
    """The policies of base/pipeline alone, as where runs share KFP's own namespace."""
    policies = list(yaml.safe_load_all(cluster.kubectl("kustomize", "manifests/base/pipeline")))
    for thing in policies:
        thing["metadata"]["namespace"] = namespace
    cluster.apply(*(thing for thing in policies if thing["kind"] == "NetworkPolicy"))
    beyond, api, _, names = places(cluster, outside)
    image, judge = (
        images["sandbox"],
        (cluster.get("-n", HOME, "service", "sandbox-balanced")["spec"]["clusterIP"], 8080),
    )
    step = {"app.kubernetes.io/part-of": "grpo-code"}
    for labels, yes, no in (
        ({}, [beyond, api, names], []),
        (step, [api, names], [beyond, judge]),
        (CLIENT, [judge, names], [beyond, api]),
        (step | CLIENT, [judge, api, names], [beyond]),
    ):
        assert what_is_reached(cluster, namespace, image, yes, expected=True, labels=labels) == [True] * len(yes)
        if no:
            assert what_is_reached(cluster, namespace, image, no, expected=False, labels=labels) == [False] * len(no)


def test_scrapes_come_from_the_monitoring_namespace_alone(
    cluster: Cluster, images: Images, sandbox: str, pipeline: str
) -> None:
    policy = ["-f", "manifests/components/monitoring/network.yaml"]
    metrics = [(cluster.get("-n", HOME, "endpoints", "sandbox")["subsets"][0]["addresses"][0]["ip"], 9090)]
    image = images["sandbox"]
    was_there = "NotFound" not in cluster.kubectl("get", "namespace", "monitoring", check=False)
    if not was_there:
        cluster.kubectl("create", "namespace", "monitoring")
    try:
        assert what_is_reached(cluster, "monitoring", image, metrics, expected=False) == [False]
        cluster.kubectl("apply", *policy)
        assert what_is_reached(cluster, "monitoring", image, metrics, expected=True) == [True]
        assert what_is_reached(cluster, pipeline, image, metrics, expected=False, labels=CLIENT) == [False]
    finally:
        cluster.kubectl("delete", *policy, "--ignore-not-found")
        if not was_there:
            cluster.kubectl("delete", "namespace", "monitoring", "--wait=false")


def test_a_pod_can_be_debugged(cluster: Cluster, sandbox: str, images: Images) -> None:
    pod = make_pod("debugged", images["sandbox"], ["python", "-c", "import time; time.sleep(120)"])
    with running(cluster, HOME, pod) as name:
        cluster.kubectl("-n", HOME, "wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")
        command = ["debug", name, "--profile=restricted", f"--image={images['sandbox']}", "--container=look"]
        cluster.kubectl("-n", HOME, *command, "--attach=false", "--", "python", "-c", "print('seen')")
        assert eventually(lambda: "seen" in cluster.kubectl("-n", HOME, "logs", name, "-c", "look", check=False))


def eventually(condition: Callable[[], bool], seconds: float = 120) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(1)
    return condition()


def test_the_autoscaler_sees_the_sandboxs_cpu(cluster: Cluster, metrics_api: None, sandbox: str) -> None:
    def sees() -> bool:
        status = cluster.get("-n", HOME, "hpa", "sandbox")["status"]
        return any("averageUtilization" in each["resource"]["current"] for each in status.get("currentMetrics") or [])

    assert eventually(sees)


def test_a_replica_more_is_found_by_name(cluster: Cluster, sandbox: str, images: Images, pipeline: str) -> None:
    patch = json.dumps({"spec": {"minReplicas": 2}})
    cluster.kubectl("-n", HOME, "patch", "hpa", "sandbox", "--type=merge", "-p", patch)
    try:
        ready = lambda: cluster.get("-n", HOME, "deployment", "sandbox")["status"].get("readyReplicas") == 2  # noqa: E731
        assert eventually(ready)
        program = "import json, socket, sys; print(len(set(r[4][0] for r in socket.getaddrinfo(sys.argv[1], 8080))))"
        assert eventually(
            lambda: run_python(cluster, pipeline, images["sandbox"], program, f"sandbox.{HOME}").printed.strip() == "2"
        )
    finally:
        patch = json.dumps({"spec": {"minReplicas": 1}})
        cluster.kubectl("-n", HOME, "patch", "hpa", "sandbox", "--type=merge", "-p", patch)
        cluster.kubectl("-n", HOME, "scale", "deployment/sandbox", "--replicas=1")


def kinds_known(cluster: Cluster) -> set[str]:
    """Kinds of Prometheus' operator of which this cluster has the definitions."""
    text = cluster.kubectl("api-resources", "--api-group=monitoring.coreos.com", "--no-headers", check=False)
    return {line.split()[-1] for line in text.splitlines() if "monitoring.coreos.com" in line}


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_passes_a_server_side_dry_run(cluster: Cluster, sandbox: str, name: str) -> None:
    """Unknown fields are refused. Custom resources that the cluster does not know are left to tests/manifests."""
    objects = list(yaml.safe_load_all(cluster.kubectl("kustomize", f"manifests/overlays/{name}")))
    objects = [thing for thing in objects if thing["kind"] not in set(OTHERS) - kinds_known(cluster)]
    needed = {thing["metadata"].get("namespace") for thing in objects} - {None}
    missing = [place for place in needed if "NotFound" in cluster.kubectl("get", "namespace", place, check=False)]
    try:
        for place in missing:
            cluster.kubectl("create", "namespace", place)
        text = yaml.safe_dump_all(objects)
        command = ["apply", "--server-side", "--force-conflicts", "--field-manager=grpo-code", "--dry-run=server"]
        said = cluster.kubectl(*command, "--validate=strict", "-f", "-", input=text)
        assert said.count("serverside-applied") == len(objects)
    finally:
        for place in missing:
            cluster.kubectl("delete", "namespace", place, "--timeout=120s")  # gone, for the next one to make it


def test_what_is_for_the_operator_is_what_it_takes(cluster: Cluster, sandbox: str) -> None:
    """Against the operator's own definitions, by which a misspelt field is refused."""
    if not set(OTHERS) <= kinds_known(cluster):
        pytest.skip(
            f"the cluster has no definitions of {' and '.join(OTHERS)}: install Prometheus' operator, or its CRDs"
        )
    text = Path("manifests/components/monitoring/prometheus.yaml").read_text()
    command = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"]
    assert cluster.kubectl(*command, input=text).count("(server dry run)") == 2
    for right, wrong in (
        ("interval: 15s", "interval: 15x"),
        ("interval: 15s", "intervall: 15s"),
        ("for: 2m", "for: 2"),
    ):
        assert right in text
        said = cluster.kubectl(*command, input=text.replace(right, wrong), check=False)
        assert "invalid" in said.lower() or "unknown field" in said, said


def test_deploying_again_keeps_the_token(cluster: Cluster, sandbox: str, images: Images) -> None:
    before = cluster.get("-n", HOME, "secret", "grpo-code-sandbox")["data"]
    deploy(cluster, images)
    assert cluster.get("-n", HOME, "secret", "grpo-code-sandbox")["data"] == before
    assert cluster.get("-n", OWN, "secret", "grpo-code-sandbox")["data"] == before


def test_what_is_deployed_is_judged_for_by_the_products_own_client(
    cluster: Cluster, images: Images, sandbox: str, pipeline: str
) -> None:
    program = (
        "from components.shared.sandbox import Item, SandboxClient\n"
        f"client = SandboxClient({sandbox!r})\n"
        "items = [Item(f'def f(n):\\n    return n + {k}', 'f', '', ['assert f(1) == 2'], 5.0) for k in (1, 2)]\n"
        "print([verdict.outcome for verdict in client.judge(items)])\n"
    )
    env = [{**TOKEN, "name": "GRPO_SANDBOX_TOKEN"}]
    ended = run_python(cluster, pipeline, images["prepare"], program, labels=CLIENT, env=env)
    assert ended.printed.splitlines()[-1] == "['passed', 'failed']", ended.printed
