"""A real S3 server that is gone for a minute in mid-run: the run goes on, and everything arrives afterwards."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
import urllib3
from minio import Minio
from moto.server import ThreadedMotoServer

from components.shared.store import open_store
from components.train.rewards import TestReward

SECONDS = 60.0


def serve(port: int) -> ThreadedMotoServer:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    return server


@pytest.mark.slow
def test_a_minute_without_the_store(
    train: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = [serve(0)]
    host, port = servers[0].get_host_and_port()
    urllib3.PoolManager().request("POST", f"http://{host}:{port}/moto-api/reset")  # its memory is the process's
    settings = {"S3_ENDPOINT": f"{host}:{port}", "S3_ACCESS_KEY": "key", "S3_SECRET_KEY": "secret"}
    for name, value in {**settings, "S3_SECURE": "false", "GRPO_STORE": "s3://bucket"}.items():
        monkeypatch.setenv(name, value)
    Minio(f"{host}:{port}", access_key="key", secret_key="secret", secure=False).make_bucket("bucket")
    judge, steps_while_away = TestReward.__call__, []
    back = threading.Timer(SECONDS, lambda: servers.append(serve(port)))

    def unplug(reward: TestReward, *given: Any, **named: Any) -> Any:
        if named["trainer_state"].global_step == 3:
            servers[0].stop()
            back.start()
        if len(servers) == 1 and back.is_alive():
            steps_while_away.append(named["trainer_state"].global_step)
        return judge(reward, *given, **named)

    monkeypatch.setattr(TestReward, "__call__", unplug)
    try:
        scalars, _ = train(epochs=2, save_steps=2)
        assert scalars["steps"] == 12
        assert steps_while_away[:5] == [3, 4, 5, 6, 7]
        told = capsys.readouterr().out
        assert "Training goes on, and what it leaves is sent when the store answers." in told
        assert "everything has arrived, the checkpoint of step 12 included" in told
        store = open_store()
        rows = [json.loads(line) for line in store.read("runs/run/train/metrics.jsonl").splitlines()]
        assert [row["step"] for row in rows] == list(range(1, 13))
        assert store.exists("checkpoints/run/12/manifest.json")
        assert store.exists("runs/run/train/adapter/adapter_model.safetensors")
    finally:
        back.cancel()
        servers[-1].stop()
