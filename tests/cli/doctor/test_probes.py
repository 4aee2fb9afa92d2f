"""What the probes' answers come to: above all, that a refusal without its positive control proves nothing."""

from dataclasses import replace

import pytest

from cli.doctor.inside_findings import layer_findings, replica_findings, store_finding
from cli.doctor.installation import Installation
from cli.doctor.pods import Outcome, Probe, pod_of, waiting_for
from cli.doctor.probes import captives_kept_in, client_findings, client_probe, image_finding, strangers_kept_out

SANDBOX = {"pod-1": ["10.0.0.1", 8080], "pod-2": ["10.0.0.2", 8080]}
OUTSIDE = {"the API server": ["10.96.0.1", 443], "DNS": ["10.96.0.10", 53]}
CLOSED = "ConnectionRefusedError: Connection refused"
GIVEN = {
    "sandbox_url": "http://sandbox.box:8080",
    "sandbox_secret": "token",
    "store_secret": "store",
    "model_name": "owner/model",
    "dataset": "s3://bucket/problems.jsonl",
    "regression_dataset": "",
}


class Anywhere:
    """A cluster of which only the namespace is asked."""

    namespace = "kubeflow"


PLACE = Installation(Anywhere(), GIVEN, {"prepare": "i:1"}, "pipeline-runner")


def saw(**open_ones: bool) -> Outcome:
    names = {"pod_1": "pod-1", "pod_2": "pod-2", "api": "the API server", "dns": "DNS"}
    return Outcome({"reach": {names[name]: "open" if is_open else CLOSED for name, is_open in open_ones.items()}})


@pytest.mark.parametrize(
    ("client", "stranger", "state", "words"),
    [
        (
            saw(pod_1=True, pod_2=True),
            saw(pod_1=False, pod_2=False),
            "ok",
            "is refused by pod-1, pod-2, one with it let in",
        ),
        (saw(pod_1=True, pod_2=True), saw(pod_1=False, pod_2=True), "FAIL", "reached pod-2"),
        (saw(pod_1=False, pod_2=False), saw(pod_1=False, pod_2=False), "skipped", "a refusal proves nothing"),
        (saw(pod_1=False, pod_2=False), saw(pod_1=True, pod_2=False), "FAIL", "reached pod-1"),
        (saw(pod_1=True), None, "skipped", "no running pod of the sandbox"),
        (saw(pod_1=True), Outcome({}, "no room"), "skipped", "no pod could try: no room"),
    ],
)
def test_strangers(client, stranger, state, words):
    finding = strangers_kept_out(SANDBOX, client, stranger)
    assert finding.state == state
    assert words in finding.seen


@pytest.mark.parametrize(
    ("client", "stranger", "captive", "state", "words"),
    [
        (saw(api=True, dns=True), None, saw(api=False, dns=False), "ok", "cannot reach the API server, DNS"),
        (
            saw(api=False, dns=True),
            saw(api=False),
            saw(api=False, dns=False),
            "ok",
            "cannot reach DNS, another pod can",
        ),
        (
            saw(api=False, dns=False),
            saw(api=True, dns=False),
            saw(api=False, dns=False),
            "ok",
            "the API server, another",
        ),
        (saw(api=False, dns=False), None, saw(api=False, dns=False), "skipped", "a refusal proves nothing"),
        (saw(api=True, dns=True), None, saw(api=True, dns=False), "FAIL", "reached the API server"),
        (saw(api=False, dns=False), None, saw(api=False, dns=True), "FAIL", "reached DNS"),
        (saw(api=True), None, None, "skipped", "whose image a probe could use"),
    ],
)
def test_captives(client, stranger, captive, state, words):
    finding = captives_kept_in(OUTSIDE, client, stranger, captive)
    assert finding.state == state
    assert words in finding.seen


def test_a_store_that_never_answers_does_not_hide_the_sandbox():
    """The client was cut short: what it had found counts, and what it waited for is named."""
    asked = {
        "ready": {"status": 200, "body": {}},
        "verdict": {"status": 200, "body": {"verdicts": [{"outcome": "passed"}]}},
    }
    client = Outcome(
        {"sandbox": [{"url": "http://a:1", "reached": "open", **asked}]}, "not done in time; last seen running"
    )
    found = {finding.check: finding for finding in client_findings(client, PLACE)}
    assert found["sandbox"].state == "ok"
    assert "the store gave no answer while the probe ran" in found["store"].seen
    nothing = {finding.check: finding.state for finding in client_findings(Outcome({}, "not done in time"), PLACE)}
    assert nothing == {"sandbox": "FAIL", "store": "FAIL", "hub": "FAIL"}


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome({}), "ok"),
        (Outcome({"store": {}}, "the probe failed: exit code 1"), "ok"),
        (Outcome({}, "ImagePullBackOff: not found"), "FAIL"),
        (Outcome({}, "not done in time; last seen ContainerCreating"), "warn"),
        (Outcome({}, "the probe failed: exec format error"), "FAIL"),
    ],
)
def test_images(outcome, state):
    assert image_finding("image train", "r/train:1", outcome, "kubeflow").state == state


def layer(state: str, *, required: bool) -> dict:
    return {"state": state, "required": required, "kept_by": "Landlock", "detail": "read /etc/passwd"}


def replica(**layers: dict) -> dict:
    return {"url": "http://a:1", "ready": {"status": 200, "body": {"layers": layers, "runtime": "gvisor"}}}


@pytest.mark.parametrize(
    ("layers", "state", "words"),
    [
        ({"reading": layer("holds", required=True)}, "ok", "all 1 hold"),
        ({"reading": layer("absent", required=False)}, "warn", "reading absent (kept by Landlock): read /etc/passwd"),
        ({"reading": layer("leaks", required=True), "x": layer("absent", required=False)}, "FAIL", "reading leaks"),
    ],
)
def test_layers(layers, state, words):
    (finding,) = layer_findings([replica(**layers)], PLACE)
    assert finding.state == state
    assert words in finding.seen


def test_a_sandbox_that_is_not_ready_says_why():
    asked = {"ready": {"status": 503, "body": {"reason": "reading leaks"}}, "verdict": {"status": 503, "body": ""}}
    (finding,) = replica_findings([{"url": "http://a:1", "reached": "open", **asked}], PLACE)
    assert finding.line.startswith("FAIL    sandbox: http://a:1 is not ready: reading leaks -> kubectl logs -n box")


def test_a_verdict_that_is_wrong_is_no_verdict():
    verdict = {"status": 200, "body": {"verdicts": [{"outcome": "infra"}]}}
    asked = {"ready": {"status": 200, "body": {}}, "verdict": verdict}
    (finding,) = replica_findings([{"url": "http://a:1", "reached": "open", **asked}], PLACE)
    assert finding.state == "FAIL"


def test_the_hub_is_asked_by_a_pod_that_may_reach_it():
    probe = client_probe(PLACE, "key", SANDBOX, OUTSIDE)
    assert probe.labels["grpo-code/hub-client"] == "true"
    assert "hub" in dict(probe.orders)
    inside = {**GIVEN, "model_name": "s3://bucket/model"}
    assert "hub" not in dict(client_probe(replace(PLACE, parameters=inside), "key", SANDBOX, OUTSIDE).orders)


@pytest.mark.parametrize(("error", "state"), [("", "ok"), ("it cannot be reached: TimeoutError", "FAIL")])
def test_the_hub_as_the_cluster_sees_it(error, state):
    client = Outcome({"hub": {"url": "https://hub", "error": error}})
    (finding,) = [each for each in client_findings(client, PLACE) if each.check == "hub"]
    assert finding.state == state
    assert "owner/model" in finding.seen
    assert error in finding.seen
    if error:
        assert finding.mend.startswith("--model-name s3://…  # put there before; or let pods labelled grpo-code/hub-")
        assert "--dataset" not in finding.mend, "that is in the store already"


def test_a_bucket_that_does_not_exist():
    error = "The store refused s3://b/x: NoSuchBucket: The bucket does not exist."
    finding = store_finding({"root": "s3://b/x", "endpoint": "e:9000", "error": error}, PLACE)
    assert finding.mend.startswith("mc mb STORE/b")


def test_a_probe_pod_is_admissible_where_nothing_else_is():
    """PodSecurity restricted, and what the sandbox's admission policy asks beyond it."""
    pod = pod_of(Probe("x", "box", "i:1", [("reach", {})], names=False), "pass")
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu", "memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()
    assert spec["securityContext"]["runAsGroup"] > 0
    assert spec["volumes"] == [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}]
    assert (spec["dnsPolicy"], spec["dnsConfig"]) == ("None", {"nameservers": ["127.0.0.1"]})
    assert spec["activeDeadlineSeconds"] <= 60, "it ends by itself should the doctor be killed"
    assert "dnsPolicy" not in pod_of(Probe("x", "runs", "i:1", []), "pass")["spec"], "a step looks names up"


def test_what_a_pod_waits_for():
    waiting = {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}]}
    assert waiting_for({"status": waiting}) == ("ErrImagePull", "no")
    pending = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}]}
    assert waiting_for({"status": pending}) == ("Unschedulable", "m")
    assert waiting_for({"status": {"phase": "Running"}}) == ("", "")
