"""Runs of the pipeline on a real Kubeflow Pipelines: caches, schedules, publishing, and what befalls a train pod.

The tests build on each other's runs and go in this order. Of the same parameters and seed, every run that trains ends
with the same rewards and losses, whatever happened to its pods.
"""

import json
from collections.abc import Iterator

import pytest

from cli.uploading import DEMO_PODS
from tests.cluster.cluster import Cluster, eventually
from tests.cluster.conftest import Images
from tests.cluster.kfp_place import SHORT, Place, as_options, place_of_its_own
from tests.cluster.kfp_runs import SPACE
from tests.cluster.record import evict
from tests.kfp_at_hand import for_a_single_user

pytestmark = [pytest.mark.kfp, pytest.mark.cluster, pytest.mark.timeout(1800)]
MODEL = "kfp-test"  # published in a store of the tests' own
FILTERED = {"use_filter": True, "publish_as": MODEL, "on_unchanged": "skip"}
MINUTES = "* * * * *"
KILL = """
import os, pathlib, signal
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    words = (folder / "cmdline").read_bytes().split(bytes(1))
    if b"python" in words[0] and int(folder.name) != os.getpid():
        os.kill(int(folder.name), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def place(cluster: Cluster, images: Images, sandbox: str) -> Iterator[Place]:
    for_a_single_user()
    with place_of_its_own(cluster, images) as found:
        yield found


@pytest.fixture(scope="module")
def filtered(place: Place) -> str:
    """A run with the filter that publishes what it trained."""
    run = place.run(**FILTERED)
    assert place.ended(run) == "SUCCEEDED", place.why(run)
    return run


@pytest.fixture(scope="module")
def undisturbed(place: Place) -> str:
    """A run without the filter, to compare others with."""
    run = place.run()
    assert place.ended(run) == "SUCCEEDED", place.why(run)
    assert place.outcome(run) == "succeeded"
    return run


def test_a_run_with_the_filter(place: Place, filtered: str) -> None:
    steps = ("check", "prepare", "filter", "train", "evaluate", "publish", "unchanged", "finish")
    assert [step for step in steps if not place.had_pods(filtered, step)] == ["unchanged"]
    assert place.outcome(filtered) == "succeeded"
    evaluation = json.loads(place.store.read(f"runs/{filtered}/evaluate/evaluation.json"))
    assert evaluation["within_noise"] is False
    assert place.store.exists(f"runs/{filtered}/status.html")
    assert place.verb("models", "list").count(filtered[:8]) >= 1
    assert "train: done" in place.verb("logs", filtered, "train")
    assert "The run succeeded" in place.verb("watch", filtered)


def test_a_second_run_takes_prepare_and_filter_from_the_cache(place: Place, filtered: str) -> None:
    run = place.run(**{**FILTERED, "on_unchanged": "retrain", "epochs": 2})
    place.until(run, "train", "RUNNING", "SUCCEEDED")
    assert [place.had_pods(run, step) for step in ("check", "prepare", "filter")] == [True, False, False]
    place.forget(run)


def test_a_changed_revision_does_not(place: Place, filtered: str) -> None:
    """One training problem less: the same address with other content is another revision."""
    key = "demo/problems/train.jsonl"
    whole = place.store.read(key)
    place.store.write(key, b"".join(whole.splitlines(keepends=True)[:-1]))
    try:
        run = place.run(**FILTERED)
        place.until(run, "prepare", "SUCCEEDED")
        assert place.had_pods(run, "prepare")
        place.forget(run)
    finally:
        place.store.write(key, whole)


def test_an_unchanged_run_ends_early(place: Place, filtered: str) -> None:
    run = place.run(**FILTERED)
    assert place.ended(run) == "SUCCEEDED", place.why(run)
    assert [place.had_pods(run, step) for step in ("unchanged", "train")] == [True, False]
    assert place.outcome(run) == "succeeded"
    assert filtered in place.store.read(f"runs/{run}/status.html").decode()


def test_where_training_is_reused_the_last_page_says_whose_results_these_are(place: Place) -> None:
    runs = []
    for reused in (False, True):
        run = place.run("--cache-training")
        assert place.ended(run) == "SUCCEEDED", place.why(run)
        assert [place.had_pods(run, step) for step in ("train", "evaluate")] == [not reused] * 2
        assert place.had_pods(run, "reused")
        assert place.outcome(run) == "succeeded"
        runs.append(run)
    page = place.store.read(f"runs/{runs[1]}/status.html").decode()
    assert f'href="../{runs[0]}/status.html"' in page


def test_what_was_published_is_evaluated_alone(place: Place, filtered: str) -> None:
    given = {"tuned_model": f"models/{MODEL}", "max_completion_length": 48, "threads": 1, "hidden_tests": 0}
    given |= {name: SHORT[name] for name in ("max_eval_samples", "num_eval_examples", "eval_k")}
    pods = {name: value for name, value in DEMO_PODS.items() if not name.startswith(("train_", "filter_"))}
    chosen = as_options({**given, **place.inputs(), **pods})
    run = place.noted(place.verb("run", "--pipeline", "evaluate-only", *chosen))
    assert place.ended(run) == "SUCCEEDED", place.why(run)
    evaluation = json.loads(place.store.read(f"runs/{run}/evaluate/evaluation.json"))
    assert evaluation["within_noise"] is False


def test_publishing_by_hand_and_back(place: Place, filtered: str, undisturbed: str) -> None:
    place.verb("models", "publish", undisturbed, MODEL)
    listed = place.verb("models", "list", MODEL)
    assert listed.count("current") == 1
    place.verb("models", "rollback", MODEL)
    current = [line for line in place.verb("models", "list", MODEL).splitlines() if "current" in line]
    assert len(current) == 1
    assert place.verb("models", "list", MODEL) != listed


def at_step(place: Place, run: str, step: int) -> str:
    """The train pod of a run, once it has said that it has done so many steps."""
    pod = place.pod(run, "train")
    eventually(lambda: any(f"training {n}/" in place.log(pod) for n in range(step, step + 20)), f"step {step}")
    return pod


@pytest.mark.parametrize("end", ["deleted", "evicted"])
def test_a_train_pod_that_is_lost_does_not_lose_the_run(place: Place, undisturbed: str, end: str) -> None:
    """Evicted through the API, as a node's drain does it. Argo starts a pod again that is gone, and gives up one whose
    end (code 143) it saw before that; which of them it sees is chance, and what there is to do then is `--resume`."""
    run = place.run()
    pod = at_step(place, run, 4)
    if end == "deleted":
        place.cluster.kubectl("delete", "pod", pod, "-n", SPACE, "--wait=false")
    else:
        evict(place.cluster, SPACE, pod)
    if place.ended(run) == "FAILED":
        assert place.outcome(run) == "failed"
        assert f"--resume {run}" in place.ran("doctor", "--run", run).stdout
        again = place.noted(place.verb("run", "--resume", run))
        assert place.ended(again) == "SUCCEEDED", place.why(again)
    assert place.outcome(run) == "succeeded"
    assert place.rewards(run) == place.rewards(undisturbed)


def test_a_run_whose_step_was_killed_is_resumed(place: Place, undisturbed: str) -> None:
    """The step's process, as the kernel does for want of memory. KFP starts no failed pod again: the run fails."""
    run = place.run()
    pod = at_step(place, run, 4)
    place.cluster.kubectl("exec", pod, "-n", SPACE, "-c", "main", "--", "python", "-c", KILL, check=False)
    assert place.ended(run) == "FAILED"
    assert place.outcome(run) == "failed"
    again = place.noted(place.verb("run", "--resume", run))
    assert place.ended(again) == "SUCCEEDED", place.why(again)
    assert place.outcome(run) == "succeeded", "what continues a run writes into its folder"
    assert place.rewards(run) == place.rewards(undisturbed)


def test_a_schedule_fires_and_skips_what_is_unchanged(place: Place) -> None:
    """Each minute: the first run trains, the later ones find that nothing has changed; then it is switched off."""
    options = place.options(seed=43, on_unchanged="skip")
    said = place.verb("schedule", "create", "--name", MODEL, "--cron", MINUTES, *options)
    schedule = said.split()[2].rstrip(":")
    client = place.endpoint.client

    def runs() -> list[str]:
        experiment = client.get_experiment(experiment_name="grpo-code").experiment_id
        found = client.list_runs(experiment_id=experiment, sort_by="created_at asc", page_size=100).runs or ()
        return [run.run_id for run in found if run.recurring_run_id == schedule]

    try:
        eventually(lambda: len([run for run in runs() if place.state(run) == "SUCCEEDED"]) >= 3, "three runs", 1200)
        place.verb("schedule", "disable", schedule)
        fired = runs()
        assert [place.outcome(run) for run in fired[:3]] == ["succeeded"] * 3
        assert [place.had_pods(run, "train") for run in fired[:3]] == [True, False, False]
        assert [place.had_pods(run, "unchanged") for run in fired[:3]] == [False, True, True]
        eventually(lambda: all(place.state(run) in ("SUCCEEDED", "FAILED") for run in runs()), "all ended")
        count = len(runs())
        assert count <= len(fired) + 1
    finally:
        place.started += runs()
        place.verb("schedule", "delete", schedule)
