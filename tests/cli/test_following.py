"""Watching a run: the recorded answer of a real Kubeflow Pipelines becomes the steps that a person knows."""

import json
from pathlib import Path

import pytest
from kfp_server_api import ApiClient

from cli import following
from cli.main import main
from tests.cli.small_kfp import small_kfp

RECORDED = json.loads((Path(__file__).parent / "data/failed_run.json").read_text())


def as_client_gives_it(run):
    class Answer:
        data = json.dumps(run)

    return ApiClient().deserialize(Answer, "V2beta1Run")


def events_of(run, told):
    return [(event["step"], event["state"]) for event in following.new_events(as_client_gives_it(run), told)]


def test_a_recorded_run_is_told_step_by_step_and_once():
    told = {}
    assert events_of(RECORDED, told) == [
        *[("check", state) for state in ("running", "done")],
        *[("fetch_model", state) for state in ("running", "done")],
        *[("prepare", state) for state in ("running", "done")],
        *[("train", state) for state in ("running", "failed")],
        *[("finish", state) for state in ("running", "done")],
    ]
    assert events_of(RECORDED, told) == []


def test_a_step_that_works_is_told_before_it_ends():
    tasks = RECORDED["run_details"]["task_details"]
    working = [{**task, "state": "RUNNING"} if task.get("display_name") == "train" else task for task in tasks]
    told = {}
    assert ("train", "running") in events_of({**RECORDED, "run_details": {"task_details": working}}, told)
    assert told["train"] == "running"
    assert events_of(RECORDED, told) == [("train", "failed")]


@pytest.mark.parametrize(
    ("task", "step"),
    [
        ("train", "train"),
        ("train-2", "train"),
        ("filter-learnable", "filter"),
        ("fetch-model", "fetch_model"),
        ("train-driver", None),
        ("condition-branches-2", None),
        ("executor", None),
    ],
)
def test_only_what_does_a_steps_work_is_a_step(task, step):
    assert following.step_of(task) == step


def test_the_end_of_a_run_says_what_to_do_next(capsys, monkeypatch):
    for name in ("S3_ENDPOINT", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    with small_kfp() as kfp:
        kfp.runs["r1"] = {**RECORDED, "run_id": "r1", "error": {"message": "step failed"}}
        kfp.runs["r2"] = {**RECORDED, "run_id": "r2", "state": "SUCCEEDED"}
        kfp.runs["r3"] = {**kfp.runs["r2"], "run_id": "r3", "runtime_config": {"parameters": {"resume_run": "r1"}}}
        for run, code in (("r1", 1), ("r2", 0), ("r3", 0)):
            with pytest.raises(SystemExit) as ended:
                main(["watch", run, "--endpoint", kfp.url])
            assert ended.value.code == code
    shown = capsys.readouterr().out
    assert "The run failed: step failed" in shown
    assert "python pipeline.py run --resume r1" in shown
    assert "doctor --run r1" in shown
    assert "The run succeeded. See its report: python pipeline.py report r2" in shown
    assert "The run succeeded. See its report: python pipeline.py report r1" in shown


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        ("SUCCEEDED", 0, "The run succeeded"),
        pytest.param("FAILED", 1, "run failed", marks=pytest.mark.slow),  # it compiles the pipeline as well
    ],
)
def test_a_run_is_followed_from_its_start_to_its_end(capsys, monkeypatch, end, code, words):
    for name in ("S3_ENDPOINT", "GRPO_STORE", "REGISTRY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    monkeypatch.setattr(following, "SECONDS", 0.05)
    with small_kfp() as kfp:
        kfp.states = ["PENDING", "RUNNING", end]
        line = f"run --follow --model-name s3://b/model --dataset s3://b/rows --endpoint {kfp.url}"
        with pytest.raises(SystemExit) as ended:
            main(line.split())
        asked = [path for method, path, _ in kfp.sent if method == "GET" and path.endswith("/runs/r1")]
    assert ended.value.code == code
    assert len(asked) == 3
    shown = capsys.readouterr().out
    assert "Started run r1" in shown
    assert words in shown


def test_a_token_that_expires_ends_the_watching_and_not_the_run(capsys, monkeypatch):
    monkeypatch.setattr(following, "SECONDS", 0.05)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    with small_kfp() as kfp:
        kfp.runs["r1"] = {"run_id": "r1", "state": "RUNNING"}
        asked = kfp.answer

        def answer(method, path, *more):
            if sum(sent.endswith("/runs/r1") for _, sent, _ in kfp.sent) > 2:
                kfp.refuse = (401, "Jwt is expired")
            return asked(method, path, *more)

        kfp.answer = answer
        with pytest.raises(SystemExit) as ended:
            main(["watch", "r1", "--endpoint", kfp.url, "--token", "t"])
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert "Stopped watching; the run goes on: python pipeline.py watch r1" in shown.out + shown.err
    assert "does not accept this token (HTTP 401; it said: Jwt is expired): set KFP_TOKEN to a fresh" in shown.err
