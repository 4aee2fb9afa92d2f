"""What the tests and the product have on a cluster, so that nothing of it is left at the end."""

import re
import time
from collections.abc import Collection
from typing import Any

from cli.deploy import CLUSTER_KINDS, DEPLOYED_LABEL, SELECTOR
from cli.namespaces import OWN_NAMESPACE, PIPELINE_LABEL, SANDBOX_NAMESPACE, STORE_NAMESPACE
from tests.cluster.cluster import Cluster
from tests.cluster.troubles import HOLLOW

NAMESPACED = "networkpolicy,role,rolebinding,serviceaccount,secret,deployment,service"
OWN_NAMESPACES = (OWN_NAMESPACE, SANDBOX_NAMESPACE, STORE_NAMESPACE)
# How tests name what they make; the last two are namespaces of an overlay's, made where they are not there.
TESTS = re.compile(r"(test|doctor|e2e)-[a-z0-9-]+|grpo-code-test|monitoring|kubeflow-user-example-com")
CLUSTER_WIDE = f"{CLUSTER_KINDS},node,persistentvolume,clusterrole,clusterrolebinding"
PAUSE_SECONDS = 0.5
SECONDS_TO_GO = 300.0  # a namespace goes with its pods, and those with their grace

Object = dict[str, Any]


def ours(cluster: Cluster, *namespaces: str) -> set[str]:
    """What carries the product's label, by kind and name: for the whole cluster, and in namespaces, or in all."""
    things = cluster.get(CLUSTER_KINDS, "-l", SELECTOR)["items"]
    for where in [["-n", name] for name in namespaces] or [["-A"]]:
        things += cluster.get(NAMESPACED, *where, "-l", SELECTOR)["items"]
    return {called(each) for each in things}


def called(thing: Object) -> str:
    """Kind and name of an object, and its namespace where it has one."""
    metadata = thing["metadata"]
    where = f" in {metadata['namespace']}" if "namespace" in metadata else ""
    return f"{thing['kind']} {metadata['name']}{where}"


def of_the_product(cluster: Cluster, namespaces: list[Object]) -> set[str]:
    """Its namespaces, what carries its label anywhere, and the labels that it puts on namespaces of others."""
    found = ours(cluster)
    for each in namespaces:
        if each["metadata"]["name"] in OWN_NAMESPACES:
            found.add(called(each))
        labels = {PIPELINE_LABEL, DEPLOYED_LABEL} & set(each["metadata"].get("labels", {}))
        found |= {f"label {label} of {called(each)}" for label in labels}
    return found


def of_the_tests(cluster: Cluster, namespaces: list[Object]) -> set[str]:
    """Their namespaces, and what they make for the whole cluster: known by its name, a node by its label."""

    def is_one(thing: Object) -> bool:
        metadata = thing["metadata"]
        names = [metadata["name"], thing.get("spec", {}).get("claimRef", {}).get("namespace", "")]
        return HOLLOW in metadata.get("labels", {}) or any(map(TESTS.fullmatch, names))

    things = namespaces + cluster.get(CLUSTER_WIDE)["items"]
    return {called(each) for each in things if is_one(each)} - {f"Namespace {name}" for name in OWN_NAMESPACES}


def present(cluster: Cluster) -> set[str]:
    """What of the product's and the tests' is there; a namespace for as long as Kubernetes has not ended with it."""
    namespaces = cluster.get("namespaces")["items"]
    return of_the_product(cluster, namespaces) | of_the_tests(cluster, namespaces)


def was_deployed(before: Collection[str]) -> bool:
    """Whether the product was there, so that the tests leave it there, with their images."""
    return f"Namespace {SANDBOX_NAMESPACE}" in before


def left(cluster: Cluster, before: Collection[str]) -> list[str]:
    """What is there and was not before, once it has had time to go. Of the product, only where it was not deployed."""

    def found() -> set[str]:
        namespaces = cluster.get("namespaces")["items"]
        return of_the_tests(cluster, namespaces) if was_deployed(before) else present(cluster)

    deadline = time.monotonic() + SECONDS_TO_GO
    while (more := found() - set(before)) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    return sorted(more)
