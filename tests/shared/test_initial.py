"""init_adapter: what an address means now, what pins it, and which adapters are refused."""

import json

import pytest

from cli.parameters import merged
from components import readiness
from components.shared.errors import UserError
from components.shared.initial import pinned_adapter, starting_adapter
from components.shared.manifest import MANIFEST, facts_of
from components.shared.run import POD_RUN_VARIABLE, RUN_VARIABLE
from components.shared.store import open_store
from components.shared.trained import pinned

GIVEN = merged({"model_name": "some/base", "model_revision": "abc", "lora_r": 4, "lora_alpha": 8})


def put(store, prefix, *, kind="adapter", base="some/base", revision="abc", **config):
    """An adapter as train leaves it; its weights are of no matter here."""
    facts = {"kind": kind, "method": "lora", "base": base, "revision": revision}
    store.write(f"{prefix}/model.json", json.dumps(facts).encode())
    settings = {"r": 4, "lora_alpha": 8, "base_model_name_or_path": base, **config}
    store.write(f"{prefix}/{kind}/adapter_config.json", json.dumps(settings).encode())
    store.write(f"{prefix}/{kind}/adapter_model.safetensors", b"weights")


@pytest.fixture
def store(store_root, monkeypatch):
    for name in (RUN_VARIABLE, POD_RUN_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    store = open_store()
    for version in ("one", "two"):
        put(store, f"models/nightly/{version}")
        folder = store_root / f"models/nightly/{version}"
        files = {path.relative_to(folder).as_posix(): facts_of(path) for path in folder.rglob("*") if path.is_file()}
        store.write(f"models/nightly/{version}/{MANIFEST}", json.dumps({"files": files}).encode())
    store.write("models/nightly/current", b"one\n")
    put(store, "runs/three/train")
    return store


@pytest.mark.parametrize(
    ("address", "pinned"),
    [
        ("", ""),
        ("models/nightly", "models/nightly/one"),
        ("models/nightly/two", "models/nightly/two"),
    ],
)
def test_a_name_is_pinned_to_its_version(store, address, pinned):
    assert pinned_adapter({**GIVEN, "init_adapter": address}) == pinned


@pytest.mark.parametrize("address", ["runs/three", "{store}/runs/three/train"])
def test_what_a_run_or_a_directory_holds_is_pinned_by_its_contents(store, store_root, address):
    address = address.format(store=store_root)
    first = pinned_adapter({**GIVEN, "init_adapter": address})
    assert first.startswith(f"{address}@")
    assert pinned_adapter({**GIVEN, "init_adapter": first}) == first
    store.write("runs/three/train/adapter/adapter_model.safetensors", b"others")
    assert pinned_adapter({**GIVEN, "init_adapter": first}) != first


def test_a_bare_peft_adapter_will_do(store, store_root):
    folder = str(store_root / "runs/three/train/adapter")
    assert pinned_adapter({**GIVEN, "init_adapter": folder}).startswith(folder)


def test_the_first_run_of_a_series_starts_from_the_base(store, capsys):
    assert pinned_adapter({**GIVEN, "init_adapter": "models/new", "publish_as": "new"}) == ""
    assert "nothing is published as new yet: training starts from the base" in capsys.readouterr().out
    with pytest.raises(UserError, match="No model 'new' is published"):
        pinned_adapter({**GIVEN, "init_adapter": "models/new", "publish_as": "other"})


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"kind": "model"}, "is a whole model and no adapter"),
        ({"base": "another/base"}, "was trained on 'another/base', not on model_name 'some/base'"),
        ({"revision": "old"}, r"another revision of the base \(old\) than this run reads \(abc\)"),
        ({"r": 8}, "has lora_r 8, not 4: use that value"),
        ({"lora_alpha": 16}, "has lora_alpha 16, not 8"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(store, made, words):
    put(store, "runs/odd/train", **made)
    with pytest.raises(UserError, match=words):
        pinned_adapter({**GIVEN, "init_adapter": "runs/odd"})


def test_on_a_cluster_a_path_is_refused(store, monkeypatch):
    monkeypatch.setenv(POD_RUN_VARIABLE, "kfp-1")
    with pytest.raises(UserError, match="is a path, which no pod of the cluster has"):
        pinned_adapter({**GIVEN, "init_adapter": "./adapter"})
    assert pinned_adapter({**GIVEN, "init_adapter": "models/nightly"}) == "models/nightly/one"


def test_a_further_attempt_starts_from_what_the_first_one_did(store, monkeypatch):
    monkeypatch.setenv(RUN_VARIABLE, "run")
    given = {**GIVEN, "dataset_revision": "d", "init_adapter": "models/nightly"}
    read = readiness.pinned(given)
    assert read["init_adapter"] == "models/nightly/one"
    readiness.keep({**given, **read})
    store.write("models/nightly/current", b"two\n")
    assert readiness.pinned(given)["init_adapter"] == "models/nightly/one"
    assert readiness.pinned({**given, "init_adapter": "runs/three"})["init_adapter"] == pinned("runs/three")
    monkeypatch.setenv(RUN_VARIABLE, "later")
    assert readiness.pinned(given)["init_adapter"] == "models/nightly/two"
    assert readiness.pinned({**given, "resume_run": "run"})["init_adapter"] == "models/nightly/one"


def test_another_adapter_at_the_address_is_not_taken_for_the_one_that_was_pinned(store, store_root, tmp_path):
    given = {**GIVEN, "init_adapter": str(store_root / "runs/three/train")}
    pinned = pinned_adapter(given)
    assert starting_adapter(pinned, tmp_path, given).name == "adapter"
    store.write("runs/three/train/adapter/adapter_model.safetensors", b"others")
    with pytest.raises(UserError, match=r"init_adapter: the model at .* is another than when this run began"):
        starting_adapter(pinned, tmp_path, given)
