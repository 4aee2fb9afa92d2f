"""`upload-demo`: the demo in the store, whole and with digests, and a command that starts a run of it."""

import json
import shlex
from pathlib import Path

import pytest

from cli.main import main
from cli.submit import parameters_for_cluster
from cli.uploading import PIPELINE, upload_demo
from components.shared.errors import UserError
from components.shared.store import open_store
from tests.buckets import own_bucket
from tests.cli.small_kfp import small_kfp

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_demo_is_there_and_its_command_starts_a_run(monkeypatch, capsys):
    with own_bucket(monkeypatch), small_kfp() as kfp:
        words = shlex.split(upload_demo())
        store = open_store()
        files = json.loads(store.read("demo/model/manifest.json"))["files"]
        assert set(files) >= {"config.json", "model.safetensors", "tokenizer.json"}
        assert all(store.exists(f"demo/model/{name}") for name in files)
        assert store.exists("demo/problems/train.jsonl")
        assert words[:3] == ["python", "pipeline.py", "run"]
        monkeypatch.chdir(ROOT)
        with pytest.raises(SystemExit) as ended:
            main([*words[2:], "--endpoint", kfp.url])
        assert ended.value.code == 0, capsys.readouterr().err
        sent = kfp.bodies("/runs")[-1]["runtime_config"]["parameters"]
        assert (sent["model_name"], sent["gpus"]) == ("s3://bucket/demo/model", "0")
        assert len(sent["model_revision"]) == len(sent["dataset_revision"]) == len(sent["regression_revision"]) == 64
        assert sent["regression_dataset"] == "s3://bucket/demo/regression.jsonl"
        assert sent["lora_r"] == 16


def test_a_store_on_this_machine_is_no_store_for_pods(store_root):
    with pytest.raises(UserError, match="set GRPO_STORE=s3://bucket/prefix"):
        upload_demo()


def test_a_model_that_is_not_in_the_store_is_refused_at_submit(monkeypatch):
    with own_bucket(monkeypatch), pytest.raises(UserError, match="holds nothing below that key"):
        parameters_for_cluster({"model_name": "s3://bucket/x", "dataset": "s3://bucket/y"}, print)


def test_a_second_upload_is_a_new_version_of_the_same_pipeline_and_the_same_one_is_none(monkeypatch, capsys):
    for name in ("REGISTRY", "KFP_TOKEN", "KFP_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)

    def upload(kfp, *options):
        with pytest.raises(SystemExit) as ended:
            main(["upload", "--endpoint", kfp.url, *options])
        assert ended.value.code == 0
        return capsys.readouterr().out.splitlines()

    with small_kfp() as kfp:
        first, again, other = upload(kfp), upload(kfp), upload(kfp, "--retries", "1")
        assert kfp.pipelines == {PIPELINE: "p1"}
        assert [version["pipeline_id"] for version in kfp.versions] == ["p1", "p1"]
        assert len({version["display_name"] for version in kfp.versions}) == 2
    assert first[0].startswith("Uploaded grpo-code, version ")
    assert again[0] == first[0].replace("Uploaded", "There already:")
    assert first[1].endswith("/#/pipelines/details/p1/version/v1")
    assert again[1] == first[1]
    assert other[1].endswith("/#/pipelines/details/p1/version/v2")


@pytest.mark.slow
def test_a_profile_has_a_pipeline_of_its_own(kfp, call):
    """One of the same name that all users share, or of another profile, is another."""
    kfp.health["multi_user"] = True
    kfp.pipelines[PIPELINE] = "shared"
    first, again, other = (call(f"upload --namespace {each}")[1] for each in ("team-a", "team-a", "team-b"))
    assert kfp.of_profile == {"": {PIPELINE: "shared"}, "team-a": {PIPELINE: "p2"}, "team-b": {PIPELINE: "p3"}}
    assert [version["pipeline_id"] for version in kfp.versions] == ["p2", "p3"]
    assert again == first.replace("Uploaded", "There already:")
    assert other.startswith("Uploaded")
