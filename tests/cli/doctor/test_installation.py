"""Kubeflow Pipelines, the model and the policies as the doctor judges them; the rest is tried in tests/cluster."""

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cli.cluster import Cluster
from cli.doctor.finding import as_json, fail, guarded, ok, warn
from cli.doctor.installation import Installation, _policy, kfp_findings, service_of
from cli.doctor.model import model_findings
from cli.endpoint import Endpoint
from components.shared.errors import InfraError

GIVEN = {"model_name": "owner/name", "model_revision": "", "hf_secret": "hf-token", "sandbox_url": "http://x:1"}


@pytest.fixture
def serving():
    """Serves answers by path: (status, headers, JSON)."""
    answers: dict[str, tuple[int, dict, object]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            status, headers, body = answers.get(self.path.split("?")[0], (404, {}, {}))
            text = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do

        def log_message(self, *args: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", answers
        server.shutdown()


@pytest.mark.parametrize(
    ("url", "service"),
    [
        ("http://sandbox.grpo-code-sandbox:8080", ("sandbox", "grpo-code-sandbox")),
        ("http://sandbox.box.svc:8080", ("sandbox", "box")),
        ("http://sandbox.box.svc.cluster.local:8080", ("sandbox", "box")),
        ("http://127.0.0.1:8080", None),
        ("https://judge.example.com", None),
        ("http://localhost:8080", None),
    ],
)
def test_which_addresses_are_services(url, service):
    assert service_of(url) == service


@pytest.mark.parametrize(
    ("version", "state"), [("2.17.0", "ok"), ("2.15.0", "ok"), ("2.14.9", "FAIL"), ("1.8.22", "FAIL"), ("", "warn")]
)
def test_versions_of_kfp(serving, answering, version, state):
    answering(404, {})
    url, answers = serving
    answers["/apis/v2beta1/healthz"] = (200, {}, {"tag_name": version, "multi_user": False})
    place = Installation(Cluster.connect(), GIVEN, {}, "pipeline-runner", endpoint=Endpoint.of(url))
    (finding,) = kfp_findings(place)
    assert finding.state == state


@pytest.mark.parametrize(
    ("status", "token", "namespace", "state", "words"),
    [
        (200, "t", "team", "ok", "for the profile team"),
        (200, "t", "", "FAIL", "name your profile's namespace with --namespace"),
        (401, "t", "team", "FAIL", "does not accept this token"),
        (401, "", "team", "FAIL", "asks for a login"),
    ],
)
def test_a_profile_and_its_token(serving, answering, monkeypatch, status, token, namespace, state, words):
    for name in ("KFP_TOKEN", "KFP_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    answering(404, {})
    url, answers = serving
    answers["/apis/v2beta1/healthz"] = (200, {}, {"tag_name": "2.17.0", "multi_user": True})
    answers["/apis/v2beta1/runs"] = (status, {}, {})
    endpoint = Endpoint.of(url, token=token, namespace=namespace)
    (finding,) = kfp_findings(Installation(Cluster.connect(), GIVEN, {}, "default-editor", endpoint=endpoint))
    assert (finding.state, words in finding.seen) == (state, True), finding.line
    assert state == "ok" or finding.mend.startswith("export KFP_NAMESPACE=PROFILE KFP_TOKEN=$(kubectl create token")


def test_no_kfp_at_all(answering, free_port):
    answering(404, {})
    place = Installation(Cluster.connect(), GIVEN, {}, "pipeline-runner", no_endpoint="No Kubeflow Pipelines is known.")
    assert next(iter(kfp_findings(place))).line.startswith(
        "FAIL    kfp: No Kubeflow Pipelines is known -> kubectl port"
    )
    silent = replace(place, endpoint=Endpoint.of(f"http://127.0.0.1:{free_port}"))
    (finding,) = guarded("kfp", lambda: kfp_findings(silent), "kubectl get pods -n kubeflow")
    assert finding.state == "FAIL"
    assert f"cannot be reached at http://127.0.0.1:{free_port}" in finding.seen


@pytest.fixture
def hub(serving, answering, monkeypatch):
    """A hub that knows one model, and a cluster without a token for it; returns the hub's answers and the check."""
    url, answers = serving
    answering(404, {})
    for name in ("ENDPOINT", "_HF_DEFAULT_ENDPOINT"):
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", url)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    place = Installation(Cluster.connect(namespace="space"), GIVEN, {}, "pipeline-runner")

    def ask(**changes):
        return list(model_findings(replace(place, parameters={**GIVEN, **changes}), probing=False))

    return answers, ask


INFO = "/api/models/owner/name/revision/main"


def test_a_model_that_is_open_to_all(hub):
    answers, ask = hub
    answers[INFO] = (200, {}, {"id": "owner/name", "sha": "0123456789abcdef", "gated": False})
    assert ask()[0].line == "ok      model: owner/name at 0123456789ab is on the hub, open to all"


def test_a_gated_model_without_a_token(hub):
    answers, ask = hub
    answers[INFO] = (200, {}, {"id": "owner/name", "sha": "0123456789abcdef", "gated": "manual"})
    answers["/api/models/owner/name/auth-check"] = (403, {"X-Error-Code": "GatedRepo"}, {"error": "gated"})
    (finding,) = ask()
    assert finding.state == "FAIL"
    assert "asked with no token: The model owner/name is gated" in finding.seen
    assert "kubectl create secret generic hf-token -n space --from-literal=HF_TOKEN=…" in finding.mend


def test_a_model_that_nobody_knows(hub):
    answers, ask = hub
    answers[INFO] = (404, {"X-Error-Code": "RepoNotFound"}, {})
    assert "unknown to the hub, or private" in ask()[0].seen


def test_a_hub_out_of_reach_is_a_warning_since_the_cluster_may_reach_it(hub, monkeypatch, free_port):
    _, ask = hub
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{free_port}")
    (finding,) = ask()
    assert finding.state == "warn"
    assert f"http://127.0.0.1:{free_port} cannot be reached from this machine" in finding.seen


def test_a_model_in_the_store_is_for_the_probe_to_find(hub):
    _, ask = hub
    assert ask(model_name="s3://bucket/m")[0].state == "skipped"


def policy(name: str = "p", selector: dict | None = None, types=("Ingress", "Egress"), **rules) -> dict:
    spec = {"podSelector": selector or {}, "policyTypes": list(types), **rules}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ([], "denies egress and ingress to all pods"),
        ([policy(types=["Ingress"])], "denies egress to all pods"),
        ([policy(selector={"matchLabels": {"a": "b"}})], "denies egress and ingress to all pods"),
        ([policy(ingress=[{}]), policy(types=["Egress"])], "denies ingress to all pods"),
        ([policy(), policy("leak", {"matchLabels": {"a": "b"}}, egress=[{}])], "NetworkPolicy leak in box lets"),
    ],
)
def test_policies_that_hold_nothing(policies, words):
    finding = _policy(policies, "box")
    assert finding.state == "FAIL"
    assert words in finding.seen


def test_policies_that_hold():
    one_way_in = policy("in", {"matchLabels": {"a": "b"}}, types=["Ingress"], ingress=[{}])
    assert _policy([policy(), one_way_in], "box").state == "ok"
    assert _policy([policy(types=["Ingress"]), policy(types=["Egress"])], "box").state == "ok"


def test_a_finding_is_one_line_and_a_failure_says_how_to_mend_it():
    assert ok("a", "two\nlines").line == "ok      a: two lines"
    assert fail("a", "b", "c").line == "FAIL    a: b -> c"
    with pytest.raises(ValueError, match="says nothing of how to mend it"):
        fail("a", "b", "")


def test_what_keeps_a_check_from_being_made_is_a_failure():
    def broken():
        yield ok("a", "fine")
        raise InfraError("The API server does not answer.")

    assert [each.line for each in guarded("a", broken, "kubectl cluster-info")] == [
        "ok      a: fine",
        "FAIL    a: The API server does not answer -> kubectl cluster-info",
    ]


def test_what_one_may_not_look_at_is_skipped_with_the_reason(answering):
    """A user of a profile need not see nodes, nor the sandbox's namespace."""
    answering(403, {"reason": "Forbidden", "message": 'nodes is forbidden: User "u" cannot list resource "nodes"'})
    (finding,) = guarded("room", lambda: [ok("room", str(Cluster.connect().list("nodes")))], "kubectl cluster-info")
    assert finding.state == "skipped"
    assert 'User "u" cannot list resource "nodes"' in finding.seen


def test_as_json():
    told = as_json([ok("a", "b"), warn("c", "d")], 1.26)
    assert (told["ok"], told["seconds"], len(told["findings"])) == (True, 1.3, 2)
    assert as_json([fail("a", "b", "c")], 1.0)["ok"] is False
