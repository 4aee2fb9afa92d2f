"""The walk-through of docs/kubernetes.md from images to a recurring run, its blocks executed as they stand.

What is not there on every cluster is adapted, and nothing else: see ADAPTED. On a real Kubeflow Pipelines only.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import ROOT, Cluster
from tests.cluster.conftest import Images, deploy
from tests.cluster.test_deploying import claimed

pytestmark = [pytest.mark.kfp, pytest.mark.cluster, pytest.mark.timeout(2400)]
PAGE = ROOT / "docs/kubernetes.md"
WAY = "## From nothing to a run: on kind"
FIRST, LAST = 4, 11  # the steps after the cluster, KFP and the images
# Of the page's own text: what stands instead, and why.
ADAPTED = {
    "svc/ml-pipeline-ui 8080:80": "svc/ml-pipeline {port}:8888",  # the API itself, where KFP came without its page
    "svc/minio 9000:9000": "svc/minio {store}:9000",  # ports of this machine that may be taken
    "http://localhost:8080": "http://localhost:{port}",
    "S3_ENDPOINT=localhost:9000": "S3_ENDPOINT=localhost:{store}",
    "make setup\nsource .venv/bin/activate\n": "",  # the tests' own environment
    "--name nightly": "--name {name}",
}
# RUN is what `run` printed; what waits for Ctrl-C is left after a look; a forwarded port is waited for.
HELPERS = """
set -euo pipefail
open_port() {
  for _ in $(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/$1) 2>/dev/null && return; sleep 0.2; done
  return 1
}
shown() {
  local read="import sys, urllib.request as u; print('##', u.urlopen(sys.argv[1]).read().decode())"
  for page in status.html evaluate/evaluation.json; do python -c "$read" http://127.0.0.1:$1/$page; done
}
"""


def steps() -> dict[int, str]:
    """The text of each numbered step's block, without its indentation."""
    text = PAGE.read_text(encoding="utf-8").split(WAY)[1].split("\n## ")[0]
    found = {}
    for part in re.split(r"(?m)^(?=\d+\. \*\*)", text)[1:]:
        block = re.search(r"(?ms)^( +)```sh\n(.*?)^\1```$", part)
        assert block, part
        found[int(part.split(".")[0])] = re.sub(f"(?m)^{block[1]}", "", block[2])
    return found


def script(port: int, store: int, pages: int, name: str) -> str:
    """Steps FIRST to LAST, adapted."""
    text = HELPERS
    for number, block in steps().items():
        if FIRST <= number <= LAST:
            text += f"echo '== {number}'\n"
            for old, new in ADAPTED.items():
                block = block.replace(old, new.format(port=port, store=store, name=name))
            if number == 5:
                block += f"open_port {port}; open_port {store}\n"
            if number == 9:
                block = block.rstrip() + ' | tee "$SAID"\nRUN=$(sed -n \'s/^Started run //p\' "$SAID")\n'
            if number == 10:
                block = block.replace("RUN", "$RUN")
                block = re.sub(r"(?m)^(.* report .*)$", rf"\1 --port {pages} &", block)
                block += f"open_port {pages}\nshown {pages}\n"
            text += block
    return text


def test_the_script_is_the_pages() -> None:
    found = steps()
    assert list(found) == list(range(1, LAST + 1))
    for old in ADAPTED:
        assert any(old in block for block in found.values()), f"{old!r} is not on the page any more"


@pytest.fixture
def volume_for_minio(cluster: Cluster, images: Images) -> Iterator[None]:
    """A volume that MinIO's user may write to; see test_deploying.py."""
    with claimed(cluster, images["sandbox"]):
        yield


@pytest.fixture
def kfp_namespace(cluster: Cluster, images: Images, sandbox: str) -> Iterator[None]:
    """What is deployed for runs in namespace kubeflow is gone afterwards."""
    if not os.environ.get("KFP_ENDPOINT"):
        pytest.skip("no Kubeflow Pipelines: KFP_ENDPOINT is not set")
    yield
    cluster.run("make", "undeploy", timeout=600)
    cluster.kubectl("-n", "kubeflow", "delete", "secret", "grpo-code-store", "--ignore-not-found")
    deploy(cluster, images)


@pytest.fixture
def ports() -> list[int]:
    """Three free ports of this machine: for KFP, the store, and the report's pages."""
    with contextlib.ExitStack() as held:
        bound = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        return [each.getsockname()[1] for each in bound]


def test_from_images_to_a_recurring_run(
    cluster: Cluster,
    images: Images,
    kfp_namespace: None,
    volume_for_minio: None,
    ports: list[int],
    tmp_path: Path,
) -> None:
    name = f"test-{ports[0]}"
    own = {key: value for key, value in cluster.environment.items() if not key.startswith(("KFP_", "S3_", "GRPO_"))}
    path = f"{Path(sys.executable).parent}:{own['PATH']}"
    settings = {
        "REGISTRY": images.registry,
        "TAG": images.tag,
        "MINIO_IMAGE": f"{images.registry}/minio:1",
        "PATH": path,
        "SAID": str(tmp_path / "run.txt"),
    }
    text = script(*ports, name)
    file = tmp_path / "walk.sh"
    file.write_text(f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{text}")
    try:
        done = subprocess.run(
            ["bash", str(file)], cwd=ROOT, env={**own, **settings}, capture_output=True, text=True, timeout=2000
        )
    finally:
        forget_schedules(cluster, name)
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said[-6000:]
    parts = {int(each.split("\n")[0]): each for each in done.stdout.split("== ")[1:]}
    assert "FAIL" not in parts[8], parts[8]
    assert "policy out" in parts[8]
    assert "The run succeeded" in parts[9]
    assert "train: done" in parts[10]
    status, evaluation = parts[10].split("\n## ")[-2:]
    assert "<html" in status
    content, _ = json.JSONDecoder().raw_decode(evaluation)
    assert content["within_noise"] is False
    assert f"{name}  At 02:30 every day" in parts[11]


def forget_schedules(cluster: Cluster, name: str) -> None:
    """Delete what step 11 has made."""
    environment = {**cluster.environment, "KFP_ENDPOINT": os.environ["KFP_ENDPOINT"]}
    command = [sys.executable, "pipeline.py", "schedule"]
    listed = subprocess.run([*command, "list"], env=environment, capture_output=True, text=True, cwd=ROOT).stdout
    for line in listed.splitlines():
        if name in line:
            subprocess.run([*command, "delete", line.split()[0]], env=environment, cwd=ROOT, capture_output=True)
