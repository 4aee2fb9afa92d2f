"""`make deploy` without a cluster: what is refused, and what it asks kubectl for. A kubectl of our own is on PATH."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

# Keeps what it is asked and given; knows the namespaces and Secrets in known.json, and what was created since.
KUBECTL = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
words, known = sys.argv[1:], json.loads((here / "known.json").read_text())
given = sys.stdin.read() if "-" in words else ""
with (here / "calls").open("a") as calls:
    print(json.dumps([words, given]), file=calls)
if words[0] == "kustomize":
    print("apiVersion: v1\\nkind: Namespace\\nmetadata:\\n  name: grpo-code-sandbox")
elif words[:2] == ["get", "namespace"] and words[2] in known["namespaces"]:
    print("namespace/" + words[2])
elif words[2:4] == ["get", "secret"]:
    found = known["secrets"].get(words[1] + "/" + words[4])
    print(json.dumps({{"data": found}}) if found else "")
elif words[0] == "create":
    made = json.loads(given)
    data = {{key: __import__("base64").b64encode(value.encode()).decode() for key, value in made["stringData"].items()}}
    known["secrets"][made["metadata"]["namespace"] + "/" + made["metadata"]["name"]] = data
    (here / "known.json").write_text(json.dumps(known))
"""
THEIRS = {"accesskey": "bWluaW8=", "secretkey": "bWluaW8xMjM="}  # minio, minio123


class Kubectl:
    """The kubectl of a test. secrets: {"namespace/name": {key: base64}}."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "kubectl"
        program.write_text(KUBECTL.format(python=sys.executable))
        program.chmod(0o755)
        (folder / "calls").write_text("")
        self.knows(["kubeflow"], {})

    def knows(self, namespaces: list[str], secrets: dict[str, dict[str, str]]) -> None:
        (self.folder / "known.json").write_text(json.dumps({"namespaces": namespaces, "secrets": secrets}))

    def secret(self, where: str) -> dict[str, str] | None:
        found = json.loads((self.folder / "known.json").read_text())["secrets"].get(where)
        return found and {key: base64.b64decode(value).decode() for key, value in found.items()}

    @property
    def calls(self) -> list[list[Any]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]

    def deploy(self, **settings: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self.folder}:{os.environ['PATH']}", "TAG": "1.2.3", **settings}
        command = [sys.executable, "-S", "-m", "cli.deploy", "up"]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def kubectl(tmp_path: Path) -> Kubectl:
    return Kubectl(tmp_path)


def test_runs_are_where_kfp_is_unless_told_otherwise(kubectl: Kubectl) -> None:
    done = kubectl.deploy(OVERLAY="local")
    assert done.returncode == 0, done.stderr
    labels = ["grpo-code/pipeline=true", "grpo-code/deployed=true"]
    assert ["label", "--overwrite", "namespace", "kubeflow", *labels] in [call for call, _ in kubectl.calls]
    token = kubectl.secret("kubeflow/grpo-code-sandbox")
    assert token == kubectl.secret("grpo-code-sandbox/grpo-code-sandbox")
    assert token
    assert len(token["TOKEN"]) > 30
    assert "Secret grpo-code-store is not in namespace kubeflow, and runs need it" in done.stdout


def test_two_at_the_same_time_do_not_mix(kubectl: Kubectl) -> None:
    """Each renders in a folder of its own, which is gone afterwards."""
    for tag in ("1", "2"):
        assert kubectl.deploy(TAG=tag).returncode == 0
    folders = [Path(words[1]) for words, _ in kubectl.calls if words[0] == "kustomize"]
    assert len(set(folders)) == 2
    assert not any(folder.exists() for folder in folders)


def test_no_secret_is_on_a_command_line(kubectl: Kubectl) -> None:
    kubectl.knows(["kubeflow"], {"kubeflow/mlpipeline-minio-artifact": THEIRS})
    assert kubectl.deploy(OVERLAY="local,seaweedfs").returncode == 0
    token = kubectl.secret("kubeflow/grpo-code-sandbox")
    assert token
    for words, _ in kubectl.calls:
        assert token["TOKEN"] not in " ".join(words)
        assert "minio123" not in " ".join(words)


@pytest.mark.parametrize("namespace", ["kubeflow", "team-a"])
def test_the_secret_for_kfps_own_store_is_made_from_kfps(kubectl: Kubectl, namespace: str) -> None:
    kubectl.knows(["kubeflow", "team-a"], {"kubeflow/mlpipeline-minio-artifact": THEIRS})
    done = kubectl.deploy(OVERLAY="local,seaweedfs", NAMESPACE=namespace)
    assert done.returncode == 0, done.stderr
    assert kubectl.secret(f"{namespace}/grpo-code-store") == {
        "S3_ENDPOINT": "seaweedfs.kubeflow:9000",
        "S3_SECURE": "false",
        "S3_ACCESS_KEY": "minio",
        "S3_SECRET_KEY": "minio123",
        "GRPO_STORE": "s3://mlpipeline/grpo-code",
    }


def test_a_profile_uses_its_own_keys_for_kfps_store(kubectl: Kubectl) -> None:
    """KFP's would open the artifacts of all profiles to each."""
    kubectl.knows(["kubeflow", "team-a"], {"kubeflow/mlpipeline-minio-artifact": THEIRS})
    done = kubectl.deploy(OVERLAY="kubeflow-multiuser,seaweedfs", NAMESPACE="team-a")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("Namespace team-a has no Secret mlpipeline-minio-artifact: name a profile's")
    own = {"accesskey": "b3du", "secretkey": "c2VjcmV0"}
    both = {"kubeflow/mlpipeline-minio-artifact": THEIRS, "team-a/mlpipeline-minio-artifact": own}
    kubectl.knows(["kubeflow", "team-a"], both)
    done = kubectl.deploy(OVERLAY="kubeflow-multiuser,seaweedfs", NAMESPACE="team-a")
    assert done.returncode == 0, done.stderr
    assert kubectl.secret("team-a/grpo-code-store") == {
        "S3_ENDPOINT": "seaweedfs.kubeflow:9000",
        "S3_SECURE": "false",
        "S3_ACCESS_KEY": "own",
        "S3_SECRET_KEY": "secret",
        "GRPO_STORE": "s3://mlpipeline/private/team-a/grpo-code",
    }


def test_a_secret_that_is_there_stays(kubectl: Kubectl) -> None:
    own = {"S3_ENDPOINT": "cw=="}
    kubectl.knows(["kubeflow"], {"kubeflow/mlpipeline-minio-artifact": THEIRS, "kubeflow/grpo-code-store": own})
    assert kubectl.deploy(OVERLAY="seaweedfs").returncode == 0
    assert kubectl.secret("kubeflow/grpo-code-store") == {"S3_ENDPOINT": "s"}


@pytest.mark.parametrize("theirs", [{}, {"kubeflow/mlpipeline-minio-artifact": {"accesskey": "bWluaW8="}}])
def test_without_kfps_secret_there_is_no_store(kubectl: Kubectl, theirs: dict[str, dict[str, str]]) -> None:
    kubectl.knows(["kubeflow"], theirs)
    done = kubectl.deploy(OVERLAY="seaweedfs")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("Namespace kubeflow has no Secret mlpipeline-minio-artifact: install")


def test_a_namespace_that_is_not_there_is_refused_before_anything_is_made(kubectl: Kubectl) -> None:
    done = kubectl.deploy(NAMESPACE="team-a")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("There is no namespace team-a: install Kubeflow Pipelines or make the profile first")
    assert [call[0] for call, _ in kubectl.calls] == ["kustomize", "get"]
    assert kubectl.deploy(NAMESPACE="grpo-code").returncode == 0, "this one is made"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"MINIO_IMAGE": "localhost:5000/minio"}, "MINIO_IMAGE 'localhost:5000/minio' is no image with a tag"),
        ({"MINIO_IMAGE": "foo"}, "MINIO_IMAGE 'foo' is no image with a tag"),
        ({"MINIO_IMAGE": "foo:"}, "MINIO_IMAGE 'foo:' is no image with a tag"),
        ({"MINIO_IMAGE": "a b:1"}, "MINIO_IMAGE 'a b:1' is no image with a tag"),
        ({"MINIO_IMAGE": "https://x/minio:1"}, "MINIO_IMAGE 'https://x/minio:1' is no image with a tag"),
        ({"MINIO_IMAGE": "x/minio:latest"}, "MINIO_IMAGE with the tag latest may be another image tomorrow"),
        ({"REGISTRY": "https://x"}, "REGISTRY 'https://x' is no registry: a host"),
        ({"REGISTRY": "ghcr.io/Me"}, "REGISTRY 'ghcr.io/Me' is no registry: a host, and a path in small letters"),
        ({"REGISTRY": "ghcr.io/me:1"}, "REGISTRY 'ghcr.io/me:1' is no registry"),
        ({"NAMESPACE": "Bad Name"}, "NAMESPACE 'Bad Name' is no namespace"),
        ({"KFP_NAMESPACE": "team_a"}, "NAMESPACE 'team_a' is no namespace"),
    ],
)
def test_what_cannot_be_deployed_is_refused_in_one_sentence(
    kubectl: Kubectl, settings: dict[str, str], sentence: str
) -> None:
    done = kubectl.deploy(OVERLAY="local,minio", **settings)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith(sentence)
    assert kubectl.calls == []


@pytest.mark.parametrize(
    "registry", ["localhost:5000", "ghcr.io/me", "registry.example.com/team/a_b-c", "10.0.0.1:5000/x/"]
)
def test_registries_as_they_are_written(kubectl: Kubectl, registry: str) -> None:
    done = kubectl.deploy(REGISTRY=registry, MINIO_IMAGE=f"{registry.rstrip('/')}/minio:1")
    assert done.returncode == 0, done.stderr
