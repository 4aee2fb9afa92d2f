"""The version of the code, and a run's parameters with everything pinned that it reads."""

from pathlib import Path
from typing import Any

from components import revisions
from components.shared.store import open_store

ROOT = Path(__file__).resolve().parent.parent
# Sources and pins that decide what a step computes.
CODE = ("components", "images/sandbox/sandbox")
PINS = "images/*/requirements.txt"


def code_version(root: Path = ROOT) -> str:
    """Digest (16 hex digits) of the steps' sources, the sandbox's and all pins."""
    files = [path for folder in CODE for path in (root / folder).rglob("*") if path.is_file()]
    files = [path for path in files if "__pycache__" not in path.parts] + list(root.glob(PINS))
    return revisions.digest(root, files)[:16]


def resolve(given: dict[str, Any]) -> dict[str, Any]:
    """The parameters with code, model and data sets pinned; refuses inputs that do not exist."""
    revisions.refuse_missing_models(given, on_cluster=False, store=open_store())
    return {
        **given,
        **{name: revisions.pin(given, name) for name in revisions.REVISIONS},
        "code_version": given["code_version"] or code_version(),
    }
