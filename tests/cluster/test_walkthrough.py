"""The walk-throughs of docs/kubernetes.md from images to a recurring run, their blocks executed as they stand.

What is not there on every cluster is adapted, and nothing else: see ON_KIND and ON_KUBEFLOW. On a real Kubeflow
Pipelines only, of which the first needs one for a single user, the second one for several.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import ROOT, Cluster, forwarded
from tests.cluster.conftest import Images, deploy
from tests.cluster.gateways import ISTIO, gateway_to_kfp
from tests.cluster.profile import profile_of_its_own, token_of
from tests.cluster.test_deploying import claimed
from tests.cluster.walkthrough import looked_at, parts, run_followed, script, steps
from tests.kfp_at_hand import for_a_single_user, for_several_users

pytestmark = [pytest.mark.kfp, pytest.mark.cluster, pytest.mark.timeout(2400)]
KIND, KUBEFLOW = "From nothing to a run: on kind", "From nothing to a run: on Kubeflow"
FIRST = 4  # the step after the cluster, KFP and the images
LAST = {KIND: 11, KUBEFLOW: 9}
# Of the page's own text: what stands instead, and why.
ON_KIND = {
    "svc/ml-pipeline-ui 8080:80": "svc/ml-pipeline {port}:8888",  # the API itself, where KFP came without its page
    "svc/minio 9000:9000": "svc/minio {store}:9000",  # ports of this machine that may be taken
    "http://localhost:8080": "http://localhost:{port}",
    "S3_ENDPOINT=localhost:9000": "S3_ENDPOINT=localhost:{store}",
    "make setup\nsource .venv/bin/activate\n": "",  # the tests' own environment
    "--name nightly": "--name {name}",
}
ON_KUBEFLOW = {
    "OVERLAY=kubeflow-multiuser": "OVERLAY=local,kubeflow-multiuser",  # one node
    "team-a": "{profile}",
    "https://kubeflow.example.com": "https://localhost:{port}",
    "svc/minio 9000:9000": "svc/minio {store}:9000",
    "S3_ENDPOINT=localhost:9000": "S3_ENDPOINT=localhost:{store}",
    "make setup\nsource .venv/bin/activate\n": "",
    "--model-name Qwen/Qwen2.5-Coder-7B --train-memory 64Gi": '"${{demo[@]}}"',  # no hub, no GPU
    '1-5" --train-memory 64Gi': '1-5" "${{demo[@]}}"',
    "--name nightly": "--name {name}",
}
UPLOADED = """
DEMO=$(python pipeline.py upload-demo | grep "pipeline.py run")
eval "demo=(${DEMO#*pipeline.py run })"
"""  # what step 8 says of a first try


def kind_script(port: int, store: int, pages: int, name: str) -> str:
    def amended(number: int, block: str) -> str:
        if number == 5:
            return block + f"open_port {port}; open_port {store}\n"
        if number == 9:
            return run_followed(block)
        return looked_at(block, pages) if number == 10 else block

    adapted = {old: new.format(port=port, store=store, name=name) for old, new in ON_KIND.items()}
    return script(KIND, FIRST, LAST[KIND], adapted, amended)


def kubeflow_script(port: int, store: int, pages: int, name: str, profile: str) -> str:
    def amended(number: int, block: str) -> str:
        if number == 6:
            return f"{block}open_port {store}\n{UPLOADED}"
        return run_followed(looked_at(block, pages)) if number == 8 else block

    adapted = {old: new.format(port=port, store=store, name=name, profile=profile) for old, new in ON_KUBEFLOW.items()}
    return script(KUBEFLOW, FIRST, LAST[KUBEFLOW], adapted, amended)


@pytest.mark.parametrize(("way", "adapted"), [(KIND, ON_KIND), (KUBEFLOW, ON_KUBEFLOW)])
def test_the_script_is_the_pages(way: str, adapted: dict[str, str]) -> None:
    found = steps(way)
    assert set(found) >= set(range(FIRST, LAST[way] + 1))
    assert max(found) == LAST[way]
    for old in adapted:
        assert any(old in block for block in found.values()), f"{old!r} is not on the page any more"


@pytest.fixture
def volume_for_minio(cluster: Cluster, images: Images, minio_image: str) -> Iterator[None]:
    """A volume that MinIO's user may write to; see test_deploying.py."""
    with claimed(cluster, images["sandbox"]):
        yield


@pytest.fixture
def kfp_namespace(cluster: Cluster, images: Images, sandbox: str) -> Iterator[None]:
    """What is deployed for runs in namespace kubeflow is gone afterwards."""
    for_a_single_user()
    yield
    cluster.run("make", "undeploy", timeout=600)
    cluster.kubectl("-n", "kubeflow", "delete", "secret", "grpo-code-store", "--ignore-not-found")
    deploy(cluster, images)


@pytest.fixture
def profile(cluster: Cluster, images: Images, sandbox: str) -> Iterator[str]:
    """The namespace of a profile, as Kubeflow makes one."""
    for_several_users()
    with profile_of_its_own(cluster) as name:
        yield name
        cluster.run("make", "undeploy", timeout=600)
    deploy(cluster, images)


@pytest.fixture
def ports() -> list[int]:
    """Free ports of this machine: for KFP, the store, and the report's pages."""
    with contextlib.ExitStack() as held:
        bound = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        return [each.getsockname()[1] for each in bound]


def walked(cluster: Cluster, images: Images, text: str, folder: Path, **settings: str) -> dict[int, str]:
    """What each step of a script printed; AssertionError with its words where it fails."""
    own = {key: value for key, value in cluster.environment.items() if not key.startswith(("KFP_", "S3_", "GRPO_"))}
    settings |= {
        "REGISTRY": images.registry,
        "TAG": images.tag,
        "MINIO_IMAGE": f"{images.registry}/minio:1",
        "PATH": f"{Path(sys.executable).parent}:{own['PATH']}",
        "SAID": str(folder / "run.txt"),
    }
    file = folder / "walk.sh"
    file.write_text(text)
    done = subprocess.run(
        ["bash", str(file)], cwd=ROOT, env={**own, **settings}, capture_output=True, text=True, timeout=2000
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"[-6000:]
    return parts(done.stdout)


def check_pages(printed: str) -> None:
    """The status page and the evaluation that `report` served."""
    assert "train: done" in printed
    status, evaluation = printed.split("\n## ")[-2:]
    assert "<html" in status
    content, _ = json.JSONDecoder().raw_decode(evaluation)
    assert content["within_noise"] is False


def test_from_images_to_a_recurring_run(
    cluster: Cluster, images: Images, kfp_namespace: None, volume_for_minio: None, ports: list[int], tmp_path: Path
) -> None:
    name = f"test-{ports[0]}"
    try:
        printed = walked(cluster, images, kind_script(*ports, name), tmp_path)
    finally:
        forget_schedules(name, {**cluster.environment, "KFP_ENDPOINT": os.environ["KFP_ENDPOINT"]})
    assert "FAIL" not in printed[8], printed[8]
    assert "policy out" in printed[8]
    assert "The run succeeded" in printed[9]
    check_pages(printed[10])
    assert f"{name}  At 02:30 every day" in printed[11]


def test_the_same_with_profiles_behind_a_gateway(
    cluster: Cluster,
    images: Images,
    profile: str,
    volume_for_minio: None,
    python_image: str,
    ports: list[int],
    tmp_path: Path,
) -> None:
    """What stands in for Kubeflow around its Pipelines is the gateway and what makes a profile's namespace."""
    name, (_, store, pages) = f"test-{ports[0]}", ports
    with (
        gateway_to_kfp(cluster, python_image, tmp_path, **ISTIO) as (space, authority),
        forwarded(cluster, space, "gateway", 443) as port,
    ):
        text = kubeflow_script(port, store, pages, name, profile)
        try:
            printed = walked(cluster, images, text, tmp_path, KFP_CA_CERT=str(authority))
        finally:
            token = token_of(cluster, profile)
            where = {"KFP_ENDPOINT": f"https://localhost:{port}/pipeline", "KFP_CA_CERT": str(authority)}
            forget_schedules(name, {**cluster.environment, **where, "KFP_TOKEN": token, "KFP_NAMESPACE": profile})
    assert "FAIL" not in printed[7], printed[7]
    assert "policy out" in printed[7]
    assert "The run succeeded" in printed[8]
    check_pages(printed[8])
    assert f"{name}  At 02:30" in printed[9]


def forget_schedules(name: str, environment: dict[str, str]) -> None:
    """Delete what the last step has made."""
    command = [sys.executable, "pipeline.py", "schedule"]
    listed = subprocess.run([*command, "list"], env=environment, capture_output=True, text=True, cwd=ROOT).stdout
    for line in listed.splitlines():
        if name in line:
            subprocess.run([*command, "delete", line.split()[0]], env=environment, cwd=ROOT, capture_output=True)
