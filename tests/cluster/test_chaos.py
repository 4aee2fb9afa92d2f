"""Trouble in the middle of training, on a cluster: a run either ends as one that was left alone, or says why it cannot.

A train pod is the compiled pipeline's (step_pods.py); its problems come from a run of the steps before it. What came of
a run is what it leaves in the store: its metrics, its samples with every verdict, and the trained weights, by the byte.
"""

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from components.shared.sandbox import RETRY_SECONDS
from tests.cluster.cluster import Cluster, eventually
from tests.cluster.compiled import Compiled, Results, Step, StepFailed
from tests.cluster.ground import BUCKET, DEPLOYED, Ground
from tests.cluster.outcome import FILLS_MEMORY, Left, assert_equal_but_for_rounding, left_in, rows_of
from tests.cluster.record import evict
from tests.cluster.step_pods import Running, StepPod, demo_in_pods

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

STEPS = 40
SHORT = {"max_candidate_samples": 4 * STEPS, "save_steps": 4, "hidden_tests": 0}
SHORT |= {"regression_dataset": "", "max_eval_samples": 4, "num_eval_examples": 4}
SHORT |= {"gpus": "0", "train_cpu": "200m"}  # two of its pods at once must leave room for what runs beside them
SANDBOXES = "app.kubernetes.io/name=sandbox"
BETWEEN_DELETIONS, STORE_AWAY = 10.0, 60.0  # seconds
GONE = "registry.invalid/minio:1"
# For so long a sandbox that is told to end may answer what it has, a request is tried again, and the step may end.
GIVES_UP_WITHIN = 40.0 + RETRY_SECONDS + 20.0


@dataclass
class Trainings:
    """Train pods over the same problems."""

    ground: Ground
    step: Step

    def begin(self, running: Running, resume_run: str = "", sandbox: int = 0, **limits: str) -> StepPod:
        """Start the train step of a run; resume_run: of the run that it continues; limits: see Running.start."""
        settings = json.loads(self.step.parameters["settings"])
        assert {"resume_run", "sandbox_url"} <= set(settings)
        settings |= {"resume_run": resume_run, "sandbox_url": self.ground.sandbox_url(sandbox)}
        own = {"run_id": running.run_id, "settings": json.dumps(settings)}
        step = dataclasses.replace(self.step, parameters={**self.step.parameters, **own})
        return running.start(step, **limits)

    def disturbed(self, running: Running, sandbox: int = 0) -> StepPod:
        """Start one to which something will happen, long before its end: it gets half a core at most."""
        return self.begin(running, sandbox=sandbox, cpu="500m")

    def read(self, run_id: str, name: str) -> bytes:
        with self.ground.client() as store:
            return bytes(store.get_object(BUCKET, f"runs/{run_id}/{name}").read())

    def left_by(self, run_id: str) -> Left:
        return left_in(lambda name: self.read(run_id, name))

    def until_checkpoint(self, run_id: str) -> None:
        """Wait for one, of a pod that is at work meanwhile."""
        with self.ground.client() as store:

            def kept() -> bool:
                found = store.list_objects(BUCKET, prefix=f"checkpoints/{run_id}/", recursive=True)
                return any(each.object_name.endswith("/manifest.json") for each in found)

            eventually(kept, "a checkpoint")


@pytest.fixture(scope="module")
def trainings(ground: Ground, compiled: Compiled) -> Trainings:
    """The steps before training have run."""
    running, found = Running(ground), []

    def run(step: Step) -> Results:
        if step.name == "finish":
            return Results()
        if step.name == "train":
            found.append(step)
            raise StepFailed("it is for the tests to run")
        return running.run(step)

    with pytest.raises(StepFailed, match="for the tests"):
        compiled.walk(demo_in_pods(ground, SHORT), running.run_id, run)
    return Trainings(ground, found[0])


@pytest.fixture(scope="module", autouse=True)
def deserted(trainings: Trainings) -> Iterator["Future[StepPod]"]:
    """A run whose sandbox (the second one) is scaled to nothing, once it has ended, which it must within its deadline.

    Most of its time it waits, so that others go on.
    """

    def desert() -> StepPod:
        pod = trainings.disturbed(Running(trainings.ground), sandbox=1)
        steps_done(pod, 3)
        scale(trainings.ground, 1, 0)
        pod.ended(GIVES_UP_WITHIN)
        return pod

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(desert)
    scale(trainings.ground, 1, 1)


@pytest.fixture(scope="module")
def undisturbed(trainings: Trainings) -> Left:
    running = Running(trainings.ground)
    pod = trainings.begin(running)
    pod.results()
    pod.remove()
    left = trainings.left_by(running.run_id)
    assert [row["step"] for row in left.metrics] == list(range(1, STEPS + 1))
    assert len({row["reward"] for row in left.metrics}) > 5
    return left


def steps_done(pod: StepPod, count: int) -> None:
    """Wait until the log tells of so many steps."""
    eventually(lambda: f" {count}/{STEPS} " in pod.log() or pod.phase() not in ("Pending", "Running"), f"step {count}")
    assert pod.phase() == "Running", pod.log()[-2000:]


def scale(ground: Ground, which: int, replicas: int) -> None:
    ground.cluster.kubectl("scale", "-n", ground.sandboxes[which], DEPLOYED, f"--replicas={replicas}")


def sandbox_pods(ground: Ground) -> list[str]:
    """The names of the first sandbox's pods, the oldest first, without those that are being ended."""
    pods = ground.cluster.get("pods", "-n", ground.sandboxes[0], "-l", SANDBOXES)["items"]
    living = [each["metadata"] for each in pods if "deletionTimestamp" not in each["metadata"]]
    return [each["name"] for each in sorted(living, key=lambda each: each["creationTimestamp"])]


def test_a_sandbox_that_is_deleted_every_ten_seconds(trainings: Trainings, undisturbed: Left) -> None:
    """One of two, with a second's grace, so that what it judges is lost; same rewards, same weights."""
    ground, running = trainings.ground, Running(trainings.ground)
    scale(ground, 0, 2)
    ground.cluster.kubectl("rollout", "status", "-n", ground.sandboxes[0], DEPLOYED, "--timeout=120s")
    pod, deletions = trainings.disturbed(running), 0
    steps_done(pod, 2)
    while pod.phase() == "Running":
        oldest = sandbox_pods(ground)[0]
        ground.cluster.kubectl("delete", "pod", oldest, "-n", ground.sandboxes[0], "--grace-period=1", "--wait=false")
        deletions, due = deletions + 1, time.monotonic() + BETWEEN_DELETIONS
        eventually(lambda due=due: time.monotonic() > due or pod.phase() != "Running", "ten seconds, or the end")
    pod.results()
    scale(ground, 0, 1)
    assert deletions >= 2
    assert trainings.left_by(running.run_id) == undisturbed
    pod.remove()


def test_a_rolling_update_of_the_sandbox_loses_no_verdict(trainings: Trainings, undisturbed: Left) -> None:
    ground, running = trainings.ground, Running(trainings.ground)
    ground.cluster.kubectl("rollout", "status", "-n", ground.sandboxes[0], DEPLOYED, "--timeout=120s")
    before, pod = set(sandbox_pods(ground)), trainings.disturbed(running)
    steps_done(pod, 2)
    ground.cluster.kubectl("rollout", "restart", "-n", ground.sandboxes[0], DEPLOYED)
    new = eventually(lambda: set(sandbox_pods(ground)) - before, "a new sandbox")
    ground.cluster.kubectl("wait", "-n", ground.sandboxes[0], "pod", *new, "--for=condition=Ready", "--timeout=120s")
    assert pod.phase() == "Running"
    pod.results()
    left = trainings.left_by(running.run_id)
    assert {row["infra"] for row in left.metrics} == {0.0}
    assert left == undisturbed
    pod.remove()


def delete(pod: StepPod) -> None:
    pod.running.api.delete_namespaced_pod(pod.name, pod.namespace)


def fill_memory(pod: StepPod) -> None:
    """Fill what the container may use from beside the step, in a file of /dev/shm: the kernel kills the largest."""
    cluster: Cluster = pod.running.ground.cluster
    cluster.kubectl("exec", "-n", pod.namespace, pod.name, "-c", "main", "--", *FILLS_MEMORY, check=False)


@dataclass(frozen=True)
class Blow:
    """What befalls a train pod. resumed: by a new run, as KFP restarts lost pods alone; reason: of the container."""

    name: str
    strike: Callable[[StepPod], None]
    resumed: bool
    reason: str = ""


BLOWS = (
    Blow("deleted", delete, resumed=False),
    Blow("evicted", lambda pod: evict(pod.running.ground.cluster, pod.namespace, pod.name), resumed=True),
    Blow("killed for memory", fill_memory, resumed=True, reason="OOMKilled"),
)


@pytest.mark.parametrize("blow", BLOWS, ids=lambda blow: blow.name)
def test_the_next_train_pod_resumes_from_the_store(trainings: Trainings, undisturbed: Left, blow: Blow) -> None:
    first = Running(trainings.ground)
    pod = trainings.disturbed(first)
    trainings.until_checkpoint(first.run_id)
    assert pod.phase() == "Running"
    blow.strike(pod)
    status = pod.ended(120)
    assert status["phase"] in ("Failed", "Gone"), status
    if blow.reason:
        (main,) = [each for each in status["containerStatuses"] if each["name"] == "main"]
        assert main["state"]["terminated"]["reason"] == blow.reason
    pod.remove()
    second = trainings.begin(Running(trainings.ground), first.run_id) if blow.resumed else trainings.begin(first)
    second.results()
    assert f"continues run {first.run_id} after step " in second.log()
    left = trainings.left_by(first.run_id)
    if blow.reason:  # it takes less at a time now, so that sums are rounded otherwise
        assert_equal_but_for_rounding(left, undisturbed)
    else:
        assert left == undisturbed
    second.remove()


def test_a_sandbox_that_is_scaled_to_nothing_ends_the_run_with_that_sentence(
    trainings: Trainings, undisturbed: Left, deserted: "Future[StepPod]"
) -> None:
    """Within its deadline, and what was judged before has the rewards that it would have had."""
    pod = deserted.result()  # by then; its waits have limits of their own
    try:
        assert pod.phase() == "Failed"
        failure = json.loads(trainings.read(pod.running.run_id, "failure.json"))
        assert (failure["step"], failure["kind"], failure["exit_code"]) == ("train", "infrastructure", 1)
        assert "programs could not be judged" in failure["message"]
        assert trainings.ground.sandbox_url(1) in failure["message"]
        assert "no verdicts from" in pod.log()
        kept = rows_of(trainings.read(pod.running.run_id, "train/metrics.jsonl"))
        assert 3 <= len(kept) < STEPS
        assert kept == undisturbed.metrics[: len(kept)]
    finally:
        pod.remove()


def test_a_minute_without_the_store(trainings: Trainings, undisturbed: Left) -> None:
    ground, running = trainings.ground, Running(trainings.ground)
    pod = trainings.disturbed(running)
    steps_done(pod, 3)
    name = ground.minio_pod()
    image = ground.cluster.get("pod", name, "-n", ground.store)["spec"]["containers"][0]["image"]

    def ready() -> bool:
        statuses = ground.cluster.get("pod", name, "-n", ground.store)["status"]["containerStatuses"]
        return all(each["ready"] for each in statuses)

    # Another image in the pod as it stands, which cannot be pulled: the container is gone and the disk is not.
    ground.cluster.kubectl("set", "image", "-n", ground.store, f"pod/{name}", f"minio={GONE}")
    eventually(lambda: not ready(), "the store to be gone")
    back = time.monotonic() + STORE_AWAY
    eventually(lambda: time.monotonic() > back, "a minute")
    assert pod.phase() == "Running", pod.log()[-2000:]
    ground.cluster.kubectl("set", "image", "-n", ground.store, f"pod/{name}", f"minio={image}")
    eventually(ready, "the store to be back")
    pod.results()
    assert "Training goes on, and what it leaves is sent when the store answers." in pod.log()
    assert trainings.left_by(running.run_id) == undisturbed
    pod.remove()
