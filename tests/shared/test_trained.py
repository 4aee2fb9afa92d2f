"""Where a trained model is found: every form of address, what is fetched, and what is refused."""

import json
import shutil

import pytest

from components.shared import published
from components.shared.errors import InfraError, UserError
from components.shared.store import open_store, upload_folder
from components.shared.trained import read_trained, refuse_missing, trained_folder
from tests.buckets import own_bucket

FACTS = {"kind": "adapter", "method": "lora", "base": "some/base", "revision": "abc"}


@pytest.fixture
def trained(tmp_path):
    """A folder as train leaves it; the weights are of no matter here."""
    folder = tmp_path / "made"
    (folder / "adapter").mkdir(parents=True)
    (folder / "model.json").write_text(json.dumps(FACTS))
    (folder / "adapter/adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "some/base"}))
    (folder / "adapter/adapter_model.safetensors").write_bytes(b"weights")
    (folder / "merged").mkdir()
    (folder / "merged/model.safetensors").write_bytes(b"as large as the base, and not needed beside it")
    return folder


@pytest.fixture
def stored(trained, store_root):
    """The same as run `one` in the store, and published as nightly."""
    store = open_store()
    upload_folder(store, "runs/one/train", trained)
    store.write("runs/one/train/metrics.jsonl", b"{}")
    seen = published.read_pointer(store, "nightly")
    assert published.publish(
        store, "nightly", "one", trained, seen=seen, decided_by="hand", facts={}, evaluation=None, provenance={}
    )
    return store_root


@pytest.mark.parametrize("address", ["runs/one", "runs/one/train", "models/nightly", "models/nightly/one"])
def test_what_is_in_the_store_is_fetched(stored, tmp_path, address):
    refuse_missing(address, on_cluster=True)
    folder = trained_folder(address, tmp_path / "scratch")
    assert read_trained(folder) == FACTS
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [
        "adapter_config.json", "adapter_model.safetensors", "model.json"
    ]  # fmt: skip


def test_a_folder_of_a_bucket_is_fetched(trained, tmp_path, monkeypatch):
    with own_bucket(monkeypatch) as address:
        upload_folder(open_store(address), "some/place", trained)
        refuse_missing(f"{address}/some/place", on_cluster=True)
        assert read_trained(trained_folder(f"{address}/some/place", tmp_path / "scratch")) == FACTS
        with pytest.raises(UserError, match="no trained model at s3://"):
            refuse_missing(f"{address}/other", on_cluster=True)


def test_a_directory_is_used_where_it_is(trained, tmp_path):
    refuse_missing(str(trained), on_cluster=False)
    assert trained_folder(str(trained), tmp_path / "scratch") == trained
    with pytest.raises(UserError, match="a path, which no pod"):
        refuse_missing(str(trained), on_cluster=True)


def test_a_bare_peft_adapter_will_do_and_is_left_as_it_is(trained, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(trained / "adapter", bare)
    refuse_missing(str(bare), on_cluster=False)
    facts = read_trained(trained_folder(str(bare), tmp_path / "scratch"))
    assert (facts["kind"], facts["base"]) == ("adapter", "some/base")
    assert not (bare / "model.json").exists()


def test_a_directory_with_the_name_of_a_key_wins(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, tmp_path / "models/own")
    assert read_trained(trained_folder("models/own", tmp_path / "scratch")) == FACTS


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("models/unknown", "No model 'unknown' is published"),
        ("models/nightly/two", "version 'two'"),
        ("models", "names no trained model"),
        ("runs/one/evaluate", "names no trained model"),
        ("runs/two", "no trained model at runs/two"),
        ("/nowhere/at/all", "no trained model"),
    ],
)
def test_what_is_none_is_refused_with_the_forms_that_there_are(stored, tmp_path, address, words):
    for ask in (lambda: refuse_missing(address, on_cluster=False), lambda: trained_folder(address, tmp_path / "s")):
        with pytest.raises(UserError, match=words):
            ask()


def test_a_published_file_that_is_not_what_it_was_is_not_used(stored, tmp_path):
    (stored / "models/nightly/one/adapter/adapter_model.safetensors").write_bytes(b"others")
    with pytest.raises(InfraError, match="is not the file that was published"):
        trained_folder("models/nightly", tmp_path / "scratch")
