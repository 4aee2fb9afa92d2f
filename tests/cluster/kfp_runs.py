"""Runs of a real Kubeflow Pipelines as the tests start, watch and disturb them."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cli.namespaces import PIPELINE_LABEL
from components.pods import RUN_LABEL
from tests.cluster.cluster import Cluster, eventually
from tests.cluster.kfp_troubles import REFUSED, KfpCase

SPACE = "kubeflow"


@dataclass
class Kfp:
    """A Kubeflow Pipelines, and the runs under way on it: {case: run id}."""

    cluster: Cluster
    client: Any
    image: str
    sandbox_url: str
    runs: dict[str, str]

    def start(self, case: KfpCase) -> str:
        """Start a case's run; returns its id."""
        inputs = {"sandbox_url": self.sandbox_url} if case.inputs else {}
        pipeline = case.pipeline(self.image, self.cluster.registry, **inputs)
        made = self.client.create_run_from_pipeline_func(
            pipeline, run_name=f"doctor-test {case.name}", enable_caching=False
        )
        self.runs[case.name] = str(made.run_id)
        return self.runs[case.name]

    def state(self, run: str) -> str:
        return str(self.client.get_run(run).state)

    def step_pods(self, run: str, phase: str) -> list[str]:
        """The names of the run's step pods in this phase, without KFP's drivers."""
        chosen = f"{RUN_LABEL}={run},app.kubernetes.io/component=train"
        found = self.cluster.get("pods", "-n", SPACE, "-l", chosen)["items"]
        return [pod["metadata"]["name"] for pod in found if pod["status"]["phase"] == phase]

    def at_work(self, run: str) -> str:
        """The run's step pod, once it runs."""
        return eventually(lambda: self.step_pods(run, "Running"), "a step at work")[0]

    def log(self, pod: str) -> str:
        return self.cluster.kubectl("logs", pod, "-n", SPACE, "-c", "main", check=False)


@contextlib.contextmanager
def labelled(cluster: Cluster) -> Iterator[None]:
    """KFP's namespace with the label of those whose pods may ask a sandbox, which `make deploy` may not have set."""
    if PIPELINE_LABEL in cluster.get("namespace", SPACE)["metadata"].get("labels", {}):
        yield
        return
    cluster.kubectl("label", "namespace", SPACE, f"{PIPELINE_LABEL}=true")
    try:
        yield
    finally:
        cluster.kubectl("label", "namespace", SPACE, f"{PIPELINE_LABEL}-")


@contextlib.contextmanager
def scaled(cluster: Cluster, namespace: str, name: str) -> Iterator[None]:
    """A deployment without pods, for as long as the block lasts."""
    selector = cluster.get(name, "-n", namespace)["spec"]["selector"]["matchLabels"]
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    cluster.kubectl("scale", name, "-n", namespace, "--replicas=0")
    try:
        # one that is being ended works on for a while
        cluster.kubectl("wait", "pod", "-n", namespace, "-l", labels, "--for=delete", "--timeout=120s")
        yield
    finally:
        cluster.kubectl("scale", name, "-n", namespace, "--replicas=1")
        cluster.kubectl("rollout", "status", name, "-n", namespace, "--timeout=120s")


def refusal() -> list[dict[str, Any]]:
    """A policy that lets no pod with a certain label into KFP's namespace, as an organisation's own might."""
    ((key, value),) = REFUSED.items()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    group = "admissionregistration.k8s.io/v1"
    metadata = {"name": "doctor-test"}
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "not here"}],
    }
    where = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SPACE}},
        "objectSelector": {"matchLabels": {key: value}},
    }
    binding = {"policyName": "doctor-test", "validationActions": ["Deny"], "matchResources": where}
    return [
        {"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": policy},
        {"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": binding},
    ]
