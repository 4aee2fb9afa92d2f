"""`logs`: from the pods as the API server shows them, and from KFP's bucket where they are gone."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from cli.cluster import Cluster
from cli.endpoint import Endpoint
from cli.main import main
from cli.pods import archive_of, archived_logs, logs, newest_line
from cli.uploading import PIPELINE
from components.shared.store import open_store
from tests.buckets import own_bucket
from tests.cli.small_kfp import small_kfp

RUN = "r1"


def pod(name, step, created, restarts=0):
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": created,
            "labels": {"pipeline/runid": RUN, "app.kubernetes.io/component": step},
        },
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": restarts}]},
    }


PODS = [pod("p-train-2", "train", "2026-01-02", restarts=1), pod("p-prepare", "prepare", "2026-01-01")]
LOGS = {
    ("p-prepare", False): "prepare: 9 problems\n",
    ("p-train-2", True): "train: lost\n",
    ("p-train-2", False): "train: step 1\nnoise\ntrain: step 2\nnoise\n",
}


@pytest.fixture
def cluster(configured):
    """An API server with the pods of one run; selects by label as a real one does for `a=b,c`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            name = parts.path.split("/")[-2]
            if parts.path.endswith("/log"):
                assert query["container"] == ["main"]
                text = LOGS.get((name, "previous" in query))
            else:
                wanted = [one.partition("=") for one in query["labelSelector"][0].split(",")]
                found = [
                    one
                    for one in PODS
                    if all(one["metadata"]["labels"].get(key, "") == value or not is_ for key, is_, value in wanted)
                ]
                text = json.dumps({"items": found})
            self.send_response(200 if text is not None else 404)
            body = (text or "{}").encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        configured(f"http://127.0.0.1:{server.server_port}")
        yield Cluster.connect(namespace="mine")
        server.shutdown()


def call(*words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


def test_the_pods_logs_come_in_their_order_with_what_was_before_a_restart(cluster):
    assert list(logs(cluster, RUN, None)) == [
        ("prepare (p-prepare, running)", "prepare: 9 problems\n"),
        ("train (p-train-2, running), before its restart", "train: lost\n"),
        ("train (p-train-2, running)", LOGS["p-train-2", False]),
    ]
    assert [heading for heading, _ in logs(cluster, RUN, "prepare")] == ["prepare (p-prepare, running)"]
    assert list(logs(cluster, "other", None)) == []


def test_the_newest_line_is_the_steps_own(cluster):
    assert newest_line(cluster, RUN, "train") == "step 2"
    assert newest_line(cluster, RUN, "evaluate") == ""


def test_the_verb_prints_the_pods_logs(cluster, capsys):
    assert call("logs", RUN, "train", "--namespace", "mine") == 0
    shown = capsys.readouterr().out
    assert "==> train (p-train-2, running)\ntrain: step 1\n" in shown
    assert "prepare" not in shown


@pytest.fixture
def archive(monkeypatch, tmp_path):
    """KFP's bucket with two logs of the run and what is none; no cluster to be asked."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with own_bucket(monkeypatch), small_kfp() as kfp:
        folder = f"artifacts/{PIPELINE}/{RUN}"
        for key in ("filter-learnable/1/executor-logs", "train/2/executor-logs-0", "train/2/model"):
            open_store().write(f"{folder}/{key}", f"from {key}\n".encode())
        open_store().write(f"artifacts/{PIPELINE}/other/train/2/executor-logs", b"another run's\n")
        kfp.runs[RUN] = {"run_id": RUN, "runtime_config": {"pipeline_root": "minio://bucket/artifacts"}}
        monkeypatch.setenv("KFP_ENDPOINT", kfp.url)
        yield kfp


def test_the_archive_holds_a_runs_logs_by_step(archive):
    found = list(archived_logs("s3://bucket/artifacts/", PIPELINE, RUN, None))
    assert [heading.split()[0] for heading, _ in found] == ["filter", "train"]
    assert [text for _, text in archived_logs("s3://bucket/artifacts", PIPELINE, RUN, "train")] == [
        "from train/2/executor-logs-0\n"
    ]


def test_the_verb_finds_in_the_bucket_what_no_pod_has(archive, capsys):
    assert call("logs", RUN, "filter") == 0
    shown = capsys.readouterr()
    assert "==> filter (from s3://bucket/artifacts/" in shown.out
    assert "from filter-learnable/1/executor-logs" in shown.out
    assert "The pods cannot be asked" in shown.err
    assert call("logs", RUN, "evaluate") == 2
    assert f"There are no logs of run {RUN}, step evaluate, here" in capsys.readouterr().err
    assert call("logs", RUN, "tarin") == 2
    assert "There is no step 'tarin'" in capsys.readouterr().err


class Launcher:
    """A cluster with KFP's settings in namespace team alone."""

    def get(self, kind, name, namespace):
        assert (kind, name) == ("configmaps", "kfp-launcher")
        return {"data": {"defaultPipelineRoot": "minio://theirs/root"}} if namespace == "team" else None


@pytest.mark.parametrize(
    ("several", "profile", "at_hand", "root"),
    [
        (False, "", None, "s3://mlpipeline/v2/artifacts"),
        (False, "", Launcher(), "s3://mlpipeline/v2/artifacts"),
        (True, "other", None, "s3://mlpipeline/private-artifacts/other/v2/artifacts"),
        (True, "other", Launcher(), "s3://mlpipeline/private-artifacts/other/v2/artifacts"),
        (True, "team", Launcher(), "minio://theirs/root"),
    ],
)
def test_where_a_run_has_its_logs_that_names_no_root(kfp, several, profile, at_hand, root):
    kfp.health["multi_user"] = several
    kfp.namespaces["e1"] = profile
    kfp.runs[RUN] = {"run_id": RUN, "experiment_id": "e1", "runtime_config": {"parameters": {}}}
    assert archive_of(Endpoint.of(namespace="mine"), RUN, at_hand) == (root, PIPELINE)
    spec = {"pipelineInfo": {"name": "evaluate-only"}}
    kfp.runs[RUN] |= {"pipeline_spec": {"pipeline_spec": spec}, "runtime_config": {"pipeline_root": "s3://own"}}
    assert archive_of(Endpoint.of(namespace="mine"), RUN, at_hand) == ("s3://own", "evaluate-only")
