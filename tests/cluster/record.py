"""Record what a real API server says of pods in trouble: `python -m tests.cluster.record`, with a cluster at hand."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from components.pods import RUN_LABEL
from tests.cluster.cluster import Cluster, bring_up, brought_up
from tests.cluster.troubles import CASES, FINALIZER, HOLLOW, REGISTRY, RUN, Case

FOLDER = Path(__file__).resolve().parent.parent / "cli/doctor/recorded"
SECONDS = 240.0  # the kubelet looks at the size of volumes once a minute


def start(cluster: Cluster, namespace: str, case: Case, image: str, run: str = RUN) -> None:
    """Create a case's pod, of the given run."""
    pod = case.pod(image)
    pod["metadata"] |= {"namespace": namespace, "labels": {**pod["metadata"]["labels"], RUN_LABEL: run}}
    cluster.apply(pod)


def reach(cluster: Cluster, namespace: str, case: Case) -> dict:
    """Wait until the pod is in its trouble; returns it with its events and the log of its main container."""
    name, deadline = f"run-{case.name}", time.monotonic() + SECONDS
    evicted = False
    while time.monotonic() < deadline:
        pod = cluster.get("pod", name, "-n", namespace)
        events = cluster.get("events", "-n", namespace, "--field-selector", f"involvedObject.name={name}")["items"]
        if case.name == "drained" and pod["status"]["phase"] == "Running" and not evicted:
            evict(cluster, namespace, name)
            evicted = True
        if case.reached(pod) or (case.name == "mount" and any(each["reason"] == "FailedMount" for each in events)):
            started = pod["status"]["phase"] in ("Running", "Failed") and pod["status"].get("containerStatuses")
            log = cluster.kubectl("logs", name, "-n", namespace, "-c", "main", check=False) if started else ""
            seen = {"pods": [pod], "events": events, "logs": {name: log}}
            return {**seen, "nodes": [cluster.get("node", "hollow")]} if case.hollow else seen
        time.sleep(0.3)
    raise AssertionError(f"{case.name} was not reached: {json.dumps(pod['status'], indent=1)}\n{json.dumps(events)}")


@contextlib.contextmanager
def hollow_node(cluster: Cluster, name: str = "hollow", **offered: str) -> Iterator[None]:
    """A node on which nothing runs: ready once, never heard of again, and with a taint that keeps others off.

    Its label HOLLOW is its name. offered: amounts beside a CPU, a GiB each of memory and disk, and room for ten pods.
    """
    taint = {"key": "dedicated", "value": "others", "effect": "NoSchedule"}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {HOLLOW: name}},
            "spec": {"taints": [taint]},
        }
    )
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "reason": "Test", "lastHeartbeatTime": now, "lastTransitionTime": now}
    amounts = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", "pods": "10", **offered}
    patch = json.dumps({"status": {"conditions": [ready], "allocatable": amounts, "capacity": amounts}})
    try:
        cluster.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)
        deadline = time.monotonic() + 20  # Kubernetes' own taint for what has just come goes in a moment
        while "not-ready" in json.dumps(cluster.get("node", name)["spec"]) and time.monotonic() < deadline:
            time.sleep(0.2)
        yield
    finally:
        cluster.kubectl("delete", "node", name, "--wait=false", check=False)


def evict(cluster: Cluster, namespace: str, name: str) -> None:
    """Evict through the API, as `kubectl drain` does."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(body))


def release(cluster: Cluster, namespace: str) -> None:
    """Let go of pods that a finalizer keeps."""
    for case in CASES:
        if FINALIZER in case.metadata.get("finalizers", ()):
            patch = '{"metadata": {"finalizers": null}}'
            cluster.kubectl(
                "patch", "pod", f"run-{case.name}", "-n", namespace, "--type=merge", "-p", patch, check=False
            )


def anonymous(text: str, cluster: Cluster) -> str:
    """The text without the addresses of this cluster's registry and nodes (RFC 5737 has some for documentation)."""
    text = text.replace(f"{cluster.registry}/", f"{REGISTRY}/")
    for node in cluster.get("nodes")["items"]:
        for address in node["status"].get("addresses", []):
            if address["type"] == "InternalIP":
                text = text.replace(address["address"], "192.0.2.10")
    return text


def main() -> None:
    """Provoke the named cases, or all, and write one file each."""
    bring_up(os.environ["GRPO_TEST_CLUSTER_UP"])
    cluster = brought_up(os.environ["GRPO_TEST_CLUSTER_UP"])
    image = f"{cluster.registry}/python:3.11-slim"
    wanted = sys.argv[1:]
    cases = [case for case in CASES if not wanted or case.name in wanted]
    with cluster.namespace("doctor-record") as namespace, contextlib.ExitStack() as stack:
        cluster.kubectl("create", "secret", "generic", "half-a-secret", "-n", namespace, "--from-literal=KEY=x")
        try:
            if any(case.hollow for case in cases):
                stack.enter_context(hollow_node(cluster))
            for case in cases:
                start(cluster, namespace, case, image)
                seen = reach(cluster, namespace, case)
                for each in [*seen["pods"], *seen["events"], *seen.get("nodes", [])]:
                    each["metadata"].pop("managedFields", None)
                    each["metadata"].get("annotations", {}).pop(
                        "kubectl.kubernetes.io/last-applied-configuration", None
                    )
                (FOLDER / f"{case.name}.json").write_text(anonymous(json.dumps(seen, indent=1), cluster) + "\n")
                print(case.name, flush=True)
        finally:
            release(cluster, namespace)


if __name__ == "__main__":
    main()
