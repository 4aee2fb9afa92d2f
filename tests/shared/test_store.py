"""One interface, two stores: the same tests run on a directory and on a real S3 server."""

import multiprocessing
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from minio import Minio

from components.shared.errors import InfraError, UserError
from components.shared.store import Store, download_folder, open_store, upload_folder
from tests.buckets import s3_server


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    with s3_server() as settings:
        yield settings["S3_ENDPOINT"]


@pytest.fixture
def s3_settings(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "S3_ENDPOINT": f"http://{s3_endpoint}", "S3_ACCESS_KEY": "key", "S3_SECRET_KEY": "secret", "S3_SECURE": "false",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    client = Minio(s3_endpoint, access_key="key", secret_key="secret", secure=False)
    if not client.bucket_exists("bucket"):
        client.make_bucket("bucket")


@pytest.fixture(params=["directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "directory":
        return open_store(str(tmp_path / "store"))
    request.getfixturevalue("s3_settings")
    return open_store(f"s3://bucket/{uuid.uuid4().hex}")


def test_objects_are_written_read_replaced_and_removed(store: Store) -> None:
    assert not store.exists("a/b.txt")
    with pytest.raises(KeyError):
        store.read("a/b.txt")
    store.write("a/b.txt", b"one")
    store.write("a/b.txt", b"two")
    assert store.exists("a/b.txt")
    assert store.read("a/b.txt") == b"two"
    store.delete("a/b.txt")
    store.delete("a/b.txt")
    assert not store.exists("a/b.txt")


def test_keys_are_those_below_the_prefix(store: Store) -> None:
    for key in ("runs/a/x", "runs/a/y/z", "runs/ab/x", "other"):
        store.write(key, b"")
    assert store.keys("runs/a/") == ["runs/a/x", "runs/a/y/z"]
    assert store.keys("nothing/") == []


def test_a_swap_succeeds_only_on_what_was_read(store: Store) -> None:
    assert store.swap("models/m/current", b"1\n", None)
    assert not store.swap("models/m/current", b"2\n", None), "there is one already"
    content, tag = store.read_with_tag("models/m/current")
    assert content == b"1\n"
    assert store.swap("models/m/current", b"2\n", tag)
    assert not store.swap("models/m/current", b"3\n", tag), "somebody else was first"
    assert store.read("models/m/current") == b"2\n"
    assert not store.swap("models/none/current", b"1\n", tag)
    with pytest.raises(KeyError):
        store.read_with_tag("models/none/current")
    assert store.keys("models/") == ["models/m/current"], "a lock is no object"
    store.delete("models/m/current")
    assert store.folders("models/") == [], "nor does it make a folder"


def _swaps(root: str, number: int, start: Any, wins: Any) -> None:
    store = open_store(root)
    _, tag = store.read_with_tag("pointer")
    start.wait()
    if store.swap("pointer", f"{number}\n".encode(), tag):
        wins.put(number)


def test_of_several_processes_that_swap_at_once_exactly_one_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    store = open_store(str(tmp_path))
    for _ in range(10):
        store.write("pointer", b"nobody\n")
        start, wins = context.Barrier(4), context.Queue()
        racers = [context.Process(target=_swaps, args=(str(tmp_path), number, start, wins)) for number in range(4)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(30)
        winner = wins.get(timeout=5)
        assert wins.empty()
        assert store.read("pointer") == f"{winner}\n".encode()


def test_folders_are_listed_dated_and_removed(store: Store) -> None:
    for key in ("runs/a/x", "runs/a/y/z", "runs/b/x", "runs/latest"):
        store.write(key, b"1")
    assert store.folders("runs/") == ["a", "b"]
    assert store.folders("nothing/") == []
    assert abs((store.changed("runs/a/") or 0) - time.time()) < 60
    assert store.changed("nothing/") is None
    store.delete_folder("runs/a/")
    store.delete_folder("runs/a/")
    assert store.folders("runs/") == ["b"]
    assert store.keys("runs/") == ["runs/b/x", "runs/latest"]


def test_folders_go_up_and_come_back(store: Store, tmp_path: Path) -> None:
    (tmp_path / "up/deep").mkdir(parents=True)
    (tmp_path / "up/one").write_bytes(b"\x00\xff")
    (tmp_path / "up/deep/two").write_text("2")
    upload_folder(store, "folder", tmp_path / "up")
    assert download_folder(store, "folder", tmp_path / "down") == 2
    assert (tmp_path / "down/one").read_bytes() == b"\x00\xff"
    assert (tmp_path / "down/deep/two").read_text() == "2"
    with pytest.raises(KeyError):
        store.download("folder/none", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_an_interrupted_write_leaves_the_old_object(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.write("a", b"old")
    with pytest.raises(InfraError):
        store.upload("a", tmp_path / "not there")
    assert store.read("a") == b"old"
    assert store.keys("") == ["a"]


def test_a_key_cannot_leave_the_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leaves the store"):
        open_store(str(tmp_path)).write("../x", b"")


def test_mistakes_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="needs S3_ENDPOINT, S3_ACCESS_KEY, S3_SECRET_KEY"):
        open_store("s3://bucket/prefix")
    with pytest.raises(UserError, match="neither a directory nor s3"):
        open_store("ftp://host")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        open_store(str(tmp_path / "file")).write("a", b"")


def test_a_bucket_that_is_not_there_is_an_infrastructure_failure(s3_settings: None) -> None:
    with pytest.raises(InfraError, match="NoSuchBucket"):
        open_store("s3://no-such-bucket").write("a", b"")


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "S3_ENDPOINT": "127.0.0.1:9",
        "S3_ACCESS_KEY": "k",
        "S3_SECRET_KEY": "s",
        "S3_SECURE": "0",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InfraError, match="could not be reached for s3://bucket/a"):
        open_store("s3://bucket").read("a")
