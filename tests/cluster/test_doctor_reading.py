"""The doctor's checks that read through the API server: every fault is provoked once on a real cluster and named."""

import copy
import json
import subprocess
from dataclasses import replace

import pytest

from cli.cluster import Cluster as Connection
from cli.doctor import pods as probe_pods
from cli.doctor.installation import (
    account_findings,
    capacity_findings,
    kfp_findings,
    namespace_findings,
    sandbox_findings,
    secret_findings,
)
from tests.cluster.cluster import RESTRICTED, eventually
from tests.cluster.doctoring import failed, given
from tests.cluster.installation import (
    SANDBOX,
    sandbox,
    secret,
)
from tests.cluster.record import hollow_node
from tests.cluster.troubles import HOLLOW

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", autouse=True)
def ill_node(cluster):
    """A node whose kubelet is not heard of. It takes Kubernetes most of a minute to mark it: others need not wait."""
    with hollow_node(cluster, "ill"):
        yield "ill"


def test_a_sandbox_that_cannot_start(cluster, installed, place):
    with cluster.namespace("doctor-broken", RESTRICTED) as broken:
        cluster.apply(*sandbox(cluster, broken, f"{cluster.registry}/grpo-code/never-pushed:1", "x"))
        chosen = given(place, sandbox_url=f"http://sandbox.{broken}:8080")

        def said() -> bool:
            return "never-pushed:1 cannot be pulled" in failed(sandbox_findings(chosen))[0].seen

        eventually(said, "word of an image that cannot be pulled", 60)


def test_the_namespace_of_runs(place, cluster):
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


def test_quota(place, installed, restored, gpu):
    assert not failed(capacity_findings(place))
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-gpus", "namespace": installed[0]},
        "spec": {"hard": {"requests.nvidia.com/gpu": "0"}},
    }
    restored(quota)
    found = eventually(lambda: failed(capacity_findings(place)), "a quota that is in force", 20)
    assert found[0].check == "train+evaluate admission"
    assert "exceeded quota: no-gpus" in found[0].seen
    assert found[0].mend == f"kubectl describe quota,limitrange -n {installed[0]}"


@pytest.mark.parametrize(
    ("changes", "check", "words", "remedy"),
    [
        (
            {"gpu_resource": "example.com/npu", "gpus": "1"},
            "train+evaluate gpus",
            "no node offers example.com/npu",
            "install its device plug-in, or --gpus 0; look with: kubectl describe nodes | grep -A8 Allocatable",
        ),
        ({"gpus": "64"}, "train+evaluate gpus", "no node has the 64 of train+evaluate", "--gpus "),
        (
            {"node_selector": {"accelerator": "unheard-of"}},
            "train+evaluate node selector",
            "has the labels accelerator=",
            "kubectl label node ",
        ),
        ({"train_memory": "64Ti"}, "train room", "no node is large enough for train", "--train-memory with less"),
    ],
)
def test_nodes(place, changes, check, words, remedy, request):
    if changes.get("gpus") == "64":
        request.getfixturevalue("gpu")
    found = failed(capacity_findings(given(place, **changes)))
    assert [finding.check for finding in found] == [check]
    assert words in found[0].seen
    assert found[0].mend.startswith(remedy)


def test_a_tainted_and_a_cordoned_node(place, cluster):
    with hollow_node(cluster):
        chosen = given(place, gpus="0", node_selector={HOLLOW: "hollow"})
        found = failed(capacity_findings(chosen))
        assert "hollow has dedicated=others:NoSchedule" in found[0].seen
        tolerations = json.loads(found[0].mend.removeprefix("--tolerations ").strip("'"))
        assert not failed(capacity_findings(given(chosen, tolerations=tolerations))), "the remedy mends it"
        cluster.kubectl("cordon", "hollow")
        found = failed(capacity_findings(given(chosen, tolerations=tolerations)))
        assert (found[0].seen, found[0].mend) == ("hollow is cordoned", "kubectl uncordon hollow")


def test_gpus_that_are_taken(place, installed, cluster, python_image):
    """On a node of the test's own, whose GPUs nobody else uses meanwhile."""
    resource, name, tolerations = "nvidia.com/gpu", "hollow-gpus", [{"operator": "Exists"}]
    holder = probe_pods.pod_of(
        probe_pods.Probe("holder", installed[0], python_image, []), "import time; time.sleep(300)"
    )
    holder["metadata"]["name"] = "holder"
    del holder["metadata"]["labels"]["grpo-code/doctor"]
    holder["spec"]["containers"][0]["resources"]["limits"][resource] = "2"
    holder["spec"] |= {"nodeSelector": {HOLLOW: name}, "tolerations": tolerations}
    chosen = given(place, gpus="1", node_selector={HOLLOW: name}, tolerations=tolerations)
    with hollow_node(cluster, name, **{resource: "2"}):
        assert not failed(capacity_findings(chosen))
        cluster.apply(holder)
        try:
            cluster.kubectl("wait", "-n", installed[0], "--for=condition=PodScheduled", "pod/holder", "--timeout=60s")
            found = failed(capacity_findings(chosen))
            assert found[0].check == "train+evaluate room"
            taken = f"0 {resource} free and 1 asked for ({resource} is held by {installed[0]}/holder)"
            assert taken in found[0].seen
            assert found[0].mend == f"kubectl describe node {name}"
        finally:
            cluster.kubectl("delete", "pod", "holder", "-n", installed[0], "--grace-period=0", "--force")


def test_a_service_without_pods(place, cluster):
    with cluster.namespace("doctor-empty") as empty:
        service = {"selector": {"app": "nobody"}, "ports": [{"port": 8080}]}
        metadata = {"name": "sandbox", "namespace": empty}
        cluster.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})
        found = failed(sandbox_findings(given(place, sandbox_url=f"http://sandbox.{empty}:8080")))
        assert found[0].seen == f"Service sandbox in {empty} has no pods"
        assert found[0].mend == f"kubectl get pods,events -n {empty}"


def test_a_service_that_selects_nothing(place, cluster):
    """As one has that points somewhere by hand."""
    with cluster.namespace("doctor-empty") as empty:
        metadata = {"name": "sandbox", "namespace": empty}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 8080}]}}
        cluster.apply(service)
        found = failed(sandbox_findings(given(place, sandbox_url=f"http://sandbox.{empty}:8080")))
        assert (found[0].seen, found[0].mend) == ("Service sandbox selects no pods", "make deploy")


def test_a_sandbox_of_which_a_part_is_ready_and_that_a_policy_lets_out(place, cluster, doctor_images):
    with cluster.namespace("doctor-half", RESTRICTED) as half:
        chosen = given(place, sandbox_url=f"http://sandbox.{half}:8080")
        objects = sandbox(cluster, half, doctor_images["sandbox"], "x")
        (secret_of,) = [each for each in objects if each["kind"] == "Secret"]
        (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
        objects.remove(secret_of)
        other = copy.deepcopy(deployment)
        other["metadata"]["name"] = "sandbox-broken"
        other["spec"]["template"]["spec"]["containers"][0]["image"] = f"{cluster.registry}/grpo-code/never-pushed:1"
        for each in (deployment, other):
            part = {"part": each["metadata"]["name"]}
            each["spec"]["selector"]["matchLabels"] |= part
            each["spec"]["template"]["metadata"]["labels"] |= part
        cluster.apply(*objects)
        found = failed(secret_findings(chosen))
        assert (found[0].seen, found[0].mend) == (f"{half} has no Secret {SANDBOX} with TOKEN", "make deploy")
        cluster.apply(secret_of, other)
        cluster.kubectl("rollout", "status", "-n", half, "deployment/sandbox", "--timeout=180s")
        cluster.kubectl("wait", "-n", half, "--for=create", "pod", "-l", "part=sandbox-broken", "--timeout=60s")
        warned = [finding for finding in sandbox_findings(chosen) if finding.state == "warn"]
        assert [finding.seen for finding in warned] == ["1 of 2 ready"]
        egress = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}
        metadata = {"name": "lets-out", "namespace": half}
        cluster.apply(
            {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": egress}
        )
        found = failed(sandbox_findings(chosen))
        assert found[0].seen == f"NetworkPolicy lets-out in {half} lets judged programs out"
        cluster.kubectl(*found[0].mend.split()[1:])
        assert not failed(sandbox_findings(chosen)), "the remedy mends it"


def test_a_node_that_is_ill(place, ill_node):
    """Kubernetes itself marks it after a while."""
    chosen = given(place, gpus="0", node_selector={HOLLOW: ill_node}, tolerations=[{"operator": "Exists"}])
    check = "train+evaluate node health"

    def marked() -> list:
        return [each for each in failed(capacity_findings(chosen)) if each.check == check]

    found = eventually(marked, "a mark on the node", 120)
    assert "ill is unfit for new pods: " in found[0].seen
    assert found[0].mend == "kubectl describe node ill"


def test_no_endpoint(place):
    found = failed(kfp_findings(replace(place, endpoint=None, no_endpoint="No Kubeflow Pipelines is known: set it.")))
    assert found[0].seen == "No Kubeflow Pipelines is known: set it"
