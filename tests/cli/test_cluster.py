"""The connection to Kubernetes: what it says when there is none. What it does with one: tests/cluster."""

import json
import socket

import pytest

from cli.cluster import Cluster, Forbidden, Refused
from components.shared.errors import InfraError, UserError


def status(code: int, reason: str, message: str) -> dict:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


def test_no_kubeconfig(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(UserError, match=r"^No Kubernetes cluster is configured .*: set KUBECONFIG to a kubeconfig"):
        Cluster.connect()


@pytest.mark.parametrize("first", ["one", "two", "nothing"])
def test_of_several_files_the_first_ones_context_is_current(tmp_path, monkeypatch, first):
    """As kubectl has it, so that the product speaks with the cluster that `make deploy` has deployed to."""
    for name in ("one", "two"):
        context = {"name": name, "context": {"cluster": name, "user": ""}}
        cluster = {"name": name, "cluster": {"server": f"https://{name}.example"}}
        both = {"clusters": [cluster], "contexts": [context], "users": []}
        (tmp_path / name).write_text(json.dumps({**both, "current-context": name}))
    (tmp_path / "nothing").write_text(json.dumps({"clusters": [], "contexts": [], "users": []}))
    files = [first, *({"one", "two"} - {first} if first != "nothing" else ["two", "one"])]
    monkeypatch.setenv("KUBECONFIG", ":".join(str(tmp_path / name) for name in files))
    expected = "two" if first == "nothing" else first
    found = Cluster.connect()
    assert (found.name, found.server) == (expected, f"https://{expected}.example")
    assert Cluster.connect("one").server == "https://one.example"


def test_an_unknown_context_names_those_that_exist(configured):
    configured("http://127.0.0.1:9")
    with pytest.raises(UserError, match="no context 'nowhere' in the kubeconfig: use one of here, there"):
        Cluster.connect("nowhere")
    assert Cluster.connect("there").name == "there"


def test_a_server_that_does_not_answer_is_named(configured):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        configured(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(InfraError, match=r"API server http://127\S+ does not answer .*is the cluster here up"):
            Cluster.connect().get("namespaces", "x")


def test_what_is_asked_and_with_what(answering):
    sent = answering(200, {"items": [{"metadata": {"name": "a"}}]})
    found = Cluster.connect(namespace="mine").list("pods", labelSelector="a=b,c")
    assert found == [{"metadata": {"name": "a"}}]
    command, path, headers = sent[0]
    assert (command, path) == ("GET", "/api/v1/namespaces/mine/pods?labelSelector=a%3Db%2Cc")
    assert headers["authorization" if "authorization" in headers else "Authorization"] == "Bearer secret-token"


def test_a_log_is_text_even_when_it_looks_like_json(answering):
    answering(200, {"step": "train"})
    assert Cluster.connect().log("pod") == '{"step": "train"}'


def test_what_does_not_exist_is_no_error(answering):
    answering(404, status(404, "NotFound", "pods x not found"))
    cluster = Cluster.connect()
    assert cluster.get("pods", "x") is None
    assert cluster.list("workflows") == []
    assert cluster.log("x") is None
    cluster.delete("pods", "x")


@pytest.mark.parametrize(
    ("code", "reason", "message", "kind", "sentence"),
    [
        (401, "Unauthorized", "Unauthorized", InfraError, "does not accept your credentials: log in to it again"),
        (403, "Forbidden", 'User "u" cannot list pods', Forbidden, "You may not do this .*: User .* cannot list pods"),
        (403, "Forbidden", "exceeded quota: q", Refused, "refused GET /api/v1/nodes: exceeded quota: q"),
    ],
)
def test_refusals_in_one_sentence(answering, code, reason, message, kind, sentence):
    answering(code, status(code, reason, message))
    with pytest.raises(InfraError, match=sentence) as refused:
        Cluster.connect().list("nodes")
    assert type(refused.value) is kind
