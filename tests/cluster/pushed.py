"""Images of others that tests need in the registry, where nodes have all of theirs from."""

import pytest
import yaml

from tests.cluster.cluster import ROOT, Cluster

BASE_IMAGE = "python:3.11-slim"  # as the Dockerfiles have it
MINIO = ROOT / "manifests/components/minio/kustomization.yaml"
SECONDS = 1800.0  # for pulling or pushing one


def pulled_base_image(cluster: Cluster) -> str:
    """What ours are built from, as an image of docker's own on this machine: a build alone may leave none."""
    name = cluster.environment.get("BASE_IMAGE") or BASE_IMAGE
    if cluster.run("docker", "image", "inspect", name, check=False).returncode:
        cluster.timed(f"{name} pulled", "docker", "pull", "-q", name, timeout=SECONDS)
    return name


def push_as(cluster: Cluster, image: str, name: str) -> None:
    """Push an image of this machine under another name."""
    cluster.run("docker", "tag", image, name)
    cluster.run("docker", "push", "-q", name, timeout=SECONDS)


def pushed_minio(cluster: Cluster, registry: str) -> str:
    """MinIO's image in the registry: the one that it holds, else the release that `make deploy` would take.

    Skips where there is neither.
    """
    name = f"{registry}/minio:1"
    if cluster.holds_image(name):
        return name
    (release,) = [f"{each['newName']}:{each['newTag']}" for each in yaml.safe_load(MINIO.read_text())["images"]]
    release = cluster.environment.get("MINIO_IMAGE") or release
    pulled = cluster.run("docker", "pull", "-q", release, check=False, timeout=SECONDS)
    if pulled.returncode:
        said = (pulled.stderr.strip().splitlines() or ["docker says nothing"])[-1]
        pytest.skip(f"no MinIO: {name} is not in the registry, and {release} cannot be pulled ({said})")
    push_as(cluster, release, name)
    return name
