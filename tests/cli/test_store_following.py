"""Watching a run by its store alone, in a directory and in a bucket, to each of its ends."""

import json
import threading
import time

import pytest
import urllib3

from cli import store_following
from cli.main import main
from cli.serving import serving
from components.shared.store import open_store
from tests.buckets import own_bucket
from tests.train.test_report import row

RUN = "runs/r1"
ATTEMPT = {"micro_batch_size": 8, "rows": 8, "steps": 4, "started": "2026-11-30T01:00:00Z", "ended": ""}
SUCCEEDED = {
    "outcome": "succeeded", "failed_step": None, "message": "", "resume": "", "ended": "2026-11-30T01:05:00Z",
}  # fmt: skip
FAILED = {
    **SUCCEEDED, "outcome": "failed", "failed_step": "train", "message": "The sandbox is away.",
    "resume": "make run ARGS='--run-id r1'",
}  # fmt: skip


@pytest.fixture(params=["directory", "bucket"])
def store(request, tmp_path, monkeypatch):
    for name in ("KFP_ENDPOINT", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(store_following, "SECONDS", 0.05)
    if request.param == "directory":
        monkeypatch.setenv("GRPO_STORE", str(tmp_path / "store"))
        yield open_store()
        return
    with own_bucket(monkeypatch) as address:
        yield open_store(address)


def put(store, name, *facts):
    text = "".join(json.dumps(fact) + "\n" for fact in facts)
    store.write(f"{RUN}/{name}", text.encode())


def watched(run="r1"):
    with pytest.raises(SystemExit) as ended:
        main(["watch", run])
    return ended.value.code


def test_a_run_is_followed_to_its_end(store, capsys):
    put(store, "prepare/problems.jsonl", {})
    put(store, "train/attempt.json", ATTEMPT)

    def go_on():
        for step in (1, 3, 4):
            put(store, "train/metrics.jsonl", *[row(one) for one in range(1, step + 1)])
            time.sleep(0.3)
        put(store, "train/model.json", {})
        put(store, "train/attempt.json", {**ATTEMPT, "ended": "finished"})
        time.sleep(0.3)
        put(store, "evaluate/evaluation.json", {})
        put(store, "status.json", SUCCEEDED)

    at_work = threading.Thread(target=go_on)
    at_work.start()
    assert watched() == 0
    at_work.join()
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if line.startswith("train: started")]
    assert "train: training 4/4 steps, reward 0.50, mixed groups 50%, truncated 0%" in told
    assert told.index("train: done") < told.index("evaluate: done") < told.index("The run succeeded.")
    assert "python pipeline.py report r1" in told


def test_damaged_lines_of_the_metrics_are_passed_over(store):
    put(store, "train/attempt.json", ATTEMPT)
    lines = [json.dumps(row(1)).encode(), b"[]", b"\xff{", json.dumps(row(3)).encode(), b'{"step": 4, "rew']
    store.write(f"{RUN}/train/metrics.jsonl", b"\n".join(lines))
    seen = store_following.Seen(store, "r1")
    assert [event["done"] for event in seen.look() if "done" in event] == [3]
    assert [one["step"] for one in seen.rows] == [1, 3]


def test_a_failure_is_its_sentence_and_how_to_go_on(store, capsys):
    put(store, "train/attempt.json", {**ATTEMPT, "ended": "failed"})
    put(store, "train/metrics.jsonl", row(1))
    put(store, "status.json", FAILED)
    assert watched() == 1
    told = capsys.readouterr().out
    assert "The run failed: train: The sandbox is away." in told
    assert "go on with: make run ARGS='--run-id r1'" in told


def test_the_end_of_an_attempt_before_is_no_end(store, capsys):
    put(store, "status.json", FAILED)
    put(store, "train/attempt.json", {**ATTEMPT, "started": "2026-11-30T02:00:00Z"})
    later = threading.Timer(0.4, lambda: put(store, "status.json", {**SUCCEEDED, "ended": "2026-11-30T02:10:00Z"}))
    later.start()
    assert watched() == 0
    later.join()
    assert "The run succeeded." in capsys.readouterr().out


def test_a_run_that_writes_nothing_any_more_is_not_said_to_go_on(store, capsys, monkeypatch):
    monkeypatch.setattr(store_following, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(store_following, "SILENT_STEPS", 0)
    put(store, "train/attempt.json", ATTEMPT)
    threading.Timer(0.6, lambda: put(store, "status.json", FAILED)).start()
    assert watched() == 1
    assert capsys.readouterr().out.count("Nothing has been written for") == 1


def test_an_unknown_run_is_one_sentence(store, capsys):
    assert watched("r9") == 2
    assert "The store holds nothing of run r9" in capsys.readouterr().err


def test_report_serves_the_pages_of_either_store(store):
    store.write(f"{RUN}/train/report.html", b"<p>training</p>")
    with serving(store, "r1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        answer = urllib3.request("GET", f"http://127.0.0.1:{server.server_port}/train/report.html", retries=False)
        server.shutdown()
        thread.join()
    assert answer.data == b"<p>training</p>"
