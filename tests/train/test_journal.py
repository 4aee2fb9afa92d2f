"""The journal outlives the attempt that wrote it, and what somebody else did to its files."""

from pathlib import Path

import pytest

from components.shared.store import open_store
from components.train.journal import Journal


def written(tmp_path: Path, steps: int) -> Journal:
    journal = Journal(open_store(str(tmp_path)), "run/train")
    for step in range(1, steps + 1):
        journal.add({"step": step}, [{"step": step, "completion": "x"}, {"step": step, "completion": "y"}])
    for key, data in journal.objects().items():
        journal.store.write(key, data)
    return journal


def test_an_attempt_takes_up_what_the_one_before_had_written(tmp_path: Path) -> None:
    before = written(tmp_path, 3)
    after = Journal(before.store, "run/train")
    after.load()
    assert after.objects() == before.objects()
    after.rewind(2)
    assert [row["step"] for row in after.metrics] == [1, 2]
    assert [row["step"] for row in after.samples] == [1, 1, 2, 2]


def test_damaged_lines_are_left_out_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, 5)
    file = tmp_path / "run/train/metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b"\xff\xfe\n" + b"[1]\n" + b'{"loss": 1}\n' + lines[3] + lines[4][:5])
    journal = Journal(open_store(str(tmp_path)), "run/train")
    journal.load()
    assert [row["step"] for row in journal.metrics] == [1, 4]
    assert "warning: 4 of 6 lines of metrics.jsonl are damaged and are left out" in capsys.readouterr().out
