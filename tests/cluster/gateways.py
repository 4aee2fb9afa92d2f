"""A pod that is a gateway to Kubeflow Pipelines (gateway.py), with a Service and a certificate of its own."""

import base64
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.cluster import ROOT, Cluster
from tests.cluster.pods import make_pod

# What a gateway of Kubeflow's own asks for, tells KFP, and where it has it.
ISTIO = {
    "AUDIENCE": "istio-ingressgateway.istio-system.svc.cluster.local",
    "USER_HEADER": "kubeflow-userid",
    "PREFIX": "/pipeline",
}


@contextlib.contextmanager
def gateway_to_kfp(cluster: Cluster, image: str, folder: Path, **settings: str) -> Iterator[tuple[str, Path]]:
    """Yields the namespace whose Service `gateway` leads to KFP by TLS, and the certificate to trust.

    settings: of gateway.py, by the names of its environment variables.
    """
    with cluster.namespace("test-gateway") as space, _may_review_tokens(cluster, space):
        names = f"subjectAltName=DNS:localhost,DNS:gateway.{space}"
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=gateway"]
        make += ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt"), "-addext", names]
        subprocess.run(make, check=True, capture_output=True)
        files = {name: base64.b64encode((folder / name).read_bytes()).decode() for name in ("tls.crt", "tls.key")}
        metadata = {"name": "gateway", "namespace": space}
        pod = make_pod("gateway", image, ["python", "-c", (ROOT / "tests/cluster/gateway.py").read_text()])
        pod["metadata"] |= {"namespace": space, "labels": {"app": "gateway"}}
        pod["spec"] |= {"automountServiceAccountToken": True}
        pod["spec"]["securityContext"]["runAsUser"] = 65532
        pod["spec"]["volumes"].append({"name": "tls", "secret": {"secretName": "gateway"}})
        container = pod["spec"]["containers"][0]
        container["env"] = [{"name": name, "value": value} for name, value in settings.items()]
        container["volumeMounts"].append({"name": "tls", "mountPath": "/tls"})
        container["readinessProbe"] = {"tcpSocket": {"port": 8443}, "periodSeconds": 1}
        service = {"selector": {"app": "gateway"}, "ports": [{"port": 443, "targetPort": 8443}]}
        cluster.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": files},
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
            pod,
        )
        cluster.kubectl("wait", "-n", space, "--for=condition=Ready", "pod/gateway", "--timeout=90s")
        yield space, folder / "tls.crt"


@contextlib.contextmanager
def _may_review_tokens(cluster: Cluster, space: str) -> Iterator[None]:
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": space}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "system:auth-delegator"}
    binding = {"kind": "ClusterRoleBinding", "metadata": {"name": space}, "roleRef": role, "subjects": [subject]}
    cluster.apply({"apiVersion": f"{group}/v1", **binding})
    try:
        yield
    finally:
        cluster.kubectl("delete", "clusterrolebinding", space)
