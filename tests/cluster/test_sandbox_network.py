"""Who gets where, by trying: judged programs and the sandbox's pods nowhere, steps where their policies say."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
import yaml

from tests.cluster.asking import HOME, let_in, posted, two_replicas
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import Images
from tests.cluster.pods import (
    CLIENT,
    TCP,
    TOKEN,
    TRIED,
    UDP,
    Place,
    contained,
    make_pod,
    running,
    what_a_pod_reaches,
    what_is_reached,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

OWN = "grpo-code"
STEP = {"app.kubernetes.io/part-of": "grpo-code"}
LISTENS = """
import socket
listening = socket.create_server(("0.0.0.0", 8080))
while True:
    listening.accept()[0].close()
"""
NAMES, API, NODE = ("DNS", "DNS by UDP"), "the API server", "the node"
REFUSED = "socket: EPERM"  # what a judged program gets instead of a socket


@dataclass(frozen=True)
class Others:
    """A namespace that is none of the pipeline's and that no policy holds, with a pod that listens behind a Service."""

    namespace: str
    pod: Place
    service: Place


@pytest.fixture(scope="module")
def others(cluster: Cluster, images: Images) -> Iterator[Others]:
    with cluster.namespace("test-other") as space:
        pod = make_pod("listens", images["sandbox"], ["python", "-c", LISTENS], {"app": "listens"})
        pod["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
        spec = {"selector": {"app": "listens"}, "ports": [{"port": 8080}]}
        metadata = {"name": "listens", "namespace": space}
        cluster.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        with running(cluster, space, pod) as name:
            cluster.kubectl("wait", "-n", space, "--for=condition=Ready", f"pod/{name}", "--timeout=90s")
            address = cluster.get("-n", space, "pod", name)["status"]["podIP"]
            service = cluster.get("-n", space, "service", name)["spec"]["clusterIP"]
            yield Others(space, (address, 8080, TCP), (service, 8080, TCP))


@pytest.fixture(scope="module")
def replicas(cluster: Cluster, sandbox: str) -> Iterator[dict[str, str]]:
    """Two pods of the sandbox, so that each has another one to reach for: their addresses by name."""
    with two_replicas(cluster) as pods:
        yield pods


@pytest.fixture
def places(cluster: Cluster, others: Others) -> dict[str, Place]:
    """Everything that could be reached, a host outside only where there is one."""
    addresses = [each for node in cluster.get("nodes")["items"] for each in node["status"].get("addresses", [])]
    node = next(each["address"] for each in addresses if each["type"] == "InternalIP")
    api = cluster.get("-n", "default", "service", "kubernetes")["spec"]["clusterIP"]
    names = cluster.get("-n", "kube-system", "service", "kube-dns")["spec"]["clusterIP"]
    found: dict[str, Place] = {
        API: (api, 443, TCP),
        NODE: (node, 10250, TCP),  # its kubelet
        "DNS": (names, 53, TCP),
        "DNS by UDP": (names, 53, UDP),
        "a pod elsewhere": others.pod,
        "a service elsewhere": others.service,
    }
    return found | ({"a host outside": (cluster.outside, 80, TCP)} if cluster.outside else {})


@pytest.fixture
def judge(cluster: Cluster, sandbox: str) -> dict[str, Place]:
    """The sandbox's one address."""
    service = cluster.get("-n", HOME, "service", "sandbox-balanced")
    return {"the sandbox": (service["spec"]["clusterIP"], 8080, TCP)}


def test_a_host_outside_is_among_the_places(outside: str, places: dict[str, Place]) -> None:
    """Skipped, with the reason, where there is none: the tests below do without it then."""
    assert places["a host outside"] == (outside, 80, TCP)


@dataclass(frozen=True)
class Prober:
    """Pods that try places."""

    cluster: Cluster
    image: str

    def holds(
        self, namespace: str, places: dict[str, Place], yes: Sequence[str], labels: dict[str, str] | None = None
    ) -> None:
        """AssertionError unless pods with these labels reach the places named and none of the others."""
        expected = {name: name in yes for name in places}
        tried, hopes = list(places.values()), list(expected.values())
        reached = what_is_reached(self.cluster, namespace, self.image, tried, expected=hopes, labels=labels)
        assert dict(zip(places, reached, strict=True)) == expected


@pytest.fixture
def prober(cluster: Cluster, images: Images) -> Prober:
    return Prober(cluster, images["sandbox"])


def test_both_labels_are_needed(prober: Prober, judge: dict[str, Place], namespace: str, others: Others) -> None:
    """Each held back while a pod with both labels is served: the rule is AND, not OR."""
    prober.holds(namespace, judge, yes=[])
    prober.holds(others.namespace, judge, yes=[], labels=CLIENT)
    prober.holds(namespace, judge, yes=list(judge), labels=CLIENT)


def test_nothing_gets_out_of_the_sandboxs_namespace(
    cluster: Cluster,
    images: Images,
    prober: Prober,
    replicas: dict[str, str],
    places: dict[str, Place],
    others: Others,
    namespace: str,
) -> None:
    """Neither out of the sandbox's own pods nor out of another one, while pods that may reach all of it."""
    pods: dict[str, Place] = {name: (address, 8080, TCP) for name, address in replicas.items()}
    prober.holds(others.namespace, places, yes=list(places))
    prober.holds(namespace, pods, yes=list(pods), labels=CLIENT)
    stranger = contained(make_pod("beside", images["sandbox"], ["python", "-c", "import time; time.sleep(300)"]))
    with running(cluster, HOME, stranger) as name:
        cluster.kubectl("-n", HOME, "wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")
        for pod in (*pods, name):
            there = places | {each: place for each, place in pods.items() if each != pod}
            reached = what_a_pod_reaches(cluster, HOME, pod, list(there.values()), expected=False)
            assert dict(zip(there, reached, strict=True)) == dict.fromkeys(there, False)


def test_a_judged_program_gets_no_socket(
    cluster: Cluster,
    images: Images,
    sandbox: str,
    prober: Prober,
    replicas: dict[str, str],
    places: dict[str, Place],
    others: Others,
    namespace: str,
) -> None:
    """The program that pods run, judged by what is deployed: it comes not even as far as the policies.

    Asked for the contrary it fails, and the verdict says what it saw.
    """
    pods: dict[str, Place] = {name: (address, 8080, TCP) for name, address in replicas.items()}
    prober.holds(others.namespace, places, yes=list(places))
    prober.holds(namespace, pods, yes=list(pods), labels=CLIENT)
    places = places | pods
    let_in(cluster, namespace)
    program = {"program": TRIED, "entry_point": "tried", "timeout_s": 5}
    items = [
        {"id": f"{name}: {said}", **program, "tests": [f"assert tried(*{place!r}) == {said!r}"]}
        for name, place in places.items()
        for said in (REFUSED, "reached")
    ]
    request = "/v1/verdicts", {"items": items}
    (answer,) = posted(cluster, images, namespace, sandbox, request, patience=60, labels=CLIENT, env=[TOKEN])
    assert answer[0] == 200
    verdicts = {each["id"]: (each["outcome"], each["detail"]) for each in answer[1]["verdicts"]}
    expected = {REFUSED: ("passed", ""), "reached": ("failed", f"the program's last value: {REFUSED!r}")}
    assert verdicts == {f"{name}: {said}": verdict for name in places for said, verdict in expected.items()}


def test_a_step_reaches_the_sandbox_names_and_the_api_server_and_no_more(
    prober: Prober, places: dict[str, Place], judge: dict[str, Place], others: Others
) -> None:
    prober.holds(others.namespace, places, yes=list(places))
    prober.holds(OWN, places | judge, yes=[*judge, API, *NAMES], labels=STEP | CLIENT)
    prober.holds(OWN, places | judge, yes=[API, *NAMES])


def test_in_a_shared_namespace_labels_hold_a_step_and_nobody_else(
    cluster: Cluster, prober: Prober, places: dict[str, Place], judge: dict[str, Place], namespace: str
) -> None:
    """The policies of base/pipeline alone, as where runs share KFP's own namespace."""
    policies = list(yaml.safe_load_all(cluster.kubectl("kustomize", "manifests/base/pipeline")))
    for thing in policies:
        thing["metadata"]["namespace"] = namespace
    cluster.apply(*(thing for thing in policies if thing["kind"] == "NetworkPolicy"))
    for labels, yes in (
        ({}, list(places)),  # the positive control: no policy holds it
        (STEP, [API, *NAMES]),
        (CLIENT, [*judge, *NAMES]),
        (STEP | CLIENT, [*judge, API, *NAMES]),
    ):
        prober.holds(namespace, places | judge, yes=yes, labels=labels)


def test_scrapes_come_from_the_monitoring_namespace_alone(
    cluster: Cluster, images: Images, sandbox: str, namespace: str
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
        assert what_is_reached(cluster, namespace, image, metrics, expected=False, labels=CLIENT) == [False]
    finally:
        cluster.kubectl("delete", *policy, "--ignore-not-found")
        if not was_there:
            cluster.kubectl("delete", "namespace", "monitoring", "--wait=false")
