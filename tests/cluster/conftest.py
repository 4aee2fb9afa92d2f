"""Fixtures of the tests marked `cluster`: the cluster, a namespace of the test's own, the images built and pushed."""

import contextlib
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cli import parameters
from cli.cluster import Cluster as Connection
from cli.doctor.installation import Installation
from cli.images import default_tag
from cli.namespaces import OWN_NAMESPACE
from tests.cluster.cluster import RESTRICTED, ROOT, Cluster, bring_up, brought_up
from tests.cluster.compiled import Compiled
from tests.cluster.doctoring import SMALL, as_list
from tests.cluster.ground import Ground, installed_ground
from tests.cluster.installation import ACCOUNT, TAG, install
from tests.cluster.lanes import Once
from tests.cluster.step_pods import stand_in

UP = "GRPO_TEST_CLUSTER_UP"


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """What is made once for all processes of this run of the tests."""
    folder = tmp_path_factory.getbasetemp()
    return Once(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)


@pytest.fixture(scope="session")
def cluster(once: Once) -> Cluster:
    """The cluster that $GRPO_TEST_CLUSTER_UP brings up."""
    command = os.environ.get(UP)
    if not command:
        pytest.skip(f"no cluster: {UP} is not set to a command that makes kubectl work")
    once("cluster", lambda: bring_up(command))
    return brought_up(command)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace that enforces PodSecurity restricted and whose labelled pods may use the sandbox."""
    with cluster.namespace("test", {**RESTRICTED, "grpo-code/pipeline": "true"}) as name:
        yield name


@pytest.fixture(scope="session")
def registry(cluster: Cluster) -> str:
    """Where images are pushed to."""
    if not cluster.registry:
        pytest.skip("no image registry: the cluster's env.sh sets no REGISTRY")
    return cluster.registry


@pytest.fixture(scope="session")
def outside(cluster: Cluster) -> str:
    """The address of a host outside the cluster."""
    if not cluster.outside:
        pytest.skip("no host outside the cluster: the cluster's env.sh sets no OUTSIDE_IP")
    return cluster.outside


@pytest.fixture(scope="session")
def python_image(cluster: Cluster, registry: str) -> str:
    """An image with nothing but Python, for pods whose only purpose is to get into trouble."""
    name = f"{registry}/python:3.11-slim"
    cluster.run("docker", "tag", "python:3.11-slim", name)
    cluster.run("docker", "push", "-q", name)
    return name


@pytest.fixture(scope="session")
def doctor_images(cluster: Cluster, registry: str, once: Once) -> dict[str, str]:
    """The prepare image and the sandbox's, built and pushed; prepare's stands for train's and evaluate's."""
    named = {name: f"{registry}/grpo-code-{name}:{TAG}" for name in ("prepare", "train", "evaluate", "sandbox")}

    def make() -> None:
        settings = ["env", f"REGISTRY={registry}", f"TAG={TAG}", "BUILD_OPTIONS=--network host"]
        for verb in ("build", "push"):
            cluster.run(*settings, "python3", "-m", "cli.images", verb, "prepare", "sandbox", timeout=1800)
        for step in ("train", "evaluate"):
            cluster.run("docker", "tag", named["prepare"], named[step])
            cluster.run("docker", "push", "-q", named[step])

    once("doctor images", make)
    return {**named, "minio": f"{registry}/minio:1"}


@pytest.fixture(scope="session")
def installed(cluster: Cluster, doctor_images: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Two namespaces with a whole installation: the pipeline's and the sandbox's."""
    with (
        cluster.namespace("doctor", {**RESTRICTED, "grpo-code/pipeline": "true"}) as pipeline,
        cluster.namespace("doctor-sandbox", RESTRICTED) as contained,
    ):
        install(cluster, pipeline, contained, doctor_images)
        yield pipeline, contained


@dataclass(frozen=True)
class Images:
    """The images of the working tree, built and pushed."""

    registry: str
    tag: str

    def __getitem__(self, name: str) -> str:
        """The reference of `sandbox` or a step."""
        return f"{self.registry}/grpo-code-{name}:{self.tag}"


@pytest.fixture(scope="session")
def images(cluster: Cluster, registry: str, doctor_images: dict[str, str], once: Once) -> Images:
    """All images of this working tree in the registry; quick when they are there.

    After the doctor's, which are few, so that its tests need not wait for all.
    """
    built = Images(registry, default_tag())
    settings = [f"REGISTRY={registry}", f"TAG={built.tag}", "BUILD_OPTIONS=--network host"]
    once("images", lambda: cluster.run("make", "images", "push", *settings, timeout=1800))
    return built


@pytest.fixture(scope="session")
def minio_image(registry: str) -> str:
    """An image of MinIO that the cluster can pull."""
    try:
        urllib.request.urlopen(f"http://{registry}/v2/minio/manifests/1", timeout=10).close()
    except OSError:
        pytest.skip(f"no MinIO: {registry} holds no minio:1")
    return f"{registry}/minio:1"


@pytest.fixture(scope="session")
def ground(cluster: Cluster, images: Images, minio_image: str) -> Iterator[Ground]:
    """An installation of these images, with the demo in its store, for runs whose steps the tests start as pods."""
    with installed_ground(cluster, images.registry, images.tag, minio_image) as made:
        cluster.apply(stand_in(made.pipeline))
        with made.s3() as settings:
            command = [sys.executable, "pipeline.py", "upload-demo"]
            subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=True, capture_output=True)
        yield made


@pytest.fixture(scope="session")
def compiled(cluster: Cluster, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """The pipeline as `make compile` writes it for these images."""
    file = tmp_path_factory.mktemp("compiled") / "pipeline.yaml"
    environment = {**cluster.environment, "REGISTRY": images.registry, "TAG": images.tag}
    command = [sys.executable, "pipeline.py", "compile", "-o", str(file)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Compiled(file)


def deploy(cluster: Cluster, images: Images, overlay: str = "local", **more: str) -> None:
    """`make deploy` of an overlay with these images; runs in a namespace that is made, as no KFP need be there."""
    settings = {"REGISTRY": images.registry, "TAG": images.tag, "OVERLAY": overlay, "NAMESPACE": OWN_NAMESPACE, **more}
    cluster.run("make", "deploy", *(f"{name}={value}" for name, value in settings.items()), timeout=600)


@pytest.fixture(scope="session")
def sandbox(cluster: Cluster, images: Images) -> Iterator[str]:
    """The sandbox deployed from these images; its URL inside the cluster. Taken away again if it was not there."""
    was_there = "sandbox" in cluster.kubectl("-n", "grpo-code-sandbox", "get", "deployment", check=False).split()
    deploy(cluster, images)
    yield "http://sandbox.grpo-code-sandbox:8080"
    if not was_there:
        cluster.run("make", "undeploy", timeout=600)


@pytest.fixture
def place(cluster: Cluster, installed, monkeypatch) -> Installation:
    """The installation as the doctor's checks take it."""
    space, contained = installed
    monkeypatch.setenv("KUBECONFIG", cluster.environment["KUBECONFIG"])
    given = parameters.merged({**SMALL, "sandbox_url": f"http://sandbox.{contained}:8080"})
    images = {step: f"{cluster.registry}/grpo-code-{step}:{TAG}" for step in ("prepare", "train", "evaluate")}
    return Installation(Connection.connect(namespace=space), given, images, ACCOUNT)


@pytest.fixture
def restored(cluster: Cluster):
    """Applies objects for one test; those that were there before come back as they were."""
    with contextlib.ExitStack() as stack:

        def put(*objects):
            for each in objects:
                names = (each["kind"], each["metadata"]["name"], "-n", each["metadata"]["namespace"])
                before = cluster.kubectl("get", *names, "-o", "yaml", "--ignore-not-found")
                stack.callback(cluster.kubectl, "apply", "--force", "-f", "-", input=before) if before else None
                stack.callback(cluster.kubectl, "delete", *names, "--ignore-not-found", "--grace-period=0", "--force")
            cluster.kubectl("delete", "--ignore-not-found", "-f", "-", input=as_list(objects))
            cluster.apply(*objects)

        yield put
