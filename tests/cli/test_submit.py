"""What is sent to Kubeflow Pipelines: typed values, pinned revisions, schedules that fire once; and what is refused."""

import json

import pytest
from huggingface_hub import constants

from cli.kept import options_of
from components.shared.run import record
from components.shared.store import open_store

STORED = "--model-name s3://bucket/model --dataset s3://bucket/problems"


@pytest.fixture
def refused(call):
    def run(line, *more):
        code, out, err = call(line, *more)
        assert (code, out) == (2, "")
        return err.strip().splitlines()[-1]

    return run


def sent_parameters(kfp, path):
    return kfp.bodies(path)[-1]["runtime_config"]["parameters"]


def test_every_parameter_is_sent_in_its_own_type(kfp, call):
    options = "--epochs 1 --lr 1 --use-filter --gpus 0 --max_eval_samples 9 --num-eval-examples 9"
    labels, tolerations = '{"accelerator": "a100"}', '[{"key": "gpu", "operator": "Exists"}]'
    code, out, err = call(f"run {STORED} {options}", "--node-selector", labels, "--tolerations", tolerations)
    assert code == 0, err
    assert "Started run r1" in out
    assert f"{kfp.url}/#/runs/details/r1" in out
    sent = sent_parameters(kfp, "/runs")
    assert sent["epochs"] == 1
    assert sent["lr"] == 1.0
    assert sent["use_filter"] is True
    assert sent["gpus"] == "0"
    assert sent["node_selector"] == json.loads(labels)
    assert sent["tolerations"] == json.loads(tolerations)
    assert sent["code_version"]
    body = kfp.bodies("/runs")[-1]
    assert body["pipeline_spec"]["platform_spec"]["platforms"]["kubernetes"]
    from cli.parameters import pipeline_parameters

    assert set(sent) == set(pipeline_parameters())


def test_a_token_and_a_profile_are_sent_where_several_users_are_served(kfp, call, refused):
    kfp.health["multi_user"] = True
    assert "name your profile's namespace" in refused(f"run {STORED}")
    code, _, err = call(f"run {STORED} --token secret --namespace team")
    assert code == 0, err
    assert "Bearer secret" in kfp.tokens
    assert kfp.bodies("/experiments")[-1]["namespace"] == "team"


def test_what_kfp_refuses_is_one_sentence(kfp, refused):
    kfp.refuse = (400, "parameter epochs requires type double or integer")
    assert refused(f"run {STORED}") == (
        "Kubeflow Pipelines refuses this: parameter epochs requires type double or integer."
    )
    kfp.refuse = (401, "no such session")
    assert "set KFP_TOKEN" in refused(f"run {STORED}")


@pytest.mark.parametrize(
    ("verb", "kind", "told"), [("create", "experiments", "create experiments"), ("list", "jobs", "list recurring runs")]
)
def test_whom_kfp_does_not_allow_it_is_told_who_they_are_and_where(kfp, refused, verb, kind, told):
    """Words of a KFP 2.17.0."""
    kfp.health["multi_user"] = True
    said = (
        "List failed: Check if you have permission to access namespace other: failed to authorize with API: "
        "PermissionDenied: User 'system:serviceaccount:team:default-editor' is not authorized with reason: (request: "
        f"&ResourceAttributes{{Namespace:other,Verb:{verb},Group:pipelines.kubeflow.org,Version:v1beta1,"
        f"Resource:{kind},Subresource:,Name:,FieldSelector:nil,LabelSelector:nil,}}): Unauthorized access"
    )
    kfp.refuse = (403, said)
    assert refused("schedule list --token t --namespace other") == (
        f"Kubeflow Pipelines at {kfp.url} does not let system:serviceaccount:team:default-editor {told} in namespace "
        "other: name the namespace of a profile of yours with --namespace or KFP_NAMESPACE, or set KFP_TOKEN to a "
        "token of an account that may."
    )


def test_an_api_that_fails_or_is_away_is_no_mistake_of_the_user(kfp, call, monkeypatch):
    kfp.refuse = (503, "database is away")
    code, _, err = call(f"run {STORED}")
    assert (code, "HTTP 503" in err) == (1, True)
    monkeypatch.setenv("KFP_ENDPOINT", "http://127.0.0.1:9")
    code, _, err = call(f"run {STORED}")
    assert (code, "cannot be reached at http://127.0.0.1:9" in err) == (1, True)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--model-name demo/model", "upload-demo"),
        ("--model-name ./nowhere", "is a path, which no pod"),
        ("--model-name /models/qwen", "is a path, which no pod"),
        ("--dataset demo/problems", "dataset 'demo/problems' is a path, which no pod"),
        ("--dataset rows.jsonl", "is a path, which no pod"),
        ("--batch-size 12", "not divisible"),
        ("--gpus many", "gpus 'many' is no number"),
        ("--tolerations x", "--tolerations 'x' is not a JSON list"),
        ("--shm-size big", "--shm-size 'big' is no size"),
        ("--pod-label x", "--pod-label 'x' is no label"),
        ("--timeout train=soon", "--timeout 'train=soon' is no deadline"),
        ("--timeout tarin=1", "with one of check, fetch_model"),
        ("--max-evl-samples 3", "Did you mean --max-eval-samples?"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_sent(kfp, refused, option, words):
    assert words in refused(f"run {STORED} {option}")
    assert not kfp.bodies("/runs")


def test_an_unknown_endpoint_is_said(refused, monkeypatch):
    for name in ("KFP_ENDPOINT", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert refused(f"run {STORED}").startswith("No Kubeflow Pipelines is known: set KFP_ENDPOINT or --endpoint")


def test_what_cannot_be_asked_from_here_is_left_to_the_first_step(kfp, call, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    code, _, err = call("run --model-name owner/model --dataset s3://bucket/problems")
    assert code == 0
    assert "owner/model is pinned by the run's first step: the hub cannot be reached" in err
    assert "s3://bucket/problems is pinned by the run's first step: S3_ENDPOINT" in err
    assert sent_parameters(kfp, "/runs")["model_revision"] == ""


COMMIT = "0123456789" * 4


def test_a_schedule_is_enabled_catches_nothing_up_and_runs_one_at_a_time(kfp, call):
    code, out, err = call(f"schedule create {STORED} --epochs 1 --cron", "30 2 * * 1-5")
    assert code == 0, err
    body = kfp.bodies("/recurringruns")[-1]
    assert body["trigger"]["cron_schedule"]["cron"] == "0 30 2 * * 1-5"
    assert body["mode"] == "ENABLE"
    assert body["no_catchup"] is True
    assert str(body["max_concurrency"]) == "1"
    assert sent_parameters(kfp, "/recurringruns")["epochs"] == 1
    assert "At 02:30 on Monday through Friday (UTC)" in out
    assert out.count("02:30:00") == 3


@pytest.mark.parametrize(("option", "revision"), [("", COMMIT), ("--follow-revisions", "")])
def test_a_schedule_reads_what_is_there_today_or_what_is_newest(kfp, call, option, revision, tmp_path, monkeypatch):
    reference = tmp_path / "models--owner--model/refs/main"
    reference.parent.mkdir(parents=True)
    reference.write_text(COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    line = f"schedule create --model-name owner/model --dataset s3://bucket/problems {option} --cron"
    code, out, err = call(line, "0 3 * * *")
    assert code == 0, err
    assert sent_parameters(kfp, "/recurringruns")["model_revision"] == revision
    assert ("the newest at each run" in out) == (not revision)


def test_a_cron_that_surprises_is_refused_before_kfp_is_asked(kfp, refused):
    assert "a schedule for each" in refused(f"schedule create {STORED} --cron", "0 3 1 * 1")
    assert not kfp.sent


def test_schedules_are_listed_in_words_switched_off_and_deleted(kfp, call):
    cron = {"cron_schedule": {"cron": "0 30 2 * * *"}}
    kfp.schedules = [{"recurring_run_id": "s1", "display_name": "nightly", "status": "ENABLED", "trigger": cron}]
    assert call("schedule list")[1] == "s1  enabled   nightly  At 02:30 every day\n"
    assert call("schedule disable s1")[0] == 0
    assert kfp.sent[-1][:2] == ("POST", "/apis/v2beta1/recurringruns/s1:disable")
    assert call("schedule delete s1")[0] == 0
    assert kfp.sent[-1][:2] == ("DELETE", "/apis/v2beta1/recurringruns/s1")
    kfp.schedules = []
    assert call("schedule list")[1] == "There are no schedules.\n"


def old_run(state, **parameters):
    return {"run_id": "old", "state": state, "runtime_config": {"parameters": parameters}}


FAILED = {"epochs": 3.0, "lr": 1, "model_name": "s3://bucket/model", "dataset": "s3://bucket/problems", "seed": 7}


def test_a_failed_run_is_continued_with_its_own_parameters(kfp, call):
    kfp.runs["old"] = old_run("FAILED", **FAILED, code_version="then")
    code, out, err = call("run --resume old --train-memory 64Gi")
    assert code == 0, err
    assert "which continues old" in out
    sent = sent_parameters(kfp, "/runs")
    assert sent["resume_run"] == "old"
    assert (sent["epochs"], sent["seed"], sent["train_memory"]) == (3, 7, "64Gi")
    assert isinstance(sent["epochs"], int)
    assert sent["code_version"] not in ("", "then")


COMMITS = {"model_revision": COMMIT, "dataset_revision": COMMIT[::-1]}
ON_HUB = {**FAILED, "model_name": "owner/model", "dataset": "mbpp"}


@pytest.fixture
def newer(tmp_path, monkeypatch):
    """A hub, as far as this machine's cache knows it, where both have moved on since."""
    for name in ("models--owner--model", "datasets--google-research-datasets--mbpp"):
        reference = tmp_path / "hub" / name / "refs/main"
        reference.parent.mkdir(parents=True)
        reference.write_text("f" * 40)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def revisions_sent(kfp):
    sent = sent_parameters(kfp, "/runs")
    return {name: sent[name] for name in COMMITS}


@pytest.mark.parametrize("asked", ["", "main"])
def test_what_was_not_pinned_at_submit_is_what_the_run_had_read(kfp, call, newer, store_root, asked):
    record(open_store(), "first", parameters=COMMITS)
    kfp.runs["old"] = old_run("FAILED", **ON_HUB, resume_run="first", model_revision=asked, dataset_revision="")
    code, _, err = call("run --resume old")
    assert code == 0, err
    assert revisions_sent(kfp) == COMMITS


def test_without_the_store_the_first_step_takes_what_the_run_had_read(kfp, call, newer, monkeypatch):
    monkeypatch.delenv("GRPO_STORE", raising=False)
    kfp.runs["old"] = old_run("FAILED", **ON_HUB, model_revision="", dataset_revision="")
    code, _, err = call("run --resume old")
    assert code == 0, err
    assert revisions_sent(kfp) == {"model_revision": "", "dataset_revision": ""}
    assert "owner/model is pinned by the run's first step, at what run old had read" in err


def test_an_unknown_revision_may_be_given_and_a_known_one_not_be_changed(kfp, call, refused, newer, store_root):
    kfp.runs["old"] = old_run("FAILED", **ON_HUB, model_revision="", dataset_revision="")
    code, _, err = call(f"run --resume old --model-revision {COMMIT} --dataset-revision {COMMIT[::-1]}")
    assert code == 0, err
    assert revisions_sent(kfp) == COMMITS
    record(open_store(), "old", parameters=COMMITS)
    assert "another model_revision: it was" in refused(f"run --resume old --model-revision {'e' * 40}")


@pytest.mark.slow
def test_account_and_root_go_along(kfp, call):
    kfp.runs["old"] = old_run("FAILED", **FAILED)
    kfp.runs["old"]["runtime_config"]["pipeline_root"] = "s3://team/artifacts"
    kfp.runs["old"]["service_account"] = "runner"
    code, _, err = call("run --resume old")
    assert code == 0, err
    body = kfp.bodies("/runs")[-1]
    assert (body["service_account"], body["runtime_config"]["pipeline_root"]) == ("runner", "s3://team/artifacts")
    assert "pipeline root and what is fixed at compile are those of old, but for what is given now." in err
    assert call("run --resume old --service-account other")[0] == 0
    assert kfp.bodies("/runs")[-1]["service_account"] == "other"


def test_what_was_fixed_at_compile_goes_along_but_for_what_is_given(kfp, call):
    assert call(f"run {STORED} --retries 5 --queue gpu --timeout train=48 --pod-label team=nlp")[0] == 0
    kfp.runs["old"] = {**kfp.runs.pop("r1"), "run_id": "old", "state": "FAILED"}
    code, _, err = call("run --resume old --retries 1")
    assert code == 0, err
    assert "--timeout train=48 --queue gpu --pod-label team=nlp" in err
    assert "--retries" not in err
    kept = options_of(kfp.bodies("/runs")[-1]["pipeline_spec"])
    assert (kept["retries"], kept["queue"], kept["timeout"]) == (1, "gpu", ("train=48",))
    assert kept["pod_label"] == ("team=nlp",)


def test_what_continued_a_run_itself_is_continued_under_the_first_ones_id(kfp, call):
    kfp.runs["old"] = old_run("FAILED", **FAILED, resume_run="first")
    assert call("run --resume old")[0] == 0
    assert sent_parameters(kfp, "/runs")["resume_run"] == "first"


@pytest.mark.parametrize(
    ("state", "option", "words"),
    [
        ("RUNNING", "", "is still running"),
        ("SUCCEEDED", "", "has succeeded"),
        ("FAILED", "--seed 8", "cannot be continued with another seed: it was 7"),
        ("FAILED", "--epochs 4", "another epochs: it was 3"),
    ],
)
def test_a_run_that_cannot_be_continued(kfp, refused, state, option, words):
    kfp.runs["old"] = old_run(state, **FAILED)
    assert words in refused(f"run --resume old {option}")
    assert not kfp.bodies("/runs")


def test_a_run_without_an_end_is_continued_once_it_is_archived(kfp, call, refused):
    """As one is whose workflow was deleted: KFP calls it running for ever, or canceling."""
    kfp.runs["old"] = old_run("CANCELING", **FAILED)
    assert "is still canceling" in refused("run --resume old")
    kfp.runs["old"]["storage_state"] = "ARCHIVED"
    assert call("run --resume old")[0] == 0


def test_a_run_that_does_not_exist(kfp, refused):
    assert refused("run --resume nothing") == "Kubeflow Pipelines refuses this: Run not found."
