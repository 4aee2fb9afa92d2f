"""The command line against a real Kubeflow Pipelines, by each way that there is: its Service, a forwarded port, TLS.

In a pod the Service is found by itself, and the token that Kubeflow projects into pods is taken. The gateway with TLS
and tokens (gateway.py) stands for an installation's own.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import ROOT, Cluster, forwarded
from tests.cluster.gateway import AUDIENCE
from tests.cluster.gateways import gateway_to_kfp
from tests.cluster.pods import Ended, make_pod, run_pod
from tests.kfp_at_hand import for_a_single_user

pytestmark = [pytest.mark.kfp, pytest.mark.cluster, pytest.mark.timeout(900)]
ADDED = (
    "click",
    "cronsim",
    "kfp-kubernetes",
    "kubernetes",
    "python-dotenv",
    "rich",
)  # what the command line has over prepare's image
DOCKERFILE = """
FROM {base}
USER 0
RUN pip --python /opt/venv/bin/python install --no-cache-dir {packages}
COPY . .
USER 65532:0
"""
TOKENS = "/var/run/secrets/kubeflow/pipelines"


@pytest.fixture(scope="module", autouse=True)
def _kfp() -> None:
    for_a_single_user()


@pytest.fixture(scope="module")
def cli_image(cluster: Cluster, registry: str, doctor_images: dict[str, str], tmp_path_factory) -> str:
    """An image with the command line in it, for pods that use it as a notebook would."""
    context = tmp_path_factory.mktemp("context")
    cluster.run("bash", "-c", f"git ls-files cli components demo pipeline.py | tar c -T - | tar x -C {context}")
    pins = [line.split()[0] for line in (ROOT / "tests/requirements.txt").read_text().splitlines() if "==" in line]
    packages = " ".join(pin for pin in pins if pin.split("==")[0] in ADDED)
    (context / "Dockerfile").write_text(DOCKERFILE.format(base=doctor_images["prepare"], packages=packages))
    name = f"{registry}/grpo-code-cli:doctor-test"
    cluster.run("docker", "build", "--network", "host", "-t", name, str(context), timeout=600)
    cluster.run("docker", "push", "-q", name, timeout=600)
    return name


@pytest.fixture(scope="module")
def gateway(cluster: Cluster, python_image: str, tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """The namespace in which a Service `gateway` leads to KFP, and the certificate of who signed its own."""
    with gateway_to_kfp(cluster, python_image, tmp_path_factory.mktemp("tls")) as found:
        yield found


def said(cluster: Cluster, *words: str, **environment: str) -> tuple[int, str]:
    """What a verb prints on this machine with nothing but these variables about KFP."""
    own = {name: value for name, value in cluster.environment.items() if not name.startswith(("KFP_", "REGISTRY"))}
    done = subprocess.run(
        [sys.executable, "pipeline.py", *words], env={**own, **environment}, capture_output=True, text=True, cwd=ROOT
    )
    return done.returncode, done.stdout + done.stderr


def in_a_pod(cluster: Cluster, space: str, image: str, *words: str, env: dict[str, str], **more: Any) -> Ended:
    """A verb in a pod that has an account of its own."""
    pod = make_pod("command-line", image, ["python", "pipeline.py", *words])
    pod["spec"]["automountServiceAccountToken"] = True
    container = pod["spec"]["containers"][0]
    container["imagePullPolicy"] = "Always"  # its tag is the same at every build
    container["env"] = [{"name": name, "value": value} for name, value in {"HOME": "/tmp", "TAG": "1", **env}.items()]
    for name, volume in more.items():
        pod["spec"]["volumes"].append({"name": name, **volume[1]})
        container["volumeMounts"].append({"name": name, "mountPath": volume[0]})
    return run_pod(cluster, space, pod)


def test_in_a_pod_the_service_is_found(cluster: Cluster, cli_image: str) -> None:
    with cluster.namespace("test-notebook") as space:
        listed = in_a_pod(cluster, space, cli_image, "schedule", "list", env={})
        assert listed.code == 0, listed.printed
        uploaded = in_a_pod(cluster, space, cli_image, "upload", env={})
        assert uploaded.code == 0, uploaded.printed
        assert "grpo-code, version " in uploaded.printed
        asked = in_a_pod(cluster, space, cli_image, "doctor", "--no-probe", "--json", env={})
        findings = json.loads(asked.printed[asked.printed.index("{") :])["findings"]
        (kfp,) = [each for each in findings if each["check"] == "kfp"]
        assert kfp["state"] == "ok", kfp
        assert "at http://ml-pipeline.kubeflow.svc.cluster.local:8888" in kfp["seen"]
        assert {each["state"] for each in findings if each["check"] == "namespace"} == {"skipped"}, "it has no rights"


def test_a_forwarded_port(cluster: Cluster) -> None:
    with forwarded(cluster, "kubeflow", "ml-pipeline", 8888) as port:
        code, text = said(cluster, "schedule", "list", KFP_ENDPOINT=f"http://localhost:{port}")
        assert code == 0, text
    code, text = said(cluster, "schedule", "list", KFP_ENDPOINT=f"http://localhost:{port}")
    assert code == 1
    assert "cannot be reached at http://localhost:" in text


def test_tls_and_a_token(cluster: Cluster, gateway: tuple[str, Path], tmp_path: Path) -> None:
    space, authority = gateway
    token = cluster.kubectl("create", "token", "default", "-n", space, f"--audience={AUDIENCE}").strip()
    other = cluster.kubectl("create", "token", "default", "-n", space, "--audience=another").strip()
    with forwarded(cluster, space, "gateway", 443) as port:
        where = {"KFP_ENDPOINT": f"https://localhost:{port}", "KFP_CA_CERT": str(authority)}
        for expected, words, environment in (
            (0, "", {**where, "KFP_TOKEN": token}),
            (2, "does not accept this token (HTTP 401", {**where, "KFP_TOKEN": other}),
            (2, "asks for a login (HTTP 401", where),
            (1, "CERTIFICATE_VERIFY_FAILED", {"KFP_ENDPOINT": where["KFP_ENDPOINT"], "KFP_TOKEN": token}),
        ):
            code, text = said(cluster, "schedule", "list", **environment)
            assert (code, words in text) == (expected, True), text
        code, text = said(
            cluster, "schedule", "list", "--no-verify-tls", KFP_ENDPOINT=where["KFP_ENDPOINT"], KFP_TOKEN=token
        )
        assert code == 0, text
        run = "00000000-0000-0000-0000-000000000000"
        code, text = said(cluster, "watch", run, **where, KFP_TOKEN=token)
        assert code == 2
        assert "refuses this" in text
        code, text = said(cluster, "upload", **where, KFP_TOKEN=token, TAG="1")
        assert code == 0, text


def test_in_a_pod_the_projected_token_is_taken(cluster: Cluster, gateway: tuple[str, Path], cli_image: str) -> None:
    """As in a notebook of Kubeflow's: no variable names a token."""
    space, _ = gateway
    env = {"KFP_ENDPOINT": f"https://gateway.{space}", "KFP_CA_CERT": "/authority/tls.crt"}
    source = {"serviceAccountToken": {"path": "token", "audience": AUDIENCE, "expirationSeconds": 7200}}
    volumes = {
        "authority": (
            "/authority",
            {"secret": {"secretName": "gateway", "items": [{"key": "tls.crt", "path": "tls.crt"}]}},
        ),
        "tokens": (TOKENS, {"projected": {"sources": [source]}}),
    }
    listed = in_a_pod(cluster, space, cli_image, "schedule", "list", env=env, **volumes)
    assert listed.code == 0, listed.printed
    del volumes["tokens"]
    refused = in_a_pod(cluster, space, cli_image, "schedule", "list", env=env, **volumes)
    assert refused.code == 2
    assert "asks for a login (HTTP 401" in refused.printed
