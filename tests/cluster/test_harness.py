"""What the tests do on a cluster that lacks this or that, and what they say at the end, tried without a cluster.

kubectl and docker are programs of the test's own here, which answer from a file and note what they were asked.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cli.cluster import Cluster as Connection
from tests.cluster.cluster import ROOT, Cluster, brought_up
from tests.cluster.conftest import as_cluster
from tests.cluster.doctoring import small
from tests.cluster.pushed import pulled_base_image, pushed_minio
from tests.cluster.troubles import CASES, HOLLOW

PROGRAM = """#!{python}
import json, os, pathlib, sys
home = pathlib.Path({home!r})
with (home / "asked").open("a") as file:
    print(pathlib.Path(sys.argv[0]).name, *sys.argv[1:], file=file)
words = sys.argv[1:]
if sys.argv[0].endswith("docker"):
    refused = [line for line in (home / "refused").read_text().splitlines() if line in " ".join(words)]
    sys.exit("Error: no such thing") if refused else sys.exit(0)
there = json.loads((home / "there").read_text())
if "--raw" in words:
    sys.exit(there["raw"])
print(json.dumps({{"items": there.get(words[1], [])}}))
"""
TEST = """
import json, os, pathlib
import pytest
from tests.cluster.conftest import *
from tests.cluster import leftovers
pytestmark = pytest.mark.cluster
def test_uses_it(cluster):
    cluster.timed("a thing made", "true", timeout=10)
    cluster.timed("a thing made", "true", timeout=10)
def test_beyond(outside): pass
def test_gpu(gpu): pass
def test_scaled(metrics_api): pass
def test_images(images): pass
def test_needs_a_store(ground): pass
"""
LEAVES = """
def test_leaves_something(cluster):
    leftovers.SECONDS_TO_GO = 0
    file = pathlib.Path(os.environ["HOME"], "there")
    namespace = {"kind": "Namespace", "metadata": {"name": "doctor-half-0a1b2c"}}
    file.write_text(json.dumps({"raw": 1, "namespaces": [namespace]}))
"""


def configuration(name: str, host: str) -> str:
    """One cluster, of that name, with a user and a context."""
    context = {"cluster": name, "user": name}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": host}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": context}],
        }
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a kubeconfig in its place, and with kubectl and docker; no variable names a kubeconfig."""
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").write_text(configuration("at-home", "https://home.example:6443"))
    (tmp_path / "there").write_text(json.dumps({"raw": 1}))
    (tmp_path / "refused").touch()
    (tmp_path / "bin").mkdir()
    for name in ("kubectl", "docker"):
        (tmp_path / "bin" / name).write_text(PROGRAM.format(python=sys.executable, home=str(tmp_path)))
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    for name in ("KUBECONFIG", "REGISTRY", "OUTSIDE_IP", "GRPO_TEST_CLUSTER_UP", "MINIO_IMAGE", "BASE_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(home: Path, text: str, *options: str, **settings: str) -> tuple[int, list[str]]:
    """The exit code and the lines of `make e2e` over a file of tests."""
    (home / "test_some.py").write_text(text)
    command = [sys.executable, "-m", "tests.e2e", "cluster", *options, "-p", "no:cacheprovider", str(home)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, timeout=120
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.mark.parametrize("variable", [None, "", "one", "several"])
def test_any_kubeconfig_will_do(home: Path, variable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As kubectl finds it: the variable's file or files, else the one in the home."""
    (home / "one").write_text(configuration("one", "https://one.example:6443"))
    (home / "two").write_text(configuration("two", "https://two.example:6443"))
    value = f"{home / 'one'}:{home / 'two'}" if variable == "several" else variable and str(home / variable)
    cluster = Cluster({"HOME": str(home), **({} if value is None else {"KUBECONFIG": value})})
    expected = "https://one.example:6443" if value else "https://home.example:6443"
    assert cluster.api.configuration.host == expected
    as_cluster(cluster, monkeypatch)
    assert Connection.connect(namespace="x").server == expected


def test_a_registry_may_have_a_path(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY", "ghcr.io/me/")
    assert brought_up("/bin/true").registry == "ghcr.io/me"
    (case,) = [each for each in CASES if each.name == "image"]
    (container,) = case.pod("ghcr.io/me/python:3.11-slim")["spec"]["containers"]
    assert container["image"] == "ghcr.io/me/grpo-code/never-pushed:1"


@pytest.mark.slow
def test_what_a_cluster_lacks_is_said_and_what_was_made_is_timed(home: Path) -> None:
    """No registry, no GPU, no metrics, no host outside: whatever does without has run, and nothing else is wrong."""
    code, lines = run(home, TEST, "-n", "0")
    assert code == 0, lines
    assert "skipped 1: no GPU: no node offers nvidia.com/gpu" in lines
    assert any(line.startswith("skipped 1: no metrics of pods: ") for line in lines)
    assert "skipped 2: no image registry: REGISTRY is not set, for example REGISTRY=ghcr.io/me" in lines
    assert any(line.startswith("skipped 1: no host outside: OUTSIDE_IP names none ") for line in lines)
    assert [line for line in lines if line.startswith("a thing made ") and line.endswith(" s, 2 times")]
    assert "left on the cluster: nothing that was not there before" in lines


def docker_was_asked(home: Path) -> list[str]:
    """Its command lines since the last time."""
    asked = [line for line in (home / "asked").read_text().splitlines() if line.startswith("docker ")]
    (home / "asked").write_text("")
    return asked


def test_without_an_image_of_minio_the_reason_is_true(home: Path) -> None:
    """Neither in the registry nor to be had elsewhere."""
    (home / "refused").write_text("minio\n")
    with pytest.raises(pytest.skip.Exception) as skipped:
        pushed_minio(Cluster(dict(os.environ)), "ghcr.io/me")
    said = str(skipped.value)
    assert said.startswith("no MinIO: ghcr.io/me/minio:1 is not in the registry, and quay.io/minio/minio:RELEASE.")
    assert said.endswith("cannot be pulled (Error: no such thing)")


def test_an_image_of_minio_is_brought_to_the_registry_that_holds_none(home: Path) -> None:
    cluster = Cluster({**os.environ, "MINIO_IMAGE": "mirror.example/minio:7"})
    name = "ghcr.io/me/minio:1"
    assert pushed_minio(cluster, "ghcr.io/me") == name
    assert docker_was_asked(home) == [f"docker manifest inspect {name}"]
    (home / "refused").write_text(f"manifest inspect {name}\npull -q {name}\n")
    assert pushed_minio(cluster, "ghcr.io/me") == name
    pull, *rest = docker_was_asked(home)[2:]
    assert pull == "docker pull -q mirror.example/minio:7"
    assert rest == [f"docker tag mirror.example/minio:7 {name}", f"docker push -q {name}"]


def test_a_base_image_that_is_absent_is_pulled(home: Path) -> None:
    cluster = Cluster(dict(os.environ))
    assert pulled_base_image(cluster) == "python:3.11-slim"
    assert docker_was_asked(home) == ["docker image inspect python:3.11-slim"]
    (home / "refused").write_text("image inspect\n")
    cluster.environment["BASE_IMAGE"] = "mirror.example/python:3.12"
    assert pulled_base_image(cluster) == "mirror.example/python:3.12"
    assert docker_was_asked(home)[1:] == ["docker pull -q mirror.example/python:3.12"]
    assert [what for what, _ in cluster.told.seconds] == ["mirror.example/python:3.12 pulled"]


@pytest.mark.slow
def test_what_is_left_at_the_end_is_an_error(home: Path) -> None:
    code, lines = run(home, TEST + LEAVES, "-n", "0")
    assert "FAILED  left on the cluster: Namespace doctor-half-0a1b2c" in lines
    assert code == 1, lines


@pytest.mark.slow
def test_so_it_is_with_several_processes(home: Path) -> None:
    code, lines = run(home, TEST)
    assert code == 0, lines
    assert lines.count("left on the cluster: nothing that was not there before") == 1
    assert [line for line in lines if line.startswith("a thing made ") and line.endswith(" s, 2 times")]
    assert len([line for line in lines if line.startswith("skipped 1: no host outside: ")]) == 1


@pytest.mark.parametrize(("offered", "gpus"), [([], "0"), (["0"], "0"), (["0", "8"], "1")])
def test_without_gpus_runs_ask_for_none(home: Path, offered: list[str], gpus: str) -> None:
    """Those of a node on which nothing runs do not count."""
    nodes = [{"metadata": {}, "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": each}}} for each in offered]
    hollow = {"metadata": {"labels": {HOLLOW: "x"}}, "status": {"allocatable": {"nvidia.com/gpu": "2"}}}
    (home / "there").write_text(json.dumps({"nodes": [*nodes, {"metadata": {}, "status": {}}, hollow]}))
    assert small(Cluster(dict(os.environ)))["gpus"] == gpus
