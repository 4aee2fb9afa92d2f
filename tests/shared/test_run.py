"""A run's id and its record."""

import json
import subprocess
from pathlib import Path

import pytest

from components.shared.errors import InfraError
from components.shared.run import (
    POD_RUN_VARIABLE,
    digest_of,
    git_commit,
    git_is_changed,
    latest,
    mark_latest,
    merged,
    record,
    run_id_of,
    versions,
)
from components.shared.store import open_store


def test_the_local_runner_names_its_runs_then_a_resumed_run_then_kfp(monkeypatch):
    monkeypatch.delenv("GRPO_RUN_ID", raising=False)
    monkeypatch.setenv(POD_RUN_VARIABLE, "pods")
    assert run_id_of("kfp", "") == "kfp"
    assert run_id_of("", "") == "pods"
    assert run_id_of("", "earlier") == "earlier"
    assert run_id_of("kfp", "earlier") == "earlier"
    monkeypatch.setenv("GRPO_RUN_ID", "local")
    assert run_id_of("kfp", "earlier") == "local"


def test_parts_of_a_record_merge(tmp_path):
    store = open_store(str(tmp_path))
    record(store, "r", seconds={"train": 2.0}, parameters={"lr": 1})
    whole = record(store, "r", seconds={"evaluate": 3.0}, parameters={"lr": 2})
    assert whole == {"run_id": "r", "seconds": {"train": 2.0, "evaluate": 3.0}, "parameters": {"lr": 2}}
    assert json.loads(store.read("runs/r/run.json")) == whole


def test_a_record_that_cannot_be_read_is_not_replaced(tmp_path):
    store = open_store(str(tmp_path))
    store.write("runs/r/run.json", b"{half")
    with pytest.raises(InfraError, match=r"run\.json is not JSON"):
        record(store, "r", seed=1)
    assert store.read("runs/r/run.json") == b"{half"


def test_merging_leaves_its_inputs_alone():
    known = {"a": {"b": 1}}
    assert merged(known, {"a": {"c": 2}}) == {"a": {"b": 1, "c": 2}}
    assert known == {"a": {"b": 1}}


def test_latest_names_the_newest_run(tmp_path):
    store = open_store(str(tmp_path))
    assert latest(store) is None
    mark_latest(store, "one")
    mark_latest(store, "two")
    assert latest(store) == "two"


def test_what_ran_is_known(tmp_path):
    assert "torch" in versions()
    assert git_commit() is None or len(git_commit()) == 40
    if git_commit():
        told = subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=Path(__file__).parent, check=False)
        assert git_is_changed() == (told.returncode == 1)
    (tmp_path / "x").write_bytes(b"abc")
    assert digest_of(tmp_path / "x") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
