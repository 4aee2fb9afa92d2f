"""Runs of the pipeline on a real Kubeflow Pipelines: caches, schedules, publishing, and what befalls a train pod.

The tests build on each other's runs and go in this order. Of the same parameters and seed, every run that trains leaves
the same rewards, losses and weights, whatever happened to its pods.
"""

import contextlib
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from cli.parameters import KINDS
from cli.uploading import DEMO_PODS
from components.pods import MAIN
from components.train.container import NEARLY_ALL
from tests.cluster.cluster import Cluster, eventually
from tests.cluster.conftest import Images
from tests.cluster.kfp_place import SHORT, Place, as_options, place_of_its_own
from tests.cluster.kfp_runs import SPACE
from tests.cluster.outcome import FILLS_MEMORY, assert_equal_but_for_rounding
from tests.cluster.record import evict
from tests.kfp_at_hand import for_a_single_user

pytestmark = [pytest.mark.kfp, pytest.mark.cluster, pytest.mark.timeout(1800)]
MODEL = "kfp-test"  # published in a store of the tests' own
MINUTES = "* * * * *"
FEW = {"max_candidate_samples": 64, "max_eval_samples": 16, "num_eval_examples": 16}
# One parameter of each type that KFP knows, as a run with the filter is given them; every node has this label.
ANYWHERE = {"kubernetes.io/os": "linux"}
TOLERATED = {"key": "example.com/nothing", "operator": "Exists", "effect": "NoSchedule"}
TYPED = {"epochs": 1, "lr": 0.002, "use_filter": True, "publish_as": MODEL}
TYPED |= {"node_selector": ANYWHERE, "tolerations": [TOLERATED]}
FILTERED = {**TYPED, "on_unchanged": "skip"}
# Up to there the memory of a step's container fills, so that the step sees it and writes it down.
ALMOST_FILLS_MEMORY = """
from components.train.container import NEARLY_ALL, memory_share
with open("/dev/shm/almost", "wb", buffering=0) as file:
    while memory_share() < NEARLY_ALL + 0.02:
        file.write(bytes(1 << 20))
"""
AT_ONCE = ("--grace-period=0", "--force")


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
    for step in ("train", "evaluate"):
        report = place.store.read(f"runs/{filtered}/{step}/report.html")
        assert b"</html>" in report
        assert place.written_by_kfp(filtered, step)["report"] == report
    assert filtered in place.verb("models", "list")
    assert "train: done" in place.verb("logs", filtered, "train")
    assert "The run succeeded" in place.verb("watch", filtered)


def test_parameters_of_every_type_arrive(place: Place, filtered: str) -> None:
    assert {type(value) for value in TYPED.values()} == {kind for kind, _, _ in KINDS.values()}
    sent = place.endpoint.client.get_run(filtered).runtime_config.parameters
    kept = json.loads(place.store.read(f"runs/{filtered}/run.json"))["parameters"]
    for given in (sent, kept):
        assert {name: given[name] for name in TYPED} == TYPED
    for step in ("filter", "train", "evaluate"):
        (pod,) = place.pods(filtered, step)
        assert pod["spec"]["nodeSelector"].items() >= ANYWHERE.items()
        assert TOLERATED in pod["spec"]["tolerations"]


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
        for task, step in (("prepare", "prepare"), ("filter-learnable", "filter")):
            place.until(run, task, "SUCCEEDED")
            assert place.had_pods(run, step)
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


def started_again(place: Place, run: str, uid: str) -> bool:
    """Whether the train pod is another one by now that went on from a checkpoint.

    It has the same name when Argo misses the one before within some ten seconds of its start, and else the next one's.
    """
    (now,) = [each["metadata"] for each in place.pods(run, "train")]
    return now["uid"] != uid and f"continues run {run} after step " in place.log(now["name"])


def test_a_train_pod_that_is_deleted_is_started_again(place: Place, undisturbed: str) -> None:
    """At once, so that Argo sees that it is gone before it sees an end: then the pod was lost, and is not failed."""
    run = place.run()
    pod = at_step(place, run, 4)
    (uid,) = [each["metadata"]["uid"] for each in place.pods(run, "train")]
    place.cluster.kubectl("delete", "pod", pod, "-n", SPACE, *AT_ONCE)
    assert place.ended(run) == "SUCCEEDED", place.why(run)
    assert started_again(place, run, uid)
    assert place.outcome(run) == "succeeded"
    assert place.left(run) == place.left(undisturbed)


def test_a_train_pod_that_is_evicted_does_not_lose_the_run(place: Place, undisturbed: str) -> None:
    """Evicted through the API, as a node's drain does it. Argo starts a pod again that is gone, and gives up one whose
    end (code 143) it saw before that; which of them it sees is chance, and what there is to do then is `--resume`."""
    run = place.run()
    pod = at_step(place, run, 4)
    (uid,) = [each["metadata"]["uid"] for each in place.pods(run, "train")]
    evict(place.cluster, SPACE, pod)
    if place.ended(run) == "FAILED":
        assert place.outcome(run) == "failed"
        assert f"--resume {run}" in place.ran("doctor", "--run", run).stdout
        resumed(place, run)
    else:
        assert started_again(place, run, uid)
    assert place.outcome(run) == "succeeded"
    assert place.left(run) == place.left(undisturbed)


def resumed(place: Place, run: str) -> str:
    """The id of a run that has continued this one, into whose folder it writes."""
    again = place.noted(place.verb("run", "--resume", run))
    assert place.ended(again) == "SUCCEEDED", place.why(again)
    assert place.outcome(run) == "succeeded"
    return again


def test_a_run_whose_step_was_killed_for_memory_is_resumed(place: Place, undisturbed: str) -> None:
    """By the kernel, at the container's limit. KFP starts no failed pod again; the next run takes less at a time."""
    run = place.run()
    pod = at_step(place, run, 4)
    inside = ("exec", pod, "-n", SPACE, "-c", MAIN, "--")
    place.cluster.kubectl(*inside, "python", "-c", ALMOST_FILLS_MEMORY)

    def noted() -> bool:
        return bool(json.loads(place.store.read(f"runs/{run}/train/attempt.json"))["memory_share"] >= NEARLY_ALL)

    eventually(noted, "a note that memory is short")
    place.cluster.kubectl(*inside, *FILLS_MEMORY, check=False)
    assert place.ended(run) == "FAILED"
    (dead,) = place.pods(run, "train")
    (main,) = [each for each in dead["status"]["containerStatuses"] if each["name"] == MAIN]
    assert main["state"]["terminated"]["reason"] == "OOMKilled"
    assert place.outcome(run) == "failed"
    said = place.ran("doctor", "--run", run).stdout
    assert "OOMKilled" in said
    assert f"--resume {run}" in said
    again = resumed(place, run)
    (pod,) = [each["metadata"]["name"] for each in place.pods(again, "train")]
    assert f"continues run {run} after step " in place.log(pod)
    assert "the attempt before was killed while it used" in place.log(pod)
    assert_equal_but_for_rounding(place.left(run), place.left(undisturbed))


@contextlib.contextmanager
def scheduled(place: Place, name: str, *options: str) -> Iterator[str]:
    """The id of a schedule that fires each minute; it and its runs are gone afterwards."""
    said = place.verb("schedule", "create", "--name", name, "--cron", MINUTES, *options)
    schedule = said.split()[2].rstrip(":")
    try:
        yield schedule
    finally:
        place.started += [run.run_id for run in fired_by(place, schedule)]
        place.verb("schedule", "delete", schedule)


def fired_by(place: Place, schedule: str, since: datetime | None = None) -> list[Any]:
    """A schedule's runs, the oldest first, or those due after a time; KFP tells of a run some seconds later."""
    experiment = place.endpoint.client.get_experiment(experiment_name="grpo-code").experiment_id
    found = place.endpoint.client.list_runs(experiment_id=experiment, sort_by="created_at asc", page_size=100).runs
    own = [run for run in found or () if run.recurring_run_id == schedule]
    return [run for run in own if since is None or run.scheduled_at > since]


def test_a_schedule_fires_and_skips_what_is_unchanged(place: Place) -> None:
    """Each minute: the first run trains, the later ones find that nothing has changed; then it is switched off.

    That it is off shows while another one of the same times, which is not, fires twice.
    """
    options = place.options(seed=43, on_unchanged="skip", **FEW)
    with scheduled(place, MODEL, *options) as schedule:

        def succeeded() -> bool:
            return len([run for run in fired_by(place, schedule) if str(run.state) == "SUCCEEDED"]) >= 3

        eventually(succeeded, "three runs", 1200)
        with scheduled(place, f"{MODEL}-on", *options) as other:
            place.verb("schedule", "disable", schedule)
            since = place.endpoint.client.get_recurring_run(schedule).updated_at  # now, by KFP's own clock
            runs = [run.run_id for run in fired_by(place, schedule)]
            assert [place.outcome(run) for run in runs[:3]] == ["succeeded"] * 3
            assert [place.had_pods(run, "train") for run in runs[:3]] == [True, False, False]
            assert [place.had_pods(run, "unchanged") for run in runs[:3]] == [False, True, True]
            eventually(lambda: len(fired_by(place, other, since)) >= 2, "two runs of the other schedule", 400)
            assert fired_by(place, schedule, since) == []
