"""Manifests: the files of a folder in the store with size and SHA-256; one that is there says that the folder is whole.

A manifest is written last and removed first. What was fetched is used only when it fits its manifest.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.shared.run import digest_of

MANIFEST = "manifest.json"


def facts_of(file: Path) -> dict[str, Any]:
    """A file's entry in a manifest: size in bytes, sha256 as `sha256:<hex>`."""
    return {"size": file.stat().st_size, "sha256": digest_of(file)}


def fits(file: Path, facts: Mapping[str, Any]) -> bool:
    """Whether a file has the size and digest that the manifest gives."""
    return file.is_file() and file.stat().st_size == facts["size"] and digest_of(file) == facts["sha256"]
