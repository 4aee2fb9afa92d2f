"""The layers of a sandbox as the doctor sees them: what is missing by request is a warning, anything else a failure."""

import contextlib
import json
import time
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import RESTRICTED, Cluster
from tests.cluster.doctoring import doctor
from tests.cluster.installation import SANDBOX, sandbox

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

# Starts what follows it on the command line as on a kernel without Landlock: a seccomp filter answers its first system
# call, landlock_create_ruleset (444), with EOPNOTSUPP, for this process and all its children.
WITHOUT_LANDLOCK = """
import ctypes, os, struct, sys
code = b"".join(struct.pack("HBBI", *line) for line in (
    (0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | 95), (0x06, 0, 0, 0x7FFF0000)))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
filled = ctypes.create_string_buffer(code)
program = Program(4, ctypes.addressof(filled))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""


@contextlib.contextmanager
def changed(cluster: Cluster, space: str, image: str, arguments: list[str], wrapper: list[str]) -> Iterator[str]:
    """The sandbox in a namespace of its own, with more arguments and a command in front; runs, ready or not."""
    with cluster.namespace("doctor-layers", RESTRICTED) as contained:
        token = cluster.get("secret", SANDBOX, "-n", space)["data"]["TOKEN"]
        objects = sandbox(cluster, contained, image, "x")
        for each in objects:
            if each["kind"] == "Secret":
                each["data"]["TOKEN"] = token
            if each["kind"] == "Deployment":
                container = each["spec"]["template"]["spec"]["containers"][0]
                container["args"] += arguments
                if wrapper:
                    container["command"] = [*wrapper, "python", "-m", "sandbox"]
        cluster.apply(*objects)
        label = "app.kubernetes.io/name=sandbox"
        for state in ("create", "jsonpath={.status.phase}=Running"):
            cluster.kubectl("wait", "-n", contained, f"--for={state}", "pod", "-l", label, "--timeout=120s")
        yield contained


def readyz(cluster: Cluster, contained: str) -> str:
    """What the pod itself answers, the status with it where that is an error; by way of the API server."""
    (pod,) = cluster.get("pods", "-n", contained, "-l", "app.kubernetes.io/name=sandbox")["items"]
    path = f"/api/v1/namespaces/{contained}/pods/{pod['metadata']['name']}:8080/proxy/readyz"
    return cluster.kubectl("get", "--raw", path, check=False)


def test_a_layer_left_out_by_request(cluster, installed, doctor_images):
    space, _ = installed
    with changed(cluster, space, doctor_images["sandbox"], ["--without-landlock"], []) as contained:
        cluster.kubectl("rollout", "status", "-n", contained, "deployment/sandbox", "--timeout=120s")
        _, findings = doctor(cluster, space, contained)
        assert json.loads(readyz(cluster, contained))["ready"] is True
        assert [each["state"] for each in findings["sandbox"]] == ["ok"]
        (layers,) = findings["sandbox layers"]
        assert layers["state"] == "warn"
        assert "reading absent (kept by Landlock)" in layers["seen"]
        assert "not required of it" in layers["seen"]
        assert "--without-landlock" in layers["mend"]


def test_a_required_layer_that_is_missing(cluster, installed, doctor_images):
    space, _ = installed
    wrapper = ["python", "-c", WITHOUT_LANDLOCK]
    with changed(cluster, space, doctor_images["sandbox"], [], wrapper) as contained:
        code, findings = doctor(cluster, space, contained)
        assert code == 1
        (layers,) = findings["sandbox layers"]
        assert layers["state"] == "FAIL"
        assert "reading absent (kept by Landlock): Landlock is not in use" in layers["seen"]
        assert "tests: reading absent" in layers["seen"]
        told = [each["seen"] for each in findings["sandbox"]]
        assert any("is not ready: files could be read, because this kernel offers no Landlock" in seen for seen in told)
        said = readyz(cluster, contained)
        assert "503" in said or "ServiceUnavailable" in said or "currently unable" in said, said
        assert findings["sandbox pods"][0]["state"] == "FAIL"


@pytest.mark.parametrize("handler", ["no-such-handler", "runc"])
def test_the_gvisor_overlay(cluster, installed, doctor_images, handler):
    """A node without the runtime class's handler cannot start the pod, which is said; where it has one, it judges.

    What stands for gVisor here is runc: how the overlay fits together is tried, not gVisor.
    """
    space, _ = installed
    with cluster.namespace("doctor-gvisor", RESTRICTED) as contained:
        token = cluster.get("secret", SANDBOX, "-n", space)["data"]["TOKEN"]
        objects = sandbox(cluster, contained, doctor_images["sandbox"], "x", overlay="local,gvisor")
        for each in objects:
            if each["kind"] == "Secret":
                each["data"]["TOKEN"] = token
            if each["kind"] == "Deployment":
                pod = each["spec"]["template"]["spec"]
                assert pod["runtimeClassName"] == "grpo-code-gvisor"
                assert "--runtime=gvisor" in pod["containers"][0]["args"]
                pod["runtimeClassName"] = contained  # the cluster's own may be in use
        metadata = {"name": contained}
        cluster.apply(
            {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": metadata, "handler": handler}
        )
        try:
            cluster.apply(*objects)
            if handler == "runc":
                cluster.kubectl("rollout", "status", "-n", contained, "deployment/sandbox", "--timeout=120s")
                assert json.loads(readyz(cluster, contained))["runtime"] == "gvisor"
            else:
                reason = ("--field-selector", "reason=FailedCreatePodSandBox")
                deadline = time.monotonic() + 60
                while not cluster.get("events", "-n", contained, *reason)["items"] and time.monotonic() < deadline:
                    time.sleep(1)
            _, findings = doctor(cluster, space, contained)
            if handler == "runc":
                assert [findings[check][0]["state"] for check in ("sandbox", "sandbox layers")] == ["ok", "ok"]
            else:
                (found,) = findings["sandbox pods"]
                assert found["state"] == "FAIL"
                assert "cannot start: Failed to create pod sandbox" in found["seen"]
                assert f'"{handler}"' in found["seen"]
        finally:
            cluster.kubectl("delete", "runtimeclass", contained)
