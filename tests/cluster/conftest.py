"""Fixtures of the tests marked `cluster`: the cluster, a namespace of the test's own, the images built and pushed."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cli import parameters
from cli.cluster import Cluster as Connection
from cli.doctor.installation import Installation
from cli.images import default_tag
from cli.namespaces import OWN_NAMESPACE
from tests.cluster.cluster import GPU, RESTRICTED, ROOT, Cluster, bring_up, brought_up
from tests.cluster.compiled import Compiled
from tests.cluster.doctoring import as_list, small
from tests.cluster.ground import Ground, installed_ground
from tests.cluster.installation import ACCOUNT, doctor_tag, install
from tests.cluster.lanes import Once
from tests.cluster.leftovers import present
from tests.cluster.pushed import pulled_base_image, push_as, pushed_minio
from tests.cluster.step_pods import stand_in
from tests.cluster.told import Told

UP = "GRPO_TEST_CLUSTER_UP"
SECONDS_TO_BUILD = SECONDS_TO_PUSH = 1800.0


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """What is made once for all processes of this run of the tests."""
    folder = tmp_path_factory.getbasetemp()
    return Once(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, once: Once) -> Cluster:
    """The cluster that $GRPO_TEST_CLUSTER_UP brings up."""
    command = os.environ.get(UP)
    if not command:
        pytest.skip(f"no cluster: {UP} is not set to a command that makes kubectl work")
    once("cluster", lambda: bring_up(command))
    found, told = brought_up(command), Told.of(request.config)
    found.told = told

    def note() -> None:
        told.before = sorted(present(found))

    once("what is there", note)
    return found


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace that enforces PodSecurity restricted and whose labelled pods may use the sandbox."""
    with cluster.namespace("test", {**RESTRICTED, "grpo-code/pipeline": "true"}) as name:
        yield name


@pytest.fixture(scope="session")
def registry(cluster: Cluster) -> str:
    """Where images are pushed to."""
    if not cluster.registry:
        pytest.skip("no image registry: REGISTRY is not set, for example REGISTRY=ghcr.io/me")
    return cluster.registry


@pytest.fixture(scope="session")
def outside(cluster: Cluster) -> str:
    """The address of a host outside the cluster."""
    if not cluster.outside:
        pytest.skip(
            "no host outside: OUTSIDE_IP names none that answers on port 80, so that none is among what is tried"
        )
    return cluster.outside


@pytest.fixture(scope="session")
def gpu(cluster: Cluster) -> None:
    """For tests that say nothing without a GPU; others ask for `cluster.gpus` of them."""
    if cluster.gpus == "0":
        pytest.skip(f"no GPU: no node offers {GPU}")


@pytest.fixture(scope="session")
def metrics_api(cluster: Cluster) -> None:
    """For tests of what is scaled by its load."""
    path = "/apis/metrics.k8s.io/v1beta1"
    if cluster.run("kubectl", "get", "--raw", path, check=False).returncode:
        pytest.skip("no metrics of pods: nothing serves metrics.k8s.io on this cluster, as metrics-server would")


@pytest.fixture(scope="session")
def base_image(cluster: Cluster) -> str:
    """What images are built from, on this machine."""
    return pulled_base_image(cluster)


@pytest.fixture(scope="session")
def python_image(cluster: Cluster, registry: str, base_image: str) -> str:
    """An image with nothing but Python, for pods whose only purpose is to get into trouble."""
    name = f"{registry}/python:3.11-slim"
    push_as(cluster, base_image, name)
    return name


@pytest.fixture(scope="session")
def build_options(cluster: Cluster) -> str:
    """The user's own, else one by which a build finds package indexes wherever this machine does."""
    return cluster.environment.get("BUILD_OPTIONS") or "--network host"


@pytest.fixture(scope="session")
def doctor_images(cluster: Cluster, registry: str, build_options: str, once: Once) -> dict[str, str]:
    """The prepare image and the sandbox's, built and pushed; prepare's stands for train's and evaluate's."""
    tag = doctor_tag()
    named = {name: f"{registry}/grpo-code-{name}:{tag}" for name in ("prepare", "train", "evaluate", "sandbox")}

    def make() -> None:
        settings = ["env", f"REGISTRY={registry}", f"TAG={tag}", f"BUILD_OPTIONS={build_options}"]
        verb = [*settings, "python3", "-m", "cli.images"]
        which = ("prepare", "sandbox")
        cluster.timed("images of prepare and sandbox built", *verb, "build", *which, timeout=SECONDS_TO_BUILD)
        cluster.timed("these pushed", *verb, "push", *which, timeout=SECONDS_TO_PUSH)
        for step in ("train", "evaluate"):
            push_as(cluster, named["prepare"], named[step])

    once("doctor images", make)
    return named


@pytest.fixture(scope="session")
def minio_image(cluster: Cluster, registry: str, once: Once) -> str:
    """An image of MinIO that the cluster can pull."""
    once("MinIO's image", lambda: pushed_minio(cluster, registry))
    return f"{registry}/minio:1"


@pytest.fixture(scope="session")
def installed(cluster: Cluster, minio_image: str, doctor_images: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Two namespaces with a whole installation: the pipeline's and the sandbox's."""
    with (
        cluster.namespace("doctor", {**RESTRICTED, "grpo-code/pipeline": "true"}) as pipeline,
        cluster.namespace("doctor-sandbox", RESTRICTED) as contained,
    ):
        install(cluster, pipeline, contained, {**doctor_images, "minio": minio_image})
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
def images(
    cluster: Cluster, registry: str, build_options: str, doctor_images: dict[str, str], base_image: str, once: Once
) -> Images:
    """All images of this working tree in the registry; quick when they are there.

    After the doctor's, which are few, so that its tests need not wait for all.
    """
    built = Images(registry, default_tag())
    settings = [f"REGISTRY={registry}", f"TAG={built.tag}", f"BUILD_OPTIONS={build_options}"]

    def make() -> None:
        cluster.timed("all images built", "make", "images", *settings, timeout=SECONDS_TO_BUILD)
        cluster.timed("all images pushed", "make", "push", *settings, timeout=SECONDS_TO_PUSH)

    once("images", make)
    return built


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
    """`make deploy` of an overlay with these images; runs in a namespace that is made, as no KFP need be there.

    How long it took until the last object was applied, and from there until the sandbox was ready, is told at the end.
    """
    settings = {"REGISTRY": images.registry, "TAG": images.tag, "OVERLAY": overlay, "NAMESPACE": OWN_NAMESPACE, **more}
    command = ["make", "deploy", *(f"{name}={value}" for name, value in settings.items())]
    begun = applied = time.monotonic()
    said = []
    out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=cluster.environment, **out) as process:
        try:
            for line in process.stdout or ():
                said.append(line)
                if line.rstrip().endswith("serverside-applied"):
                    applied = time.monotonic()
        except BaseException:  # a test that is stopped does not wait for it
            process.kill()
            raise
    assert process.returncode == 0, "".join(said)
    cluster.told.seconds.append(("overlay applied", applied - begun))
    cluster.told.seconds.append(("roll-out of the sandbox", time.monotonic() - applied))


@pytest.fixture(scope="session")
def sandbox(cluster: Cluster, images: Images) -> Iterator[str]:
    """The sandbox deployed from these images; its URL inside the cluster. Taken away again if it was not there."""
    was_there = "sandbox" in cluster.kubectl("-n", "grpo-code-sandbox", "get", "deployment", check=False).split()
    deploy(cluster, images)
    yield "http://sandbox.grpo-code-sandbox:8080"
    if not was_there:
        cluster.run("make", "undeploy", timeout=600)


def as_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the product find the cluster in this process as kubectl does: by KUBECONFIG, else in the home."""
    if cluster.environment.get("KUBECONFIG"):
        monkeypatch.setenv("KUBECONFIG", cluster.environment["KUBECONFIG"])
    else:
        monkeypatch.delenv("KUBECONFIG", raising=False)


@pytest.fixture
def place(cluster: Cluster, installed, monkeypatch) -> Installation:
    """The installation as the doctor's checks take it."""
    space, contained = installed
    as_cluster(cluster, monkeypatch)
    given = parameters.merged({**small(cluster), "sandbox_url": f"http://sandbox.{contained}:8080"})
    images = {step: f"{cluster.registry}/grpo-code-{step}:{doctor_tag()}" for step in ("prepare", "train", "evaluate")}
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
