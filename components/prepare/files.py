"""Data sets in files: JSON lines, a JSON list, parquet, or a directory with one or more files a split.

A directory's files are named by split, as `train.jsonl` or, in the hub's way, `test-00000-of-00001.parquet`.
"""

import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.prepare.hub import datasets_library
from components.prepare.raw import RawRow, row_of
from components.settings import DATA_SUFFIXES, SPLITS
from components.shared.errors import UserError

_SPLIT_FILE = re.compile(rf"({'|'.join(SPLITS)})(-\d+-of-\d+)?({'|'.join(re.escape(s) for s in DATA_SUFFIXES)})")


@dataclass(frozen=True)
class DataFile:
    """A file of one split, or of "" where its rows say themselves; shown is its name in messages."""

    path: Path
    split: str
    shown: str


def split_files(folder: Path, shown: str) -> list[DataFile]:
    """A directory's data files in the order of SPLITS; UserError unless it holds train and test files."""
    matches = [(path, _SPLIT_FILE.fullmatch(path.name)) for path in sorted(folder.iterdir())]
    files = [DataFile(path, match[1], f"{shown.rstrip('/')}/{path.name}") for path, match in matches if match]
    missing = [split for split in ("train", "test") if split not in {file.split for file in files}]
    if missing:
        raise UserError(
            f"{shown} has no file for split {' and none for '.join(missing)}: a directory needs train and test files, "
            f"such as train.jsonl and test.jsonl (or {', '.join(DATA_SUFFIXES[1:])})."
        )
    stems = [file.path.stem for file in files]
    twice = [stem for stem in stems if stems.count(stem) > 1]
    if twice:
        raise UserError(f"{shown} holds {twice[0]} in two formats: keep one of them.")
    return sorted(files, key=lambda file: SPLITS.index(file.split))


def read_file(file: DataFile) -> list[RawRow]:
    """The rows of one file, each with its split and place; UserError names the place of what cannot be read."""
    values = _parquet_rows(file) if file.path.suffix == ".parquet" else _json_rows(file)
    return [row_of(value, place=place, split=file.split) for place, value in values]


def _json_rows(file: DataFile) -> list[tuple[str, Any]]:
    try:
        text = file.path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{file.shown} is no UTF-8 text (byte {error.start}): save it as UTF-8.") from None
    except OSError as error:
        raise UserError(f"{file.shown} cannot be read ({error.strerror}).") from None
    if text.lstrip().startswith("["):
        return [(f"{file.shown}, row {n}", value) for n, value in enumerate(_parse(text, file.shown), start=1)]
    lines = [(f"{file.shown}, line {number}", line) for number, line in enumerate(text.split("\n"), start=1)]
    return [(place, _parse(line, place)) for place, line in lines if line.strip()]


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deep"
        where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) and error.lineno > 1 else ""
        raise UserError(
            f"{place}: this is no JSON{where} ({reason}); one object a line or one list is needed."
        ) from None


def _parquet_rows(file: DataFile) -> list[tuple[str, Any]]:
    datasets = datasets_library()
    with tempfile.TemporaryDirectory() as cache:
        try:
            table = datasets.load_dataset("parquet", data_files=str(file.path), split="train", cache_dir=cache)
        except (OSError, ValueError, datasets.exceptions.DatasetGenerationError) as error:
            raise UserError(f"{file.shown} cannot be read as parquet ({type(error).__name__}: {error}).") from None
        return [(f"{file.shown}, row {number}", dict(row)) for number, row in enumerate(table, start=1)]
