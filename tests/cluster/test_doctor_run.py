"""Every trouble of a pod provoked on a real cluster, and named by `doctor --run`, asked as a person would."""

import contextlib
import json
import sys
import time
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.record import hollow_node, reach, release, start
from tests.cluster.troubles import CASES, FINALIZER, HOLLOW, RUN, Case, asks, disrupted

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
OWN = "grpo-code.test/accelerator"


def run_of(case: Case) -> str:
    return f"{RUN}-{case.name}"


@pytest.fixture(scope="module")
def troubled(cluster: Cluster, python_image: str):
    """A namespace with a pod in every trouble, each of a run of its own, all started at once."""
    with cluster.namespace("doctor-run") as namespace, hollow_node(cluster):
        cluster.kubectl("create", "secret", "generic", "half-a-secret", "-n", namespace, "--from-literal=KEY=x")
        # first those for the hollow node, which nobody beats the heart of: within a minute it counts as lost
        for case in sorted(CASES, key=lambda case: not case.hollow):
            start(cluster, namespace, case, python_image, run=run_of(case))
        try:
            yield namespace
        finally:
            release(cluster, namespace)


def doctor(cluster: Cluster, namespace: str, run: str) -> tuple[int, dict]:
    command = [sys.executable, "pipeline.py", "doctor", "--run", run, "--namespace", namespace, "--json"]
    done = cluster.run(*command, check=False)
    assert done.stdout, done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert len(findings) == 1
    return done.returncode, findings[0]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_trouble_is_named(cluster, troubled, case):
    reach(cluster, troubled, case)
    code, finding = doctor(cluster, troubled, run_of(case))
    for words in case.said:
        assert words.replace(RUN, run_of(case)) in f"{finding['seen']} -> {finding['mend']}"
    assert code == (0 if case.name == "fine" else 1)


@contextlib.contextmanager
def offered(cluster: Cluster, resource: str, amount: str) -> Iterator[None]:
    """A node that works offers a resource of the test's own, for which nobody else asks; as administrators add one:

    https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/
    """
    ready = {"type": "Ready", "status": "True"}
    nodes = [each for each in cluster.get("nodes")["items"] if HOLLOW not in each["metadata"]["labels"]]
    node = next(each for each in nodes if any(ready.items() <= one.items() for one in each["status"]["conditions"]))
    places = [f"/status/{part}/{resource.replace('/', '~1')}" for part in ("capacity", "allocatable")]

    def patch(**how: str) -> None:
        lines = json.dumps([{"path": place, **how} for place in places])
        name = node["metadata"]["name"]
        cluster.kubectl("patch", "node", name, "--subresource=status", "--type=json", "-p", lines)

    patch(op="add", value=amount)
    try:
        yield
    finally:
        patch(op="remove")


def test_a_pod_that_was_preempted(cluster, python_image):
    """All of a resource is held by the run's step when a pod that counts for more asks for it."""
    low = Case("low", disrupted, (), container=asks(**{OWN: "2"}), metadata={"finalizers": [FINALIZER]})
    high = Case("high", disrupted, (), {"priorityClassName": "doctor-test-high"}, asks(**{OWN: "1"}))
    name = {"name": "doctor-test-high"}
    cluster.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": name, "value": 1000000})
    with offered(cluster, OWN, "2"), cluster.namespace("doctor-run") as namespace:
        try:
            start(cluster, namespace, low, python_image)
            cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/run-low", "--timeout=60s")
            start(cluster, namespace, high, python_image, run="another")
            reach(cluster, namespace, low)
            code, finding = doctor(cluster, namespace, RUN)
            assert (code, finding["seen"]) == (1, "train: preempted by a pod of higher priority")
            assert finding["mend"] == f"kubectl get priorityclasses; then: python pipeline.py run --resume {RUN}"
        finally:
            patch = '{"metadata": {"finalizers": null}}'
            cluster.kubectl("patch", "pod", "run-low", "-n", namespace, "--type=merge", "-p", patch, check=False)
            cluster.kubectl("delete", "priorityclass", "doctor-test-high")


def test_a_run_that_does_not_exist(cluster, troubled):
    code, finding = doctor(cluster, troubled, "0000")
    assert (code, finding["seen"]) == (1, "nothing is known of a run 0000")


def test_the_answer_comes_at_once(cluster, troubled):
    begun = time.monotonic()
    doctor(cluster, troubled, run_of(CASES[0]))
    assert time.monotonic() - begun < 60
