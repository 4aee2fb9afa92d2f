"""The way to a model hub: pods with the hub's label get out to public addresses by HTTPS, and nowhere else; others not.

A hub stands at a public address of the node's own (RFC 5737 has it for documentation), so that nothing leaves it.
"""

from collections.abc import Iterator

import pytest
import yaml

from components.pods import HUB_CLIENT, PART_OF_LABEL
from tests.cluster.cluster import Cluster
from tests.cluster.pods import what_is_reached
from tests.cluster.troubles import HOLLOW

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
ADDRESS = "203.0.113.7"
# Gives the loopback device of the node one address more, listens there, and takes the address away again at its end.
PUBLIC_HOST = """
import fcntl, signal, socket, struct, sys, threading
def set_address(request, value):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, request, struct.pack("16sH2s4s8s", b"lo:7", socket.AF_INET, b"", value, b""))
def leave(*_):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, 0x8914, struct.pack("16sH14s", b"lo:7", 0, b""))  # SIOCSIFFLAGS: down
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
set_address(0x8916, socket.inet_aton(sys.argv[1]))  # SIOCSIFADDR
set_address(0x891C, b"\\xff" * 4)  # SIOCSIFNETMASK
open_ports = [socket.create_server((sys.argv[1], port)) for port in (443, 80)]
def serve(server):
    while True:
        server.accept()[0].close()
for server in open_ports:
    threading.Thread(target=serve, args=(server,), daemon=True).start()
signal.pause()
"""


@pytest.fixture
def public_host(cluster: Cluster, python_image: str) -> Iterator[str]:
    """An address that is no private one, at which somebody listens on ports 443 and 80."""
    nodes = [each["metadata"] for each in cluster.get("nodes")["items"]]
    if len([each for each in nodes if HOLLOW not in each.get("labels", {})]) > 1:
        pytest.skip("several nodes: the public host of the test is one's own, and pods of another do not get there")
    with cluster.namespace("test-hub", {"pod-security.kubernetes.io/enforce": "privileged"}) as space:
        container = {
            "name": "main",
            "image": python_image,
            "command": ["python", "-c", PUBLIC_HOST, ADDRESS],
            "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}},
            "readinessProbe": {
                "exec": {"command": ["python", "-c", f"import socket; socket.create_connection(('{ADDRESS}', 443))"]},
                "periodSeconds": 1,
            },
        }
        spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 10, "containers": [container]}
        cluster.apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hub", "namespace": space}, "spec": spec}
        )
        cluster.kubectl("wait", "-n", space, "--for=condition=Ready", "pod/hub", "--timeout=60s")
        yield ADDRESS
        cluster.kubectl("delete", "pod", "hub", "-n", space, "--timeout=60s")


def test_only_pods_with_the_hubs_label_get_out_to_it(
    cluster: Cluster, namespace: str, public_host: str, doctor_images: dict[str, str]
) -> None:
    policies = list(yaml.safe_load_all(cluster.kubectl("kustomize", "manifests/base/pipeline")))
    policies = [each for each in policies if each["kind"] == "NetworkPolicy"]
    for policy in policies:
        policy["metadata"]["namespace"] = namespace
    cluster.apply(*policies)
    api = cluster.get("-n", "default", "service", "kubernetes")["spec"]["clusterIP"]
    secure, plain, private = (public_host, 443), (public_host, 80), (api, 443)
    step, hub = {PART_OF_LABEL: "grpo-code"}, {HUB_CLIENT: "true"}
    for labels, yes, no in (
        ({}, [secure, plain, private], []),  # the positive control: the host is there, and no policy holds this pod
        (hub, [secure], [plain, private]),
        (step | hub, [secure, private], [plain]),
        (step, [private], [secure, plain]),
    ):
        image = doctor_images["sandbox"]
        assert what_is_reached(cluster, namespace, image, yes, expected=True, labels=labels) == [True] * len(yes)
        if no:
            assert what_is_reached(cluster, namespace, image, no, expected=False, labels=labels) == [False] * len(no)
