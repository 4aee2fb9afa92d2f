"""What a probe pod runs, run here as the pod would: as text, on its own, against real servers."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from minio import Minio

from cli.doctor.pods import PROGRAM, parse
from tests.buckets import client_of, s3_server
from tests.conftest import ROOT


def inside(*orders: tuple[str, dict], timeout: float = 60, **environment: str) -> dict:
    """What the probe finds; the program knows nothing but Python and, for the store, the steps' modules."""
    command = [sys.executable, "-c", PROGRAM.read_text(), json.dumps(orders)]
    known = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, env=known, capture_output=True, text=True, timeout=timeout, cwd="/")
    assert done.returncode == 0, done.stderr
    found, rest = parse(done.stdout)
    assert rest == []
    return found


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def bucket() -> dict[str, str]:
    with s3_server() as settings:
        client_of(settings).make_bucket("bucket")
        yield {**settings, "GRPO_STORE": "s3://bucket/prefix"}


def keys(bucket: dict[str, str]) -> list[str]:
    return [item.object_name for item in client_of(bucket).list_objects("bucket", recursive=True)]


def test_ways_that_are_open_and_closed(listener, free_port):
    targets = {"open": ["127.0.0.1", listener], "closed": ["127.0.0.1", free_port]}
    found = inside(("reach", {"targets": targets, "wanted": False, "seconds": 1.0}))["reach"]
    assert found["open"] == "open"
    assert found["closed"].startswith("ConnectionRefusedError")


def test_a_way_that_closes_late_counts_as_closed_and_one_that_opens_late_as_open(free_port):
    """As policies do, which take hold of a pod a moment after it has started."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        order = [("reach", {"targets": {"x": ["127.0.0.1", port]}, "wanted": False, "seconds": 20.0})]
        command = [sys.executable, "-c", PROGRAM.read_text(), json.dumps(order)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        server.accept()
    assert "ConnectionRefused" in process.communicate(timeout=30)[0]
    order = [("reach", {"targets": {"x": ["127.0.0.1", free_port]}, "wanted": True, "seconds": 20.0})]
    command = [sys.executable, "-c", PROGRAM.read_text(), json.dumps(order)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    time.sleep(0.7)
    with socket.create_server(("127.0.0.1", free_port)):
        assert json.loads(process.communicate(timeout=30)[0])["found"] == {"x": "open"}


def test_the_sandbox(sandbox_url, free_port):
    closed = f"http://127.0.0.1:{free_port}"
    unknown = "http://no-such-name.invalid:8080"
    order = ("sandbox", {"urls": [sandbox_url, closed, unknown], "known": [], "seconds": 1.0})
    nameless, replica, refused = inside(order)["sandbox"]
    assert replica["reached"] == "open"
    assert replica["ready"]["status"] == 200
    assert len(replica["ready"]["body"]["layers"]) > 20
    assert replica["verdict"]["body"]["verdicts"][0]["outcome"] == "passed"
    assert refused["reached"].startswith("ConnectionRefusedError")
    assert nameless["reached"].startswith("its name is unknown")


def test_the_store_is_left_as_it_was(bucket):
    found = inside(("store", {"key": "runs/doctor/x", "seconds": 5.0}), **bucket)["store"]
    assert found == {"root": "s3://bucket/prefix", "endpoint": bucket["S3_ENDPOINT"], "error": ""}
    assert keys(bucket) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"GRPO_STORE": "s3://no-such-bucket"}, "NoSuchBucket"),
        ({"S3_ACCESS_KEY": ""}, "needs S3_ACCESS_KEY in the environment"),
        ({"GRPO_STORE": "s3://Not_A_Bucket"}, "Not_A_Bucket"),
        ({"S3_ENDPOINT": "127.0.0.1:9"}, "it cannot be reached: ConnectionRefusedError"),
        ({"S3_ENDPOINT": "https://no-such-name.invalid", "S3_SECURE": "true"}, "it cannot be reached: gaierror"),
    ],
)
def test_a_store_that_cannot_be_used(bucket, changes, words):
    assert words in inside(("store", {"key": "x", "seconds": 0.5}), **{**bucket, **changes})["store"]["error"]


def test_a_model_in_the_store(bucket, tmp_path):
    file = tmp_path / "config.json"
    file.write_text("{}")
    client = Minio(bucket["S3_ENDPOINT"], access_key="key", secret_key="secret", secure=False)
    client.fput_object("bucket", "models/a/config.json", str(file))
    try:
        assert inside(("model", {"address": "s3://bucket/models/a/"}), **bucket)["model"]["error"] == ""
        assert "no config.json" in inside(("model", {"address": "s3://bucket/models/b"}), **bucket)["model"]["error"]
    finally:
        client.remove_object("bucket", "models/a/config.json")


def test_the_hub(sandbox_url, free_port):
    """Whatever it answers, it is there: some answer a visitor without a name with 404."""
    answering = inside(("hub", {"url": f"{sandbox_url}/no-such-page", "seconds": 1.0}))["hub"]
    assert answering == {"url": f"{sandbox_url}/no-such-page", "error": ""}
    assert inside(("hub", {"url": "http://x.invalid", "seconds": 1.0}), HF_ENDPOINT=sandbox_url)["hub"]["error"] == ""
    closed = inside(("hub", {"url": f"http://127.0.0.1:{free_port}", "seconds": 0.5}))["hub"]
    assert closed["error"].startswith("it cannot be reached: ConnectionRefusedError")
    nameless = inside(("hub", {"url": "https://no-such-name.invalid", "seconds": 0.5}))["hub"]
    assert nameless["error"].startswith("its name is unknown")


def test_a_hub_that_takes_the_connection_and_says_nothing_of_http():
    with socket.create_server(("127.0.0.1", 0)) as server:
        order = [("hub", {"url": f"http://127.0.0.1:{server.getsockname()[1]}", "seconds": 5.0})]
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.read_text(), json.dumps(order)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2):  # the try of the port, and the request
            server.accept()[0].close()
        assert json.loads(process.communicate(timeout=30)[0])["found"]["error"].startswith("it does not answer")


def test_a_probe_that_is_ended_removes_its_object(tmp_path):
    """The pod gets SIGTERM while it reads back what it wrote, for which it is given a minute."""
    store = tmp_path / "store"
    slow = "import components.shared.store as s, time\ns.DirectoryStore.read = lambda *_: time.sleep(60)\n"
    slow += PROGRAM.read_text()
    command = [sys.executable, "-c", slow, json.dumps([("store", {"key": "x", "seconds": 0.5})])]
    process = subprocess.Popen(command, env={**os.environ, "GRPO_STORE": str(store), "PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + 30
    while not (store / "x").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 143
    assert not Path(store / "x").exists()
