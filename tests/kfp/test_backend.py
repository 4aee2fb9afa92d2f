"""What a real Kubeflow Pipelines makes of what is sent; needs $KFP_ENDPOINT, and leaves nothing behind there."""

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from cli.endpoint import Endpoint
from cli.main import main
from cli.parameters import merged, pipeline_parameters
from components.shared.errors import UserError
from tests.kfp_at_hand import for_a_single_user

ROOT = Path(__file__).resolve().parent.parent.parent
STORED = (
    "--model-name s3://grpo-code/demo/model --dataset s3://grpo-code/demo/problems "
    "--regression-dataset s3://grpo-code/demo/regression.jsonl --follow-revisions"
)
SELECTOR = {"accelerator": "a100"}
TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
pytestmark = pytest.mark.kfp


@pytest.fixture(scope="module")
def endpoint() -> Endpoint:
    for_a_single_user()
    return Endpoint.of()


@pytest.fixture
def call(capsys, endpoint):
    def run(line, *more):
        with pytest.raises(SystemExit) as ended:
            main([*line.split(), *more])
        shown = capsys.readouterr()
        assert ended.value.code == 0, shown.err
        return shown.out

    return run


@pytest.fixture
def compiled(tmp_path):
    file = tmp_path / "pipeline.yaml"
    with pytest.raises(SystemExit) as ended:
        main(["compile", "-o", str(file)])
    assert ended.value.code == 0
    return file


def test_it_says_its_version(endpoint):
    assert endpoint.health.version


def test_a_version_is_uploaded_once(call):
    first, second = call("upload"), call("upload")
    assert "There already: grpo-code" in second
    assert first.splitlines()[1] == second.splitlines()[1]


def test_a_schedule_is_kept_as_it_was_meant(call, endpoint):
    name = f"test-{uuid.uuid4().hex[:8]}"
    placed = ("--node-selector", json.dumps(SELECTOR), "--tolerations", json.dumps(TOLERATIONS))
    line = f"schedule create --name {name} {STORED} --epochs 1 --lr 0.0015 --use-filter --cron"
    out = call(line, "0 3 1 1 *", *placed)
    schedule = out.split()[2].rstrip(":")
    try:
        kept = endpoint.client.get_recurring_run(schedule)
        assert kept.trigger.cron_schedule.cron == "0 0 3 1 1 *"
        assert (kept.status, kept.no_catchup, int(kept.max_concurrency)) == ("ENABLED", True, 1)
        sent = kept.runtime_config.parameters
        assert (sent["epochs"], sent["lr"], sent["use_filter"], sent["gpus"]) == (1, 0.0015, True, "1")
        assert (sent["node_selector"], sent["tolerations"]) == (SELECTOR, TOLERATIONS)
        assert f"{schedule}  enabled   {name}  At 03:00 on January 1" in call("schedule list")
        call(f"schedule disable {schedule}")
        assert f"{schedule}  disabled  {name}" in call("schedule list")
    finally:
        call(f"schedule delete {schedule}")
    assert schedule not in call("schedule list")


def test_it_refuses_what_has_another_type_and_what_it_does_not_know(endpoint, compiled):
    experiment = endpoint.client.create_experiment("grpo-code").experiment_id
    for wrong in ({"epochs": "two"}, {"no_such_parameter": 1}):
        with pytest.raises(UserError, match="Kubeflow Pipelines refuses this"), endpoint.spoken():
            endpoint.client.run_pipeline(experiment, "test", str(compiled), params={**merged({}), **wrong})


def test_kfps_own_commands_take_the_compiled_file(endpoint, compiled):
    name = f"test-{uuid.uuid4().hex[:8]}"
    kfp = [str(Path(sys.executable).with_name("kfp")), "--endpoint", endpoint.url, "--output", "json"]

    def run(*words):
        done = subprocess.run([*kfp, *words], cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("pipeline", "create", "-p", name, str(compiled))
    client = endpoint.client
    pipeline = client.get_pipeline_id(name)
    version = client.list_pipeline_versions(pipeline).pipeline_versions[0]
    try:
        inputs = version.pipeline_spec["pipeline_spec"]["root"]["inputDefinitions"]["parameters"]
        assert set(inputs) == set(pipeline_parameters())
        run("run", "create", "-e", "grpo-code", "-r", name, "-f", str(compiled), 'gpus="0"', "epochs=1")
        experiment = client.get_experiment(experiment_name="grpo-code").experiment_id
        started = client.list_runs(experiment_id=experiment, sort_by="created_at desc").runs[0]
        client.terminate_run(started.run_id)
        assert started.display_name == name
        assert started.runtime_config.parameters["gpus"] == "0"
        client.delete_run(started.run_id)
    finally:
        client.delete_pipeline_version(pipeline, version.pipeline_version_id)
        client.delete_pipeline(pipeline)


def test_a_run_that_does_not_exist_is_said(endpoint):
    with pytest.raises(UserError, match="refuses this"), endpoint.spoken():
        endpoint.client.get_run(str(uuid.uuid4()))
