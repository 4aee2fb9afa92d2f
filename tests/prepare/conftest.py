"""A small data set of the tests' own."""

from pathlib import Path

import pytest

from tests.prepare.examples import full_row, sanitized_row, write_jsonl


@pytest.fixture
def own_data(tmp_path: Path) -> Path:
    """A directory of 10 training, 4 validation and 6 test rows, of both schemas."""
    write_jsonl(tmp_path / "own/train.jsonl", [full_row(n) for n in range(1, 11)])
    write_jsonl(tmp_path / "own/validation.jsonl", [full_row(n) for n in range(11, 15)])
    write_jsonl(tmp_path / "own/test.jsonl", [sanitized_row(n) for n in range(21, 27)])
    return tmp_path / "own"
