"""Where a trained model is found: every form of address, what is fetched, and what is refused."""

import json
import shutil

import pytest

from cli.parameters import merged
from components import readiness
from components.shared import published
from components.shared.errors import InfraError, UserError
from components.shared.run import RUN_VARIABLE
from components.shared.store import open_store, upload_folder
from components.shared.trained import pinned, read_trained, refuse_missing, still_meant, trained_folder, unpinned
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


def test_what_it_was_trained_on_is_fetched_with_a_model(stored, tmp_path):
    (stored / "runs/one/train/trained_on.json").write_text("{}")
    assert (trained_folder("runs/one", tmp_path / "scratch") / "trained_on.json").read_text() == "{}"


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


def test_an_address_is_pinned_to_a_version_or_to_what_lies_there(stored, tmp_path, monkeypatch):
    assert pinned("models/nightly") == unpinned("models/nightly/one") == "models/nightly/one"
    for address in ("runs/one", str(stored / "runs/one/train")):
        mark = pinned(address)
        assert mark == pinned(mark)
        assert mark.startswith(f"{address}@")
        assert unpinned(mark) == address
    weights = stored / "runs/one/train/adapter/adapter_model.safetensors"
    weights.touch()
    (stored / "runs/one/train/metrics.jsonl").write_text("more of what training wrote down")
    (stored / "runs/one/train/adapter/README.md").write_text("a card")
    assert mark == pinned(address), "the model's contents count, and nothing else"
    weights.write_bytes(b"others!")
    with pytest.raises(UserError, match="is another than when this run began"):
        unpinned(mark)
    with pytest.raises(UserError, match=r"There is no trained model at .*/evaluate"):
        pinned(str(stored / "runs/one/evaluate"))


def test_what_lies_in_a_bucket_is_pinned_without_reading_it(trained, monkeypatch):
    with own_bucket(monkeypatch) as address:
        store = open_store(address)
        upload_folder(store, "place", trained)
        mark = pinned(f"{address}/place")
        assert unpinned(mark) == f"{address}/place"
        store.write("place/metrics.jsonl", b"{}")
        store.write("place/adapter/adapter_model.safetensors", b"weights")
        assert pinned(f"{address}/place") == mark, "the same contents, written again"
        store.write("place/adapter/adapter_model.safetensors", b"others!")
        with pytest.raises(UserError, match="is another than when this run began"):
            unpinned(mark)


def test_a_bare_adapter_is_pinned_by_its_own_files(trained):
    folder = trained / "adapter"
    mark = pinned(str(folder))
    (folder / "optimizer.pt").write_bytes(b"of the training")
    assert pinned(str(folder)) == mark
    (folder / "adapter_config.json").write_text("{}")
    assert pinned(str(folder)) != mark


def test_a_run_whose_files_are_lost_is_told_as_that(stored, tmp_path):
    shutil.rmtree(stored / "runs/one/train/adapter")
    with pytest.raises(InfraError, match=r"runs/one/train has model\.json but no adapter/ or model/"):
        trained_folder("runs/one", tmp_path / "scratch")


def test_what_is_evaluated_stays_what_the_first_attempt_found_under_the_name(stored, trained, monkeypatch):
    """The name moves on between two attempts at a run; only a later run follows it."""
    monkeypatch.setenv(RUN_VARIABLE, "run")
    given = merged({"model_revision": "m", "dataset_revision": "d"}) | {"tuned_model": "models/nightly"}
    read = readiness.pinned(given)
    assert read["tuned_model"] == "models/nightly/one"
    readiness.keep({**given, **read})
    store = open_store()
    published.publish(
        store, "nightly", "two", trained, seen=published.read_pointer(store, "nightly"), decided_by="hand", facts={},
        evaluation=None, provenance={},
    )  # fmt: skip
    assert readiness.pinned(given)["tuned_model"] == "models/nightly/one"
    monkeypatch.setenv(RUN_VARIABLE, "later")
    assert readiness.pinned(given)["tuned_model"] == "models/nightly/two"
    monkeypatch.delenv(RUN_VARIABLE)
    assert readiness.pinned({**given, "resume_run": "run"})["tuned_model"] == "models/nightly/one"


def test_what_a_run_trained_may_not_change_between_two_attempts_at_its_evaluation(stored, monkeypatch):
    monkeypatch.setenv(RUN_VARIABLE, "run")
    given = merged({"model_revision": "m", "dataset_revision": "d"}) | {"tuned_model": "runs/one"}
    read = readiness.pinned(given)
    readiness.keep({**given, **read})
    assert readiness.pinned(given)["tuned_model"] == read["tuned_model"] == pinned("runs/one")
    (stored / "runs/one/train/adapter/adapter_model.safetensors").write_bytes(b"of a later attempt")
    with pytest.raises(UserError, match="tuned_model: the model at runs/one is another than when this run began"):
        readiness.pinned(given)
    monkeypatch.setenv(RUN_VARIABLE, "later")
    assert readiness.pinned(given)["tuned_model"] == pinned("runs/one") != read["tuned_model"]


@pytest.mark.parametrize(
    ("asked", "then", "meant"),
    [
        ("models/nightly", "models/nightly/one", "models/nightly/one"),
        ("models/nightly/two", "models/nightly/one", ""),
        ("models/night", "models/nightly/one", ""),
        ("", "models/nightly/one", ""),
        ("models/nightly", "", ""),
        ("runs/one", "runs/one", ""),  # not pinned
        ("runs/one", "runs/one@0123456789abcdef", "runs/one@0123456789abcdef"),
        ("/a/place/", "/a/place@0123456789abcdef", "/a/place@0123456789abcdef"),
        ("runs/two", "runs/one@0123456789abcdef", ""),
    ],
)
def test_a_name_still_means_what_an_earlier_attempt_took_it_for(asked, then, meant):
    assert still_meant({"tuned_model": asked}, {"tuned_model": then}, "tuned_model") == meant


def test_a_named_store_is_asked_and_no_directory_of_this_machine(trained, tmp_path, monkeypatch, stored):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, tmp_path / "models/own")
    refuse_missing("models/own", on_cluster=False)
    with pytest.raises(UserError, match="No model 'own' is published"):
        refuse_missing("models/own", on_cluster=True, named="init_adapter", store=open_store())
