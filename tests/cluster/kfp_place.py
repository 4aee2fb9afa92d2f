"""The pipeline on a real Kubeflow Pipelines for a single user, with a store of its own, as the tests run it."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cli.endpoint import Endpoint
from cli.parameters import WHOLE
from cli.submit import ENDED
from cli.uploading import DEMO_PODS
from components.pods import MAIN, RUN_LABEL, STEP_LABEL
from components.shared.s3 import S3Store
from components.shared.store import open_store
from tests.cluster.cluster import ROOT, Cluster, eventually, forwarded
from tests.cluster.conftest import Images, deploy
from tests.cluster.installation import secret
from tests.cluster.kfp_runs import SPACE
from tests.cluster.outcome import Left, left_in

STORE = "grpo-code-store"
# Most of the demo's training, so that there is time to disturb it, and less of all the rest.
SHORT = {
    "max_candidate_samples": 192,
    "max_train_samples": 48,
    "hidden_tests": 0,
    "max_eval_samples": 40,
    "num_eval_examples": 40,
    "eval_k": 2,
    "save_steps": 2,
}
ROOT_OF_ARTIFACTS = f"v2/artifacts/{WHOLE}"  # in KFP's bucket, of this pipeline's
SECONDS_FOR_A_RUN = 900.0


@dataclass
class Place:
    """Verbs of the command line against one KFP and one store; `started` are the runs that are deleted at the end."""

    cluster: Cluster
    endpoint: Endpoint
    store: S3Store
    environment: dict[str, str]
    started: list[str] = field(default_factory=list)

    def ran(self, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """A verb, run to its end."""
        command = [sys.executable, "pipeline.py", *words]
        return subprocess.run(command, env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=timeout)

    def verb(self, *words: str, code: int = 0, timeout: float = 300) -> str:
        """What a verb prints, both streams; AssertionError when it ends with another exit code."""
        done = self.ran(*words, timeout=timeout)
        said = done.stdout + done.stderr
        assert done.returncode == code, f"{' '.join(words)}: exit code {done.returncode}\n{said}"
        return said

    def run(self, *words: str, **changed: Any) -> str:
        """Start a run of the short demo with some parameters changed; its id."""
        return self.noted(self.verb("run", *words, *self.options(**changed)))

    def noted(self, said: str) -> str:
        """The id that `run` printed."""
        run = said.split("Started run ")[1].split()[0].rstrip(",")
        self.started.append(run)
        return run

    def options(self, **changed: Any) -> list[str]:
        """The short demo as options."""
        given = {**SHORT, **DEMO_PODS, **self.inputs(), "regression_dataset": "", **changed}
        return ["--params", "demo/parameters.toml", *as_options(given)]

    def inputs(self) -> dict[str, str]:
        """The demo as it lies in the store."""
        return {"model_name": self.store.uri("demo/model"), "dataset": self.store.uri("demo/problems")}

    def tasks(self, run: str) -> dict[str, str]:
        """The state of each task that KFP has begun, by its name: SUCCEEDED (from the cache, too), SKIPPED …"""
        details = self.endpoint.client.get_run(run).run_details
        return {task.display_name: str(task.state) for task in (details.task_details if details else None) or ()}

    def state(self, run: str) -> str:
        return str(self.endpoint.client.get_run(run).state)

    def outcome(self, run: str) -> str:
        """What the run's last page says of it."""
        return str(json.loads(self.store.read(f"runs/{run}/status.json"))["outcome"])

    def ended(self, run: str) -> str:
        """The run's state once it has ended."""
        eventually(lambda: self.state(run) in ENDED, f"an end of {run}", SECONDS_FOR_A_RUN)
        return self.state(run)

    def until(self, run: str, task: str, *states: str) -> str:
        """The state of a task once it is one of these."""
        eventually(lambda: self.tasks(run).get(task) in states, f"{task} in {states}", SECONDS_FOR_A_RUN)
        return self.tasks(run)[task]

    def had_pods(self, run: str, step: str) -> bool:
        """Whether a step of a run had a pod of its own: what KFP takes from its cache has none."""
        return bool(self.pods(run, step))

    def pods(self, run: str, step: str) -> list[dict[str, Any]]:
        """The pods of a step that are there, KFP's own beside it left out."""
        found: list[dict[str, Any]] = self.cluster.get(
            "pods", "-n", SPACE, "-l", f"{RUN_LABEL}={run},{STEP_LABEL}={step}"
        )["items"]
        return found

    def pod(self, run: str, step: str) -> str:
        """The pod of a step, once its program runs."""

        def found() -> list[str]:
            return [pod["metadata"]["name"] for pod in self.pods(run, step) if pod["status"]["phase"] == "Running"]

        return str(eventually(found, f"a pod of {step}", SECONDS_FOR_A_RUN)[0])

    def log(self, pod: str) -> str:
        return self.cluster.kubectl("logs", pod, "-n", SPACE, "-c", MAIN, check=False)

    def left(self, run: str) -> Left:
        """What the run's training has left in the store."""
        return left_in(lambda name: self.store.read(f"runs/{run}/{name}"))

    def written_by_kfp(self, run: str, step: str) -> dict[str, bytes]:
        """The objects of a step's artifacts where KFP keeps them, by name: <root>/<pipeline>/<run>/<task>/…/<name>."""
        found = self.store.client.list_objects(self.store.bucket, prefix=f"{ROOT_OF_ARTIFACTS}/", recursive=True)
        names = [str(each.object_name) for each in found if f"/{run}/{step}/" in str(each.object_name)]
        return {name.rpartition("/")[2]: self.store.client.get_object(self.store.bucket, name).read() for name in names}

    def why(self, run: str) -> str:
        """What the doctor says of a run that did not end well, and the last words of its pods that failed."""
        pods = self.cluster.get("pods", "-n", SPACE, "-l", f"{RUN_LABEL}={run}")["items"]
        failed = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Failed"]
        logs = (
            f"{name}:\n{self.cluster.kubectl('logs', name, '-n', SPACE, '-c', MAIN, '--tail=40')}" for name in failed
        )
        return "\n".join((self.ran("doctor", "--run", run).stdout, str(self.tasks(run)), *logs))

    def forget(self, run: str) -> None:
        """Take a run out of KFP."""
        with contextlib.suppress(Exception):  # those that have ended cannot be terminated
            self.endpoint.client.terminate_run(run)
        self.cluster.kubectl("delete", "workflow", "-n", SPACE, "-l", f"{RUN_LABEL}={run}", "--wait=false", check=False)
        with contextlib.suppress(Exception):
            self.endpoint.client.delete_run(run)


def as_options(given: dict[str, Any]) -> list[str]:
    """Parameters as the command line takes them."""
    words = []
    for name, value in given.items():
        option = name.replace("_", "-")
        text = json.dumps(value) if isinstance(value, dict | list) else str(value)
        words += [f"--{'' if value else 'no-'}{option}"] if isinstance(value, bool) else [f"--{option}", text]
    return words


@contextlib.contextmanager
def place_of_its_own(cluster: Cluster, images: Images) -> Iterator[Place]:
    """Deployed for KFP's namespace, with the demo in a part of KFP's own store that nobody else uses."""
    part = f"test-{secrets.token_hex(3)}"
    theirs = cluster.get("-n", SPACE, "secret", "mlpipeline-minio-artifact")["data"]
    keys = {f"S3_{kind.upper()}_KEY": b64decode(theirs[f"{kind}key"]).decode() for kind in ("access", "secret")}
    where = {"GRPO_STORE": f"s3://mlpipeline/{part}", "S3_SECURE": "false", **keys}
    cluster.apply(secret(SPACE, STORE, S3_ENDPOINT=f"seaweedfs.{SPACE}:9000", **where))
    deploy(cluster, images, "local,seaweedfs", NAMESPACE=SPACE)
    with forwarded(cluster, SPACE, "seaweedfs", 9000) as port:
        own = {**where, "S3_ENDPOINT": f"localhost:{port}"}
        environment = {**cluster.environment, **own, "REGISTRY": images.registry, "TAG": images.tag}
        environment |= {"KFP_ENDPOINT": os.environ["KFP_ENDPOINT"], "KFP_NAMESPACE": SPACE}
        os.environ.update(own)
        store = open_store()
        assert isinstance(store, S3Store)
        place = Place(cluster, Endpoint.of(), store, environment)
        place.verb("upload-demo")
        try:
            yield place
        finally:
            for run in place.started:
                place.forget(run)
            store.delete_folder("")
            for name in own:
                os.environ.pop(name, None)
    cluster.run("make", "undeploy", timeout=600)
    cluster.kubectl("-n", SPACE, "delete", "secret", STORE, "--ignore-not-found")
    deploy(cluster, images)
