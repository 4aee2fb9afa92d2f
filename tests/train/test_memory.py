"""Less at a time after memory ran out, by what the attempt before left; and what a full disk is called."""

import json
from pathlib import Path

import pytest
import torch

from components.shared.models import is_out_of_memory
from components.shared.store import open_store
from components.train.container import memory_groups, memory_share
from components.train.memory import AttemptRecord, Pieces, Superseded, disk_error, note_memory_ran_out


@pytest.mark.parametrize(
    ("micro", "batch", "smaller"), [(8, 16, 4), (9, 9, 3), (5, 5, 1), (2, 8, 1), (12, 24, 6), (7, 14, 2)]
)
def test_halving_keeps_a_divisor_of_the_batch(micro: int, batch: int, smaller: int) -> None:
    halved = Pieces(micro, 64).halved(batch)
    assert halved == Pieces(smaller, batch // 2)
    assert Pieces(1, 1).halved(batch) is None
    assert Pieces(1, 4).halved(batch) == Pieces(1, 2)


def record(tmp_path: Path, **before: object) -> AttemptRecord:
    store = open_store(str(tmp_path))
    if before:
        store.write("run/train/attempt.json", json.dumps(before).encode())
    return AttemptRecord(store, "run/train", steps=6)


def test_only_an_attempt_that_was_killed_with_its_memory_full_makes_the_next_one_smaller(tmp_path: Path) -> None:
    wanted = Pieces(8, 32)
    assert record(tmp_path).pieces(wanted, 32) == (wanted, "")
    facts = {"micro_batch_size": 8, "rows": 32, "ran_out": False, "memory_share": 0.97, "ended": ""}
    pieces, why = record(tmp_path, **facts).pieces(wanted, 32)
    assert pieces == Pieces(4, 16)
    assert why == "the attempt before was killed while it used 97% of its memory"
    for change in ({"ended": "failed"}, {"memory_share": 0.5}):
        assert record(tmp_path, **{**facts, **change}).pieces(wanted, 32) == (wanted, "")


def test_after_a_kill_less_than_half_is_taken_where_less_is_wanted(tmp_path: Path) -> None:
    facts = {"micro_batch_size": 8, "rows": 32, "ran_out": False, "memory_share": 0.97, "ended": ""}
    attempt = record(tmp_path, **facts)
    pieces, why = attempt.pieces(Pieces(1, 32), 32)  # the user has set micro_batch_size to 1 meanwhile
    assert pieces == Pieces(1, 16)
    assert "was killed" in why
    assert record(tmp_path, **facts).pieces(Pieces(2, 8), 32) == (Pieces(2, 8), "")
    assert attempt.ran_out, "so that the next attempt takes no more again"


def test_an_attempt_that_runs_out_itself_after_a_kill_gets_smaller_until_there_is_no_less(tmp_path: Path) -> None:
    facts = {"micro_batch_size": 8, "rows": 32, "ran_out": False, "memory_share": 0.97, "ended": ""}
    attempt = record(tmp_path, **facts)
    taken = [attempt.pieces(Pieces(8, 32), 32)[0]]
    while smaller := taken[-1].halved(32):
        taken.append(attempt.pieces(smaller, 32)[0])
    assert taken == [Pieces(4, 16), Pieces(2, 8), Pieces(1, 4), Pieces(1, 2), Pieces(1, 1)]


def test_what_fitted_at_last_is_where_the_next_attempt_starts(tmp_path: Path) -> None:
    facts = {"micro_batch_size": 4, "rows": 16, "ran_out": True, "memory_share": 0.5, "ended": "finished"}
    pieces, why = record(tmp_path, **facts).pieces(Pieces(8, 32), 32)
    assert (pieces, why) == (Pieces(4, 16), "an attempt before ran out of memory with more")
    assert record(tmp_path, **facts).pieces(Pieces(2, 8), 32) == (Pieces(2, 8), "")


def test_the_record_is_kept_for_the_next_attempt(tmp_path: Path) -> None:
    first = record(tmp_path)
    first.ran_out = True
    store = open_store(str(tmp_path))
    for key, data in first.objects(Pieces(2, 8), ended="failed").items():
        store.write(key, data)
    assert AttemptRecord(store, "run/train", steps=6).pieces(Pieces(8, 32), 32)[0] == Pieces(2, 8)


@pytest.mark.parametrize("text", ["", "[1]", "null", '{"rows": 3}'])
def test_a_record_that_cannot_be_used_is_none(tmp_path: Path, text: str) -> None:
    open_store(str(tmp_path)).write("run/train/attempt.json", text.encode())
    assert record(tmp_path).pieces(Pieces(8, 32), 32) == (Pieces(8, 32), "")


def test_several_processes_start_again_with_half_of_what_ran_out(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    assert not note_memory_ran_out(store, "run/train", 10)
    for key, data in record(tmp_path).objects(Pieces(5, 10)).items():
        store.write(key, data)
    assert note_memory_ran_out(store, "run/train", 5)  # 20 completions of four processes: each has 5
    pieces, why = record(tmp_path).pieces(Pieces(5, 10), 5)
    assert (pieces, why) == (Pieces(1, 2), "an attempt before ran out of memory with more")
    assert note_memory_ran_out(store, "run/train", 5)
    assert not note_memory_ran_out(store, "run/train", 5), "there is no less than one completion at a time"


def test_the_newest_attempt_has_the_run(tmp_path: Path) -> None:
    def begin(attempt: AttemptRecord) -> AttemptRecord:
        for key, data in attempt.objects(Pieces(8, 32)).items():
            attempt.store.write(key, data)
        return attempt

    first = begin(record(tmp_path))
    first.refuse_if_superseded()
    second = record(tmp_path)
    first.refuse_if_superseded()  # the second has written nothing yet
    begin(second)
    with pytest.raises(Superseded, match="Another attempt at this run has begun, so this one ends"):
        first.refuse_if_superseded()
    second.refuse_if_superseded()
    begin(first)  # it had looked before the second wrote
    second.refuse_if_superseded()
    (tmp_path / "run/train/attempt.json").unlink()
    second.refuse_if_superseded()


def test_memory_that_can_be_dropped_is_not_in_use(tmp_path: Path) -> None:
    assert memory_share(tmp_path) is None
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("950\n")
    (tmp_path / "memory.stat").write_text("anon 300\ninactive_file 600\n")
    assert memory_share(tmp_path) == 0.35
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_share(tmp_path) is None


def test_the_older_cgroups_count_the_same(tmp_path: Path) -> None:
    (tmp_path / "memory.limit_in_bytes").write_text("1000\n")
    (tmp_path / "memory.usage_in_bytes").write_text("950\n")
    (tmp_path / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 600\n")
    assert memory_share(tmp_path) == 0.35
    (tmp_path / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert memory_share(tmp_path) is None


@pytest.mark.parametrize(
    ("lines", "groups"),
    [
        ("0::/\n", [""]),
        ("0::/pods/one\n", ["pods/one", "pods", ""]),
        ("4:memory:/one\n1:name=systemd:/\n0::/\n", ["memory/one", "memory"]),
        ("4:cpu,memory:/\n", ["memory"]),
        ("4:cpu:/\n", []),
    ],
)
def test_a_process_finds_the_groups_that_limit_it(tmp_path: Path, lines: str, groups: list[str]) -> None:
    own = tmp_path / "cgroup"
    own.write_text(lines)
    assert memory_groups(own, tmp_path) == [tmp_path / group for group in groups]
    assert memory_groups(tmp_path / "nothing", tmp_path) == []


def test_out_of_memory_is_told_from_other_failures() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(refused.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert not is_out_of_memory(RuntimeError("shape mismatch"))


def test_a_full_disk_is_named_by_whoever_meets_it(tmp_path: Path) -> None:
    with pytest.raises(OSError) as full, Path("/dev/full").open("wb", buffering=0) as file:
        file.write(b"x")
    assert "is full" in str(disk_error(full.value, tmp_path))
    assert "is full" in str(disk_error(RuntimeError("I/O error: No space left on device"), tmp_path))
    assert disk_error(RuntimeError("shape mismatch"), tmp_path) is None
