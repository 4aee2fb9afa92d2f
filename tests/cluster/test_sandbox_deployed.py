"""The sandbox as deployed: ready in time, judging for those who may ask, looked into, scaled, deployed again."""

import datetime
from pathlib import Path

import pytest
import yaml

from tests.cluster.asking import HOME, asked, let_in, two_replicas
from tests.cluster.cluster import Cluster, eventually
from tests.cluster.conftest import Images, deploy
from tests.cluster.pods import CLIENT, TOKEN, contained, make_pod, run_python, running
from tests.manifests.rendering import OVERLAYS
from tests.manifests.schema import OTHERS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

OWN = "grpo-code"
SECONDS_TO_BE_READY = 10


@pytest.fixture
def pipeline(cluster: Cluster, namespace: str) -> str:
    """A namespace whose labelled pods may use the sandbox, with the token there."""
    let_in(cluster, namespace)
    return namespace


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


def test_a_pod_can_be_debugged(cluster: Cluster, sandbox: str, images: Images) -> None:
    pod = contained(make_pod("debugged", images["sandbox"], ["python", "-c", "import time; time.sleep(120)"]))
    with running(cluster, HOME, pod) as name:
        cluster.kubectl("-n", HOME, "wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")
        command = ["debug", name, "--profile=restricted", f"--image={images['sandbox']}", "--container=look"]
        cluster.kubectl("-n", HOME, *command, "--attach=false", "--", "python", "-c", "print('seen')")
        eventually(lambda: "seen" in cluster.kubectl("-n", HOME, "logs", name, "-c", "look", check=False), "its word")


def test_the_autoscaler_sees_the_sandboxs_cpu(cluster: Cluster, metrics_api: None, sandbox: str) -> None:
    def sees() -> bool:
        seen = cluster.get("-n", HOME, "hpa", "sandbox").get("status", {}).get("currentMetrics") or []
        # before the first reading there is one without a source
        return any("averageUtilization" in each.get("resource", {}).get("current", {}) for each in seen)

    eventually(sees, "CPU time that the autoscaler sees")


def test_a_replica_more_is_found_by_name(cluster: Cluster, sandbox: str, images: Images, pipeline: str) -> None:
    program = "import json, socket, sys; print(len(set(r[4][0] for r in socket.getaddrinfo(sys.argv[1], 8080))))"

    def found() -> str:
        return run_python(cluster, pipeline, images["sandbox"], program, f"sandbox.{HOME}").printed.strip()

    with two_replicas(cluster):
        eventually(lambda: found() == "2", "two addresses behind the name")


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
