"""The images, built and pushed: what is in them, what they share, and each one's self-check in a locked-down pod."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.images import ALL
from components.images import STEPS
from components.selfcheck import pins
from tests.cluster.cluster import ROOT, Cluster
from tests.cluster.conftest import Images
from tests.cluster.pods import make_pod, run_pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

SANDBOX_MEGABYTES = 80  # over its base
CODE_MEGABYTES = 5
INSTALLED = """
import json
from importlib import metadata
found = {each.metadata["Name"]: each.version for each in metadata.distributions()}
print(json.dumps({name.lower().replace("_", "-").replace(".", "-"): version for name, version in found.items()}))
"""
ONE_VERDICT = """
import json, subprocess, sys, urllib.request
service = subprocess.Popen([sys.executable, "-m", "sandbox", "--port", "0", "--workers", "1", "--scratch", "/tmp",
                            *sys.argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
url = service.stdout.readline().split()[-1]
item = {"id": "1", "program": "import numpy\\ndef f(n):\\n    return int(numpy.arange(n).sum())", "entry_point": "f",
        "setup": "", "tests": ["assert f(4) == 6"], "timeout_s": 5}
request = urllib.request.Request(url + "/v1/verdicts", json.dumps({"items": [item]}).encode(),
                                 {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request))["verdicts"][0]["outcome"])
service.terminate()
"""
FROM_TORCH = ("nvidia-", "cuda-", "triton")  # what torch's wheel names by itself


def inspect(cluster: Cluster, image: str) -> dict:
    return json.loads(cluster.run("docker", "image", "inspect", image).stdout)[0]


def layers(cluster: Cluster, image: str) -> list[str]:
    return inspect(cluster, image)["RootFS"]["Layers"]


def installed(cluster: Cluster, image: str) -> dict[str, str]:
    command = ["docker", "run", "--rm", "--entrypoint", "python", image, "-c", INSTALLED]
    return json.loads(cluster.run(*command).stdout)


def test_the_sandbox_is_small(cluster: Cluster, images: Images, base_image: str) -> None:
    own, base = (inspect(cluster, name)["Size"] for name in (images["sandbox"], base_image))
    assert (own - base) / 1e6 <= SANDBOX_MEGABYTES


def test_what_holds_a_model_shares_the_layers_below_the_code(cluster: Cluster, images: Images) -> None:
    model = layers(cluster, images["model"])
    for step in ("filter", "train", "evaluate"):
        assert layers(cluster, images[step])[: len(model)] == model
    assert layers(cluster, images["prepare"])[:3] == model[:3]


@pytest.mark.parametrize("name", ALL)
def test_an_image_runs_as_nobody_and_says_what_it_is(cluster: Cluster, images: Images, name: str) -> None:
    config = inspect(cluster, images[name])["Config"]
    assert config["User"].startswith("65532:")
    assert config["Labels"]["org.opencontainers.image.version"] == images.tag
    assert not [text for text in config["Env"] if re.match(r"\w*(TOKEN|SECRET|KEY|PASSWORD)=", text)]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_has_its_pins_and_nothing_else(cluster: Cluster, images: Images, step: str) -> None:
    found, wanted = installed(cluster, images[step]), pins(step)
    others = {name for name in found if name not in wanted and not name.startswith(FROM_TORCH)}
    assert others == set()
    assert "pip" not in found


def test_the_sandbox_has_its_pins_and_nothing_else(cluster: Cluster, images: Images) -> None:
    lines = (ROOT / "images/sandbox/requirements.txt").read_text().split()
    assert installed(cluster, images["sandbox"]) == dict(line.split("==") for line in lines)


@pytest.mark.parametrize("step", STEPS)
def test_a_steps_self_check_passes_in_a_locked_down_pod(
    cluster: Cluster, images: Images, namespace: str, step: str
) -> None:
    pod = make_pod("selfcheck", images[step], ["python", "-m", "components.selfcheck", step])
    ended = run_pod(cluster, namespace, pod)
    assert ended.code == 0, ended.printed
    faults = json.loads(ended.printed[ended.printed.index("{") :])
    assert set(faults) == {"versions", "imports", "user", "folders"}
    assert not any(faults.values())


@pytest.mark.parametrize(
    ("step", "kind", "fault"),
    [
        ("prepare", "user", "the user is root: 65532 is expected"),
        ("train", "image", "this is not the image of train: images/train/requirements.in is not in /app"),
    ],
)
def test_a_self_check_says_what_is_wrong(cluster: Cluster, images: Images, step: str, kind: str, fault: str) -> None:
    command = ["docker", "run", "--rm", "--user", "0", images["prepare"], "python", "-m", "components.selfcheck", step]
    done = cluster.run(*command, check=False)
    assert done.returncode == 1
    assert fault in json.loads(done.stdout)[kind]


def test_the_sandboxs_self_test_passes_in_a_locked_down_pod(cluster: Cluster, images: Images, namespace: str) -> None:
    command = ["python", "-m", "sandbox", "--self-test", "--workers", "1", "--scratch", "/tmp"]
    ended = run_pod(cluster, namespace, make_pod("selftest", images["sandbox"], command))
    assert ended.code == 0, ended.printed
    found = json.loads(ended.printed[ended.printed.index("{\n") :])
    assert found["ready"]
    assert {layer["state"] for layer in found["layers"].values()} == {"holds"}


def test_programs_may_import_what_the_image_was_built_with(cluster: Cluster, images: Images) -> None:
    package = f"numpy=={min(pins('filter')['numpy'])}"
    settings = [f"REGISTRY={images.registry}", "TAG=with-numpy", "BUILD_OPTIONS=--network host"]
    image = f"{images.registry}/grpo-code-sandbox:with-numpy"
    try:
        cluster.run("make", "images", *settings, f"SITE_PACKAGES={package}", "ARGS=sandbox", timeout=900)
        outcomes = []
        for options in ([], ["--site-packages"]):
            run = ["docker", "run", "--rm", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--network", "none"]
            done = cluster.run(*run, "--entrypoint", "python", image, "-c", ONE_VERDICT, *options)
            outcomes.append(done.stdout.split()[-1])
        assert outcomes == ["error", "passed"]
    finally:
        cluster.run("docker", "image", "rm", image, check=False)


@pytest.mark.parametrize("name", ALL)
def test_the_bill_of_materials_lists_the_pins_and_debian(cluster: Cluster, images: Images, name: str) -> None:
    document = json.loads((ROOT / f"build/sbom/grpo-code-{name}.json").read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    listed = {component["name"].lower().replace("_", "-").replace(".", "-") for component in document["components"]}
    assert set(installed(cluster, images[name])) <= listed
    purls = [component.get("purl", "") for component in document["components"]]
    assert any(purl.startswith("pkg:deb/debian/libc6@") for purl in purls)


def test_a_change_of_code_is_one_thin_layer(cluster: Cluster, images: Images, tmp_path: Path) -> None:
    """Built from a copy of the tree with one line more: nothing but the last layer differs, in bytes and in digest."""
    for name in ("components", "images", "cli"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".dockerignore", tmp_path)
    with (tmp_path / "components/settings.py").open("a") as file:
        file.write("\nCHANGED = True\n")
    environment = cluster.environment | {
        "REGISTRY": images.registry,
        "TAG": "changed",
        "BUILD_OPTIONS": "--network host",
    }
    program = "from cli import images; images.settle_tag(); images._build_after_parent('train', set())"
    command = ["python3", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
    changed = f"{images.registry}/grpo-code-train:changed"
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        before, after = layers(cluster, images["train"]), layers(cluster, changed)
        assert before[:-1] == after[:-1]
        assert before[-1] != after[-1]
        history = cluster.run("docker", "history", "--human=false", "--format", "{{.Size}}", changed).stdout.split()
        newest = next(int(size) for size in history if int(size))
        assert newest <= CODE_MEGABYTES * 1e6
    finally:
        for step in ("train", "model", "base"):
            cluster.run("docker", "image", "rm", f"{images.registry}/grpo-code-{step}:changed", check=False)


def test_secrets_and_history_stay_out_of_the_build(cluster: Cluster, tmp_path: Path) -> None:
    """The context as docker sees it, of a tree with a secret in every folder."""
    shutil.copy(ROOT / ".dockerignore", tmp_path)
    for name in (".env", ".git/config", "components/a.py", "components/__pycache__/a.pyc", "images/kfp.txt",
                 "images/.env", "images/train/requirements.txt", "images/train/key.pem", "out/run.json",
                 ".venv/x", "images/sandbox/sandbox/a.py", "demo/model/x", "cli/token"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "Dockerfile").write_text("FROM python:3.11-slim\nCOPY . /context\n")
    shutil.copy(ROOT / ".dockerignore", tmp_path / ".dockerignore")
    with (tmp_path / ".dockerignore").open("a") as file:
        file.write("!Dockerfile\n")
    cluster.run("docker", "build", "-q", "-t", "grpo-code-context-test", str(tmp_path))
    try:
        command = ["docker", "run", "--rm", "grpo-code-context-test", "sh", "-c", "cd /context && find . -type f"]
        found = set(cluster.run(*command).stdout.split())
    finally:
        cluster.run("docker", "image", "rm", "grpo-code-context-test", check=False)
    assert found == {"./Dockerfile", "./components/a.py", "./images/kfp.txt", "./images/train/requirements.txt"}
