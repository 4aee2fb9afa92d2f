"""Asking the doctor on a cluster: its command line, its checks, and objects that stand for one test."""

import json
import subprocess
import sys
from dataclasses import replace

from cli.doctor.finding import Finding
from cli.doctor.installation import (
    Installation,
)
from tests.cluster.cluster import Cluster
from tests.cluster.installation import doctor_tag, findings_of

SMALL = {
    f"{step}_{kind}": size for step in ("train", "evaluate") for kind, size in (("cpu", "50m"), ("memory", "64Mi"))
}
SMALL |= {"prepare_cpu": "50m", "prepare_memory": "64Mi"}


def small(cluster: Cluster) -> dict[str, str]:
    """Parameters of a run for which the cluster has room: with a GPU where there are some."""
    return {**SMALL, "gpus": cluster.gpus}


def command(
    cluster: Cluster, space: str, contained: str, *more: str, tag: str = ""
) -> tuple[list[str], dict[str, str]]:
    """The doctor's command line, and its environment; without a tag the images are those of doctor_images."""
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in small(cluster).items()]
    url = f"http://sandbox.{contained}:8080"
    line = [
        sys.executable,
        "pipeline.py",
        "doctor",
        "--namespace",
        space,
        "--sandbox-url",
        url,
        "--json",
        *flags,
        *more,
    ]
    return line, {**cluster.environment, "REGISTRY": str(cluster.registry), "TAG": tag or doctor_tag()}


def doctor(
    cluster: Cluster, space: str, contained: str, *more: str, tag: str = ""
) -> tuple[int, dict[str, list[dict]]]:
    """The exit code and the findings by check."""
    line, environment = command(cluster, space, contained, *more, tag=tag)
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert done.stdout, done.stderr
    return done.returncode, findings_of(done.stdout)


def given(place: Installation, **changes) -> Installation:
    return replace(place, parameters={**place.parameters, **changes})


def failed(findings) -> list[Finding]:
    return [finding for finding in findings if finding.state == "FAIL"]


def as_list(objects) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
