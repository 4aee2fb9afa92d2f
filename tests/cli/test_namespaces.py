"""Which namespace runs live in: one rule for the verbs and for `make deploy`."""

import pytest

from cli import deploy, namespaces
from cli.namespaces import pipeline_namespace
from components.shared.errors import UserError


@pytest.fixture(autouse=True)
def nobody_has_named_one(monkeypatch):
    for name in ("KFP_NAMESPACE", "NAMESPACE", "OVERLAY"):
        monkeypatch.delenv(name, raising=False)


def test_the_verbs_namespace(monkeypatch):
    assert pipeline_namespace() == "kubeflow"
    monkeypatch.setenv("KFP_NAMESPACE", "profile")
    assert pipeline_namespace() == "profile"
    assert pipeline_namespace("given") == "given"


def test_a_pods_own_namespace(monkeypatch, tmp_path):
    """As in a notebook of a profile."""
    (tmp_path / "namespace").write_text("team-a\n")
    monkeypatch.setattr(namespaces, "POD_NAMESPACE_FILE", tmp_path / "namespace")
    assert (pipeline_namespace(), deploy.target_namespace()) == ("team-a", "team-a")


@pytest.mark.parametrize("named", ["", "team-a"])
def test_what_is_deployed_is_where_the_verbs_look(monkeypatch, named):
    monkeypatch.setenv("KFP_NAMESPACE", named)
    assert deploy.target_namespace() == pipeline_namespace()
    monkeypatch.setenv("NAMESPACE", "other")
    assert deploy.target_namespace() == "other"


def test_a_profile_must_be_named(monkeypatch):
    monkeypatch.setenv("OVERLAY", "kubeflow-multiuser")
    with pytest.raises(UserError, match="NAMESPACE is not set"):
        deploy.target_namespace()
    monkeypatch.setenv("KFP_NAMESPACE", "team-a")
    assert deploy.target_namespace() == "team-a"


@pytest.mark.parametrize("name", ["Bad Name", "-a", "a.b", "a" * 64, "a_b"])
def test_a_namespace_that_cannot_be(monkeypatch, name):
    monkeypatch.setenv("NAMESPACE", name)
    with pytest.raises(UserError, match="is no namespace: small letters"):
        deploy.target_namespace()
