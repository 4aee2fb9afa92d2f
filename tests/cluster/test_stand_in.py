"""What the tests on a cluster stand on, tried without one: the compiled file as it is read, pods, and the launcher."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from cli.compiling import Fixed, write_pipeline
from cli.parameters import merged
from components.handed import HANDED
from components.pods import Pods
from tests.buckets import client_of, s3_server
from tests.cluster.compiled import Compiled, Results, Step, StepFailed, holds, read_results
from tests.cluster.ground import moved
from tests.cluster.step_pods import PROGRAM, main_of, make_pod

DATASET = {"schemaTitle": "system.Dataset", "schemaVersion": "0.0.1"}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    file = tmp_path_factory.mktemp("compiled") / "pipeline.yaml"
    write_pipeline(file, Fixed(Pods(), cache_training=False))
    return Compiled(file)


@pytest.fixture(scope="module")
def reusing(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    file = tmp_path_factory.mktemp("compiled") / "pipeline.yaml"
    write_pipeline(file, Fixed(Pods(), cache_training=True))
    return Compiled(file)


def results_of(step: Step, **parameters: str) -> Results:
    """What a step that has succeeded hands on."""
    outputs = step.executor_input(f"s3://bucket/{step.name}")["outputs"]
    named = dict.fromkeys(outputs["parameters"], "")
    return Results({**named, **parameters}, {name: one["artifacts"][0] for name, one in outputs["artifacts"].items()})


def walked(compiled: Compiled, fails: str = "", unchanged_since: str = "", **given: object) -> dict[str, Step]:
    """The steps of a run by name, in order; `fails` is one that does not succeed."""
    seen: dict[str, Step] = {}

    def run(step: Step) -> Results:
        seen[step.name] = step
        if step.name == fails:
            raise StepFailed("no luck")
        made = {f"{name}_settings": f"{name}'s" for name in HANDED}
        more = {"model_revision": "m1", "dataset_revision": "d1", "unchanged_since": unchanged_since, **made}
        return results_of(step, **(more if step.name == "check" else {"Output": "fetched"}))

    if fails:
        with pytest.raises(StepFailed, match="no luck"):
            compiled.walk(given, "run-1", run)
    else:
        compiled.walk(given, "run-1", run)
    return seen


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ({}, ["check", "fetch-model", "prepare", "train", "evaluate", "finish"]),
        ({"use_filter": True}, ["check", "fetch-model", "prepare", "filter-learnable", "train", "evaluate", "finish"]),
        ({"publish_as": "x"}, ["check", "fetch-model", "prepare", "train", "evaluate", "publish", "finish"]),
        ({"unchanged_since": "old"}, ["check", "fetch-model", "prepare", "unchanged", "finish"]),
        ({"fails": "train"}, ["check", "fetch-model", "prepare", "train", "finish"]),
    ],
)
def test_the_steps_that_a_run_takes(compiled: Compiled, given: dict, steps: list[str]) -> None:
    assert list(walked(compiled, **given)) == steps


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ({}, ["train", "evaluate", "reused", "finish"]),
        ({"publish_as": "x"}, ["train", "evaluate", "publish", "finish"]),
        ({"unchanged_since": "old"}, ["unchanged", "finish"]),
        ({"fails": "evaluate"}, ["train", "evaluate", "finish"]),
    ],
)
def test_where_training_may_be_reused_the_last_step_before_the_end_is_one_that_runs(
    reusing: Compiled, given: dict, steps: list[str]
) -> None:
    assert list(walked(reusing, **given))[3:] == steps


def test_a_step_gets_what_those_before_it_hand_on(compiled: Compiled) -> None:
    seen = walked(compiled, use_filter=True, lr=0.5)
    train = seen["train"].executor_input("s3://bucket/x")
    values = train["inputs"]["parameterValues"]
    assert (values["run_id"], values["settings"], values["model_revision"]) == ("run-1", "train's", "fetched")
    assert seen["filter-learnable"].parameters["settings"] == "filter's"
    asked = seen["check"].parameters
    assert asked["lr"] == 0.5
    assert json.dumps(asked["epochs"]) == str(merged({})["epochs"])  # 2, where the file has 2.0
    assert train["inputs"]["artifacts"]["problems"]["artifacts"] == [
        {"name": "problems", "type": DATASET, "uri": "s3://bucket/filter-learnable/problems", "metadata": {}}
    ]
    assert train["outputs"]["artifacts"]["model"]["artifacts"][0]["uri"] == "s3://bucket/x/model"
    assert seen["prepare"].parameters["dataset_revision"] == "d1"
    assert seen["finish"].parameters["status"]["state"] == "SUCCEEDED"
    assert walked(compiled, fails="train")["finish"].parameters["status"]["error"]["message"] == "no luck"


def test_a_condition_of_words_that_are_not_known_is_refused() -> None:
    assert holds(
        "inputs.parameter_values['a'] != '' && !(inputs.parameter_values['b'] == true)", {"a": "x", "b": False}
    )
    with pytest.raises(NameError):
        holds("size(inputs.parameter_values['a']) == 0", {"a": ""})


def test_a_pod_has_what_the_file_says(compiled: Compiled) -> None:
    step = walked(compiled, gpus="2", train_memory="3Gi", node_selector={"accelerator": "a100"})["train"]
    pod = make_pod(step, "train", "run-1", "s3://bucket/x")
    spec, main = pod["spec"], main_of(pod)
    assert main["resources"]["limits"] == {"memory": "3Gi", "nvidia.com/gpu": "2"}
    assert main["args"] == [*step.container["command"], *step.container["args"]]
    assert spec["nodeSelector"] == {"accelerator": "a100"}
    unknown = {**step.kubernetes, "imagePullSecret": []}
    with pytest.raises(AssertionError, match="imagePullSecret"):
        make_pod(Step(**{**vars(step), "kubernetes": unknown}), "train", "run-1", "s3://bucket/x")


def test_namespaces_are_moved_and_other_names_are_not() -> None:
    thing = yaml.safe_load(
        "{metadata: {name: a, namespace: a}, spec: {from: [{matchLabels: {kubernetes.io/metadata.name: a, app: a}}]}}"
    )
    labels = {"kubernetes.io/metadata.name": "b", "app": "a"}
    assert moved(thing, {"a": "b"}) == {
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"from": [{"matchLabels": labels}]},
    }


STEP = """
import json, pathlib, sys
given = json.loads(sys.argv[1])
root = pathlib.Path(sys.argv[2])
read = (root / "bucket/in/problems/rows.jsonl").read_text()
target = root / given["outputs"]["artifacts"]["model"]["artifacts"][0]["uri"].removeprefix("s3://")
target.mkdir(parents=True)
(target / "weights").write_text(read.upper())
for link, where in json.loads(sys.argv[4]).items():
    (target / link).symlink_to(where)
told = {"parameterValues": {"n": 3}, "artifacts": {"model": {"artifacts": [{"metadata": {"loss": 0.5}}]}}}
pathlib.Path(given["outputs"]["outputFile"]).write_text(json.dumps(told))
sys.exit(int(sys.argv[3]))
"""


def launched(folder: Path, settings: dict[str, str], *command: str, at_work: Path | None = None) -> subprocess.Popen:
    """The launcher in a process group of its own, as in a container."""
    problems = {"name": "problems", "uri": "s3://bucket/in/problems"}
    model = {"name": "model", "uri": "s3://bucket/out/model", "metadata": {}}
    given = {
        "inputs": {"parameterValues": {"n": "0"}, "artifacts": {"problems": {"artifacts": [problems]}}},
        "outputs": {
            "parameters": {},
            "artifacts": {"model": {"artifacts": [model]}},
            "outputFile": str(folder / "told/output.json"),
        },
    }
    options = ["--executor_input", json.dumps(given), "--results", "s3://bucket/out/results.json"]
    options += ["--at-work", str(at_work)] if at_work else []
    environment = {**os.environ, **settings, "STAND_IN_LOCAL": str(folder)}
    line = [sys.executable, str(PROGRAM), *options, "--", *command]
    return subprocess.Popen(line, env=environment, text=True, stderr=subprocess.PIPE, start_new_session=True)


@dataclass(frozen=True)
class Work:
    """What a step does, and what its launcher has to say and has sent after that. links: in the model's folder."""

    code: str = "{{$.inputs.parameters['n']}}"
    links: dict[str, str] = field(default_factory=dict)
    sent: tuple[str, ...] = ("model/weights", "results.json")
    error: str = ""


WORKS = {
    "succeeds": Work(),
    "fails": Work(code="1", sent=(), error="exit status 1"),
    "leaves a link to a file": Work(links={"again": "weights"}, sent=("model/again", "model/weights", "results.json")),
    "leaves a link to a folder": Work(links={"within": "."}, sent=("model/weights",), error="Is a directory"),
    "leaves a link to nothing": Work(links={"lost": "gone"}, sent=(), error="No such file"),
}


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_the_launcher_moves_artifacts(tmp_path: Path, work: Work) -> None:
    with s3_server() as settings:
        store = client_of(settings)
        store.make_bucket("bucket")
        (tmp_path / "rows").write_text("row")
        store.fput_object("bucket", "in/problems/rows.jsonl", str(tmp_path / "rows"))
        words = ("{{$}}", str(tmp_path), work.code, json.dumps(work.links))
        process = launched(tmp_path, settings, sys.executable, "-c", STEP, *words)
        _, said = process.communicate(timeout=60)
        keys = [each.object_name for each in store.list_objects("bucket", prefix="out/", recursive=True)]
        assert sorted(keys) == [f"out/{name}" for name in work.sent]
        assert process.returncode == (1 if work.error else 0), said
        assert work.error in said
        if work.error:
            return
        assert {store.get_object("bucket", key).read() for key in keys if "model" in key} == {b"ROW"}
        results = read_results(store.get_object("bucket", "out/results.json").read().decode())
        assert results.parameters == {"n": 3}
        assert results.artifacts["model"]["metadata"] == {"loss": 0.5}


def test_a_launcher_that_is_stopped_leaves_the_step_no_time(tmp_path: Path) -> None:
    """As was seen on a real one: SIGTERM reaches the step, and the container is gone a tenth of a second later."""
    with s3_server() as settings:
        client_of(settings).make_bucket("bucket")
        with at_a_long_step(tmp_path, settings) as process:
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 143
            assert (tmp_path / "seen").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_container_beside_a_step_ends_after_it(tmp_path: Path, number: int) -> None:
    """And not before, whatever its end is."""
    fifo = tmp_path / "main"
    os.mkfifo(fifo)
    with s3_server() as settings, subprocess.Popen(["cat", fifo]) as beside:
        client_of(settings).make_bucket("bucket")
        with at_a_long_step(tmp_path, settings, at_work=fifo) as process:
            assert beside.poll() is None
            process.send_signal(number)
            assert beside.wait(10) == 0


@contextmanager
def at_a_long_step(folder: Path, settings: dict[str, str], **more: Path) -> Iterator[subprocess.Popen]:
    """A launcher whose step is at work; all of it is killed at the end of the block."""
    program = (
        "import pathlib, signal, sys, time\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "signal.signal(signal.SIGTERM, lambda *_: (folder / 'seen').touch())\n"
        "(folder / 'ready').touch()\n"
        "while True: time.sleep(60)\n"
    )
    process = launched(folder, settings, sys.executable, "-c", program, str(folder), **more)
    try:
        while not (folder / "ready").exists():
            assert process.poll() is None
            time.sleep(0.02)
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
