"""A Kubernetes cluster as the tests use it: kubectl, an API client, an image registry, namespaces of their own."""

import contextlib
import json
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes import client, config

from cli.cluster import kubeconfig
from tests.cluster.told import Told
from tests.cluster.troubles import HOLLOW

ROOT = Path(__file__).resolve().parent.parent.parent
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
SECONDS_TO_COME_UP = 1800
PATIENCE = 240.0  # seconds: a dozen runs and their drivers may share the cluster
GPU = "nvidia.com/gpu"


@dataclass
class Cluster:
    """A cluster at hand. `environment` holds what its set-up exports, such as PATH and KUBECONFIG.

    registry: where images are pushed to and pulled from, such as `localhost:5000`; None when the set-up names none.
    outside: the address of a host outside the cluster that answers HTTP on port 80; None likewise.
    told: what is said at the end, such as the seconds of what was timed.
    """

    environment: dict[str, str]
    registry: str | None = None
    outside: str | None = None
    told: Told = field(default_factory=Told)
    api: client.ApiClient = field(init=False)

    def __post_init__(self) -> None:
        files, context = kubeconfig(self.environment)
        self.api = config.new_client_from_config(files, context)

    def run(self, *command: str, check: bool = True, timeout: float = 300, **more: Any) -> subprocess.CompletedProcess:
        """A command in the cluster's environment, at the repository's root; AssertionError shows what it said."""
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=timeout, **more
        )
        said = f"{' '.join(command)[:300]}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert not check or done.returncode == 0, said
        return done

    def timed(self, what: str, *command: str, timeout: float) -> None:
        """`run`, with its seconds told at the end under a name."""
        with self.told.timed(what):
            self.run(*command, timeout=timeout)

    def holds_image(self, name: str) -> bool:
        """Whether docker finds an image at its registry, with this machine's credentials and certificates."""
        # the first is quick, the second is right for a registry without TLS, too
        asked = (["docker", "manifest", "inspect", name], ["docker", "pull", "-q", name])
        return any(self.run(*each, check=False).returncode == 0 for each in asked)

    @cached_property
    def gpus(self) -> str:
        """How many GPUs a step of the tests asks for: 1, or 0 where no node that runs pods offers any."""
        nodes = [node for node in self.get("nodes")["items"] if HOLLOW not in node["metadata"].get("labels", {})]
        offered = [int(node["status"].get("allocatable", {}).get(GPU, "0")) for node in nodes]
        return "1" if any(offered) else "0"

    def kubectl(self, *arguments: str, check: bool = True, timeout: float = 300, **more: Any) -> str:
        """What kubectl prints on standard output; with check=False standard error as well."""
        done = self.run("kubectl", *arguments, check=check, timeout=timeout, **more)
        return done.stdout if check else done.stdout + done.stderr

    def get(self, *arguments: str) -> dict[str, Any]:
        """`kubectl get … -o json`, parsed."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return found

    def apply(self, *objects: dict[str, Any], check: bool = True, dry_run: bool = False) -> str:
        """Apply objects; with check=False what the API server said against them is returned."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        options = ["--dry-run=server"] if dry_run else []
        return self.kubectl("apply", *options, "-f", "-", input=text, check=check)

    @contextlib.contextmanager
    def namespace(self, prefix: str, labels: dict[str, str] | None = None) -> Iterator[str]:
        """A namespace of the caller's own; deleted on leaving, without waiting for its end."""
        name = f"{prefix}-{secrets.token_hex(3)}"
        metadata = {"name": name, "labels": labels or {}}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        try:
            yield name
        finally:
            delete = ("kubectl", "delete", "namespace", name, "--wait=false", "--ignore-not-found")
            eventually(lambda: self.run(*delete, check=False).returncode == 0, f"leave to delete {name}", 60)


def eventually(found: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """What `found` returns, once it is true."""
    deadline = time.monotonic() + seconds
    while not (it := found()):
        assert time.monotonic() < deadline, f"there was not {what} within {seconds:.0f} s"
        time.sleep(0.5)
    return it


@contextlib.contextmanager
def forwarded(cluster: Cluster, namespace: str, service: str, port: int) -> Iterator[int]:
    """A port of this machine that leads to a Service, for as long as the block lasts."""
    command = ["kubectl", "port-forward", "-n", namespace, f"service/{service}", f":{port}", "--address=127.0.0.1"]
    with subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            line = process.stdout.readline()  # Forwarding from 127.0.0.1:40001 -> 9000
            yield int(line.split(":")[1].split()[0])
        finally:
            process.terminate()


def bring_up(command: str) -> None:
    """Run the command that makes kubectl work."""
    done = subprocess.run([command], capture_output=True, text=True, timeout=SECONDS_TO_COME_UP)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"


def brought_up(command: str) -> Cluster:
    """The cluster that it has brought up; env.sh beside it may set KUBECONFIG, PATH, REGISTRY, OUTSIDE_IP."""
    environment = dict(os.environ)
    settings = Path(command).resolve().parent / "env.sh"
    if settings.is_file():
        shell = ["bash", "-c", 'set -a; source "$1" >/dev/null && env -0', "bash", str(settings)]
        lines = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split("\0")
        environment |= dict(line.split("=", 1) for line in lines if "=" in line)
    registry = environment.get("REGISTRY", "").rstrip("/")  # make exports empty what nobody has set
    return Cluster(environment, registry or None, environment.get("OUTSIDE_IP") or None)
