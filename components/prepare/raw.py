"""Rows as published, before anything is understood of them."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from components.shared.errors import UserError


@dataclass(frozen=True)
class RawRow:
    """One row: where it stands, for messages; the split its file belongs to, or ""; and its fields."""

    place: str
    split: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class RawData:
    """A data set as read.

    name: what its problems are said to come from. revision: the hub's commit, or for files the one that was given.
    """

    name: str
    revision: str
    rows: list[RawRow]

    @property
    def digest(self) -> str:
        """`sha256:...` of splits and rows in their order, the same for the same rows in any file format."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(json.dumps([row.split, row.fields], sort_keys=True, default=str).encode() + b"\n")
        return f"sha256:{digest.hexdigest()}"


def row_of(value: Any, *, place: str, split: str) -> RawRow:
    """A row from a JSON value; UserError when it is no object."""
    if not isinstance(value, dict):
        raise UserError(f"{place}: a JSON object is needed, this is {json.dumps(value)[:60]}.")
    return RawRow(place=place, split=split, fields=value)
