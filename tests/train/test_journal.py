"""The journal outlives the attempt that wrote it, and what somebody else did to its files."""

from pathlib import Path

import pytest

from components.shared.store import open_store
from components.train import journal as journal_module
from components.train.journal import NEWEST_STEPS, SAMPLED_STEPS, Journal


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


def long_run(journal: Journal, first: int, last: int, *, length: int = 1) -> Journal:
    for step in range(first, last + 1):
        journal.add({"step": step}, [{"step": step, "completion": letter * length} for letter in "xy"])
    return journal


def test_the_samples_of_a_long_run_take_no_more_room_than_those_of_a_short_one() -> None:
    """What is handed over with every page and checkpoint; completions are a tenth as long as at the default lengths."""
    journal = Journal(open_store("unused"), "run/train")
    most = 0
    for step in range(1, 10_001):
        long_run(journal, step, step, length=430)
        if step % 500 in (0, 12) or step == SAMPLED_STEPS:
            most = max(most, len(journal.objects()["run/train/samples.jsonl"]))
    assert most <= 1000 * (SAMPLED_STEPS + NEWEST_STEPS)
    steps = [row["step"] for row in journal.samples[::2]]
    assert steps == [row["step"] for row in journal.samples[1::2]]
    assert steps[-NEWEST_STEPS:] == list(range(10_001 - NEWEST_STEPS, 10_001))
    assert steps[:-NEWEST_STEPS] == list(range(32, 10_001 - NEWEST_STEPS, 32))
    assert len(journal.metrics) == 10_000


def test_no_sample_of_a_short_run_is_left_out() -> None:
    journal = long_run(Journal(open_store("unused"), "run/train"), 1, SAMPLED_STEPS)
    assert len(journal.samples) == 2 * SAMPLED_STEPS


@pytest.mark.parametrize("steps", [20, 37, 70])
def test_a_long_run_that_went_on_from_a_checkpoint_has_the_samples_of_one_that_was_left_alone(
    tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SAMPLED_STEPS", 8)
    monkeypatch.setattr(journal_module, "NEWEST_STEPS", 3)
    store = open_store(str(tmp_path))
    whole = long_run(Journal(store, "run"), 1, steps)
    assert len(whole.samples) < 2 * 12
    for stopped in range(1, steps + 1, 3):
        for key, data in long_run(Journal(store, "run"), 1, stopped).objects().items():
            store.write(key, data)
        for checkpoint in range(0, stopped + 1, 2):
            after = Journal(store, "run")
            after.load()
            after.rewind(checkpoint)
            long_run(after, checkpoint + 1, steps)
            assert after.objects() == whole.objects(), (stopped, checkpoint)


def test_damaged_lines_are_left_out_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, 5)
    file = tmp_path / "run/train/metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b"\xff\xfe\n" + b"[1]\n" + b'{"loss": 1}\n' + lines[3] + lines[4][:5])
    journal = Journal(open_store(str(tmp_path)), "run/train")
    journal.load()
    assert [row["step"] for row in journal.metrics] == [1, 4]
    assert "warning: 4 of 6 lines of metrics.jsonl are damaged and are left out" in capsys.readouterr().out
