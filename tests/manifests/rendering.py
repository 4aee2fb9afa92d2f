"""The manifests as objects: the base from its files, overlays through kustomize."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
MANIFESTS = ROOT / "manifests"
OVERLAYS = sorted(path.name for path in (MANIFESTS / "overlays").iterdir())
COMPONENTS = sorted(path.name for path in (MANIFESTS / "components").iterdir())

Objects = list[dict[str, Any]]


def base() -> Objects:
    """All objects of manifests/base, as they stand in its files."""
    files = [path for path in sorted((MANIFESTS / "base").rglob("*.yaml")) if path.name != "kustomization.yaml"]
    return [thing for path in files for thing in yaml.safe_load_all(path.read_text())]


def built(folder: Path) -> Objects:
    """What `kubectl kustomize` makes of a folder; the test is skipped where there is no kubectl."""
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not at hand: overlays are not built")
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def overlay(name: str) -> Objects:
    """One overlay, built."""
    return built(MANIFESTS / "overlays" / name)


def rendered(**settings: str) -> subprocess.CompletedProcess[str]:
    """What `make deploy` would apply with these settings."""
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not at hand: nothing can be rendered")
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = ["python3", "-S", "-m", "cli.deploy", "render"]  # no packages: nothing has to be set up for it
    return subprocess.run(command, cwd=ROOT, env=environment | settings, capture_output=True, text=True, timeout=60)


def one(objects: Objects, kind: str, name: str, namespace: str | None = None) -> dict[str, Any]:
    """The object of this kind and name."""
    found = [thing for thing in objects if (thing["kind"], thing["metadata"]["name"]) == (kind, name)]
    found = [thing for thing in found if namespace in (None, thing["metadata"].get("namespace"))]
    assert len(found) == 1, f"{len(found)} objects {kind} {name}"
    return found[0]
