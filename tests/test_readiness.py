"""The first step's questions to store, sandbox and hub; what is missing on a cluster is named with its remedy."""

import pytest

from cli.parameters import merged
from components import readiness
from components.shared.errors import InfraError, UserError
from components.shared.run import POD_RUN_VARIABLE, RUN_VARIABLE, recorded
from components.shared.store import DirectoryStore, open_store
from tests.buckets import own_bucket


@pytest.fixture
def pod(monkeypatch):
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    monkeypatch.setenv(POD_RUN_VARIABLE, "kfp-1")


@pytest.fixture
def bucket(monkeypatch):
    with own_bucket(monkeypatch) as address:
        yield address


def test_what_is_there_is_found_ready_and_nothing_is_left(store_root, local_sandbox):
    readiness.verify(merged({}))
    assert open_store().keys("cache/") == []


def test_the_failure_of_an_attempt_before_is_forgotten(store_root, local_sandbox, monkeypatch):
    monkeypatch.setenv(RUN_VARIABLE, "own")
    open_store().write("runs/own/failure.json", b"{}")
    readiness.verify(merged({}))
    assert not open_store().exists("runs/own/failure.json")


def test_a_missing_secret_is_named_with_the_command_that_makes_it(pod, monkeypatch):
    monkeypatch.setenv("GRPO_STORE", "s3://grpo-code")
    for name in ("S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError) as refused:
        readiness.verify(merged({"store_secret": "my-store"}))
    assert "The Secret my-store with the store's keys is missing" in str(refused.value)
    assert "lacks S3_ENDPOINT, S3_ACCESS_KEY, S3_SECRET_KEY" in str(refused.value)
    assert "kubectl create secret generic my-store" in str(refused.value)


def test_a_bucket_that_does_not_exist_is_an_infrastructure_failure(bucket, monkeypatch):
    monkeypatch.setenv("GRPO_STORE", "s3://nowhere")
    with pytest.raises(InfraError, match="NoSuchBucket"):
        readiness.try_store(open_store())


class Forgetful(DirectoryStore):
    def read(self, key):
        return b"something else"


def test_a_store_that_gives_back_other_bytes_is_found_out(tmp_path):
    with pytest.raises(InfraError, match="other bytes"):
        readiness.try_store(Forgetful(tmp_path))


def test_a_sandbox_that_is_away_is_an_infrastructure_failure(monkeypatch):
    monkeypatch.delenv("GRPO_SANDBOX_URL", raising=False)
    monkeypatch.setattr(readiness, "SANDBOX_SECONDS", 0.5)
    with pytest.raises(InfraError, match="is not ready"):
        readiness.try_sandbox("http://127.0.0.1:9", "grpo-code-sandbox")


@pytest.mark.parametrize(("name", "value"), [("model_name", "/models/qwen"), ("dataset", "./rows.jsonl")])
def test_a_path_that_no_pod_has(pod, name, value):
    with pytest.raises(UserError, match=f"{name} '{value}' is a path, which no pod of the cluster has"):
        readiness.pinned(merged({name: value}))


COMMIT = "0123456789" * 4


def test_what_was_pinned_at_submit_stays(pod):
    given = merged({"model_revision": COMMIT, "dataset_revision": COMMIT[::-1]})
    pins = {"model_revision": COMMIT, "dataset_revision": COMMIT[::-1], "regression_revision": ""}
    assert readiness.pinned(given) == {**pins, "init_adapter": "", "tuned_model": ""}


def test_what_was_not_pinned_is_pinned_now_and_said(pod, bucket, capsys):
    open_store().write("rows.jsonl", b"{}\n")
    given = merged({"model_revision": COMMIT, "dataset": f"{bucket}/rows.jsonl"})
    revision = readiness.pinned(given)["dataset_revision"]
    assert len(revision) == 64
    assert f"dataset is pinned at revision {revision}" in capsys.readouterr().out
    again = readiness.pinned({**given, "dataset_revision": revision})
    assert again == {
        "model_revision": COMMIT,
        "dataset_revision": revision,
        "regression_revision": "",
        "init_adapter": "",
        "tuned_model": "",
    }
    open_store().write("rows.jsonl", b'{"edited": 1}\n')
    with pytest.raises(UserError, match="leave it empty"):
        readiness.pinned({**given, "dataset_revision": revision})


def test_what_was_read_is_written_down_and_read_again_by_what_continues(pod, bucket, monkeypatch):
    open_store().write("rows.jsonl", b"{}\n")
    given = merged({"model_revision": COMMIT, "dataset": f"{bucket}/rows.jsonl"})
    read = readiness.pinned(given)
    assert readiness.keep(given | read) == ""
    monkeypatch.setenv(POD_RUN_VARIABLE, "kfp-2")
    again = {**given, "model_revision": "main", "dataset_revision": "", "resume_run": "kfp-1"}
    assert readiness.pinned(again) == read
    readiness.keep(again | read)
    assert recorded(open_store(), "kfp-1")["parameters"]["model_revision"] == COMMIT
    assert recorded(open_store(), "kfp-2") == {}
    open_store().write("rows.jsonl", b'{"edited": 1}\n')
    with pytest.raises(UserError, match="is not what"):
        readiness.pinned(again)


def test_what_continues_a_run_that_read_nothing_pins_anew(pod, bucket):
    open_store().write("rows.jsonl", b"{}\n")
    given = merged({"model_revision": COMMIT, "dataset": f"{bucket}/rows.jsonl", "resume_run": "kfp-0"})
    assert len(readiness.pinned(given)["dataset_revision"]) == 64
