"""Fixtures of the tests marked `cluster`: the cluster, a namespace of the test's own, the images built and pushed."""

import os
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import RESTRICTED, Cluster, bring_up

UP = "GRPO_TEST_CLUSTER_UP"


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The cluster that $GRPO_TEST_CLUSTER_UP brings up."""
    command = os.environ.get(UP)
    if not command:
        pytest.skip(f"no cluster: {UP} is not set to a command that makes kubectl work")
    return bring_up(command)


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
