"""An adapter or a trained model that is not there: said before anything is sent, where its store can be asked."""

import pytest

from components.shared.store import open_store
from tests.buckets import own_bucket

READ = "--model-name s3://bucket/model --dataset s3://bucket/rows.jsonl"


@pytest.fixture
def stored(kfp, monkeypatch):
    """The run's store with a model, a data set, and an adapter that a run has trained."""
    with own_bucket(monkeypatch) as address:
        store = open_store(address)
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            store.write(f"model/{name}", b"{}")
        store.write("rows.jsonl", b"{}")
        store.write("runs/one/train/model.json", b"{}")
        yield store


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--init-adapter runs/two", "init_adapter: there is no trained model at runs/two: use models/<name>"),
        ("--init-adapter models/none", "No model 'none' is published in s3://bucket/models"),
        ("--init-adapter s3://bucket/none", "init_adapter: there is no trained model at s3://bucket/none"),
        ("--pipeline evaluate-only --tuned-model runs/two", "tuned_model: there is no trained model at runs/two"),
        ("--init-adapter ./adapter", "init_adapter './adapter' is a path, which no pod of the cluster has"),
    ],
)
@pytest.mark.parametrize("line", ["run", "schedule create"])
def test_a_wrong_address_is_told_at_submit(stored, kfp, call, line, option, words):
    cron = ["--cron", "0 3 * * *"] if line != "run" else []
    code, out, err = call(f"{line} {READ} {option}", *cron)
    assert (code, out) == (2, "")
    assert words in err.splitlines()[-1]
    assert not kfp.bodies("/runs") + kfp.bodies("/recurringruns")


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--init-adapter runs/one", "--init-adapter models/new --publish-as new"])
def test_what_is_there_or_is_to_be_published_first_is_sent(stored, kfp, call, option):
    code, _, err = call(f"run {READ} {option}")
    assert code == 0, err
    assert kfp.bodies("/runs")[-1]["runtime_config"]["parameters"]["init_adapter"] == option.split()[1]


@pytest.mark.parametrize("address", ["runs/two", "s3://bucket/none"])
def test_where_the_store_is_not_known_the_first_step_looks(kfp, call, address):
    assert call(f"run {READ} --init-adapter {address}")[0] == 0


@pytest.mark.slow
def test_where_the_store_is_away_the_first_step_looks_and_that_is_said(kfp, call, monkeypatch):
    for name, value in {
        "S3_ENDPOINT": "127.0.0.1:9", "S3_ACCESS_KEY": "k", "S3_SECRET_KEY": "s", "S3_SECURE": "false",
        "GRPO_STORE": "s3://bucket",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    commit = "0123456789" * 4
    pinned = f"--model-name owner/model --dataset mbpp --model-revision {commit} --dataset-revision {commit}"
    code, _, err = call(f"run {pinned} --init-adapter runs/two")
    assert code == 0, err
    assert "init_adapter will be looked for by the run's first step" in err
