"""Checkpoints exist whole or not at all."""

from pathlib import Path

import pytest

from components.shared.errors import UserError
from components.shared.store import open_store
from components.train.checkpoints import Checkpoints


def saved(tmp_path: Path, *steps: int, **settings: object) -> Checkpoints:
    checkpoints = Checkpoints(open_store(str(tmp_path / "store")), "run", keep=2, settings=settings or {"lr": 1})
    for step in steps:
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "weights").write_bytes(bytes([step]) * 1000)
        checkpoints.save(step, folder)
    return checkpoints


def test_the_newest_ones_stay(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 2, 4, 10)
    assert checkpoints.steps() == [10, 4]
    assert not list((tmp_path / "store/checkpoints/run/2").rglob("*.*"))
    newest = checkpoints.newest(tmp_path / "into")
    assert newest is not None
    assert newest.name == "checkpoint-10"
    assert (newest / "weights").read_bytes() == bytes([10]) * 1000


@pytest.mark.parametrize("damage", ["cut", "changed", "gone", "no manifest"])
def test_a_damaged_one_is_skipped_with_a_warning(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = saved(tmp_path, 1, 2)
    folder = tmp_path / "store/checkpoints/run/2"
    if damage == "cut":
        (folder / "weights").write_bytes(b"\x02" * 999)
    elif damage == "changed":
        (folder / "weights").write_bytes(b"\x03" * 1000)
    else:
        (folder / ("weights" if damage == "gone" else "manifest.json")).unlink()
    newest = checkpoints.newest(tmp_path / "into")
    assert newest is not None
    assert newest.name == "checkpoint-1"
    said = "was not written to its end (no manifest.json)" if damage == "no manifest" else "is damaged (weights)"
    assert capsys.readouterr().out.count(f"warning: checkpoint 2 {said} and is skipped") == 1


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[1]",
        "null",
        "7",
        "{}",
        '{"settings": null, "files": {}}',
        '{"settings": {"lr": 1}, "files": [1]}',
        '{"settings": {"lr": 1}, "files": {"weights": 3}}',
        '{"settings": {"lr": 1}, "files": {"../../x": {}}}',
    ],
)
def test_a_manifest_of_any_other_form_is_damage(
    tmp_path: Path, manifest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = saved(tmp_path, 1, 2)
    (tmp_path / "store/checkpoints/run/2/manifest.json").write_text(manifest)
    newest = checkpoints.newest(tmp_path / "into")
    assert newest is not None
    assert newest.name == "checkpoint-1"
    assert "checkpoint 2 is damaged" in capsys.readouterr().out


def test_what_is_left_of_an_older_one_is_nobodys_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints = saved(tmp_path, 1, 2)
    (tmp_path / "store/checkpoints/run/1/manifest.json").unlink()
    newest = checkpoints.newest(tmp_path / "into")
    assert newest is not None
    assert newest.name == "checkpoint-2"
    assert capsys.readouterr().out == ""


def test_a_run_with_nothing_but_a_half_written_one_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints = saved(tmp_path, 1)
    (tmp_path / "store/checkpoints/run/1/manifest.json").unlink()
    assert checkpoints.newest(tmp_path / "into") is None
    assert "checkpoint 1 was not written to its end" in capsys.readouterr().out


def test_a_new_run_has_none(tmp_path: Path) -> None:
    assert saved(tmp_path).newest(tmp_path / "into") is None


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    saved(tmp_path, 1, lr=1, beta=2)
    changed = Checkpoints(open_store(str(tmp_path / "store")), "run", keep=2, settings={"lr": 5, "beta": 2})
    with pytest.raises(UserError, match="lr was 1 and is 5"):
        changed.newest(tmp_path / "into")


def test_what_is_damaged_or_of_a_lost_attempt_does_not_push_out_a_good_one(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 4, 10)
    store = tmp_path / "store/checkpoints/run"
    (store / "10/manifest.json").write_text("{half a mani")
    (store / "7").mkdir()
    (store / "7/weights").write_bytes(b"half")
    newest = checkpoints.newest(tmp_path / "into")
    assert newest is not None
    assert newest.name == "checkpoint-4"
    folder = tmp_path / "checkpoint-5"
    folder.mkdir()
    (folder / "weights").write_bytes(b"five")
    checkpoints.save(5, folder)
    assert checkpoints.steps() == [5, 4]
    assert {path.parent.name for path in store.rglob("*") if path.is_file()} == {"4", "5"}
