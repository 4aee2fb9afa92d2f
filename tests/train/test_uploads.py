"""What a run leaves reaches the store, if later: a store that is away stops nobody."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.shared.errors import InfraError
from components.shared.store import DirectoryStore
from components.train import uploads as module
from components.train.checkpoints import Checkpoints
from components.train.uploads import Uploads, patiently


class MovedStore(DirectoryStore):
    """A store that refuses while it is `away`, as one whose server is gone."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.away = threading.Event()
        self.refused = 0

    def write(self, key: str, data: bytes) -> None:
        self._answer()
        super().write(key, data)

    def upload(self, key: str, file: Path) -> None:
        self._answer()
        super().upload(key, file)

    def _answer(self) -> None:
        if self.away.is_set():
            self.refused += 1
            raise InfraError("The store could not be reached.")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MovedStore:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_TRIES", 0.02)
    return MovedStore(tmp_path / "store")


@pytest.fixture
def checkpoints(store: MovedStore) -> Checkpoints:
    return Checkpoints(store, "run", keep=2, settings={})


@pytest.fixture
def uploads(store: MovedStore, checkpoints: Checkpoints) -> Iterator[Uploads]:
    made = Uploads(store, checkpoints.save)
    yield made
    made.close()


def checkpoint(tmp_path: Path, step: int) -> Path:
    folder = tmp_path / "trainer" / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(bytes([step]))
    return folder


def test_what_waits_while_the_store_is_away_arrives_later_and_only_the_newest_of_it(
    store: MovedStore, checkpoints: Checkpoints, uploads: Uploads, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.away.set()
    for step in (1, 2, 3):
        uploads.write({"journal": f"up to {step}".encode()})
        folder = checkpoint(tmp_path, step)
        uploads.send_checkpoint(step, folder)
        (folder / "weights").unlink()  # the trainer removes its older ones
    with pytest.raises(InfraError, match=r"could not be reached.*no checkpoint of this attempt"):
        uploads.finish(patience=0.2)
    assert store.refused > 1
    assert len(list((tmp_path / "trainer/outgoing").iterdir())) == 1
    store.away.clear()
    uploads.finish()
    assert store.read("journal") == b"up to 3"
    assert checkpoints.steps() == [3]
    assert store.read("checkpoints/run/3/weights") == b"\x03"
    assert list((tmp_path / "trainer/outgoing").iterdir()) == []
    told = capsys.readouterr().out
    assert told.count("Training goes on") == 1
    assert "the checkpoint of step 3 included" in told


def test_a_store_that_stays_away_ends_the_run(
    store: MovedStore, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_ABSENCE", 0.1)
    store.away.set()
    uploads.write({"journal": b""})
    threading.Event().wait(0.3)
    with pytest.raises(InfraError, match=r"away for"):
        uploads.write({"journal": b""})


def test_a_defect_is_no_absence(store: MovedStore, tmp_path: Path) -> None:
    def fail(step: int, folder: Path) -> None:
        raise ZeroDivisionError

    uploads = Uploads(store, fail)
    uploads.send_checkpoint(1, checkpoint(tmp_path, 1))
    with pytest.raises(ZeroDivisionError):
        uploads.finish()
    uploads.close()


def test_the_last_things_are_tried_again(store: MovedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.away.set()
    threading.Timer(0.1, store.away.clear).start()
    patiently(lambda: store.write("run.json", b"{}"))
    assert store.read("run.json") == b"{}"
    store.away.set()
    monkeypatch.setattr(module, "PATIENCE_AT_THE_END", 0.05)
    with pytest.raises(InfraError):
        patiently(lambda: store.write("run.json", b"{}"))
