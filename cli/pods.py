"""The pods of a run and what they printed; from the store, where KFP keeps the logs of pods that are gone."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from cli.cluster import Cluster
from cli.endpoint import Endpoint
from cli.namespaces import KFP_NAMESPACE
from cli.submit import namespace_of, run_of
from cli.uploading import PIPELINE
from components.pods import MAIN, RUN_LABEL, STEP_LABEL
from components.shared.errors import InfraError, UserError
from components.shared.store import open_store

# KFP's own default for the artifacts and logs of runs, and what Kubeflow sets for those of a profile
ARCHIVE, ARCHIVE_OF_PROFILE = "s3://mlpipeline/v2/artifacts", "s3://mlpipeline/private-artifacts/{}/v2/artifacts"
LAUNCHER, ROOT_KEY = "kfp-launcher", "defaultPipelineRoot"  # where a namespace says so
LOG_FILE = "executor-logs"  # and, by KFP's version, the number of the attempt behind it


def step_pods(cluster: Cluster, run_id: str, step: str | None = None) -> list[dict[str, Any]]:
    """The pods of a run's steps, oldest first; of one step, if one is named."""
    wanted = f"{RUN_LABEL}={run_id},{STEP_LABEL}" + (f"={step}" if step else "")
    found = cluster.list("pods", labelSelector=wanted)
    return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


def newest_line(cluster: Cluster, run_id: str, step: str) -> str:
    """The last line that a step printed about itself; empty when there is none, or no way to it."""
    try:
        pods = step_pods(cluster, run_id, step)
        text = cluster.log(pods[-1]["metadata"]["name"], container=MAIN, tailLines=5) if pods else ""
    except (UserError, InfraError):
        return ""
    own = [line for line in (text or "").splitlines() if line.startswith(f"{step}: ")]
    return own[-1].removeprefix(f"{step}: ") if own else ""


def logs(cluster: Cluster, run_id: str, step: str | None) -> Iterator[tuple[str, str]]:
    """(heading, text) for each pod of the run's steps: what a container before this one printed, then this one."""
    for pod in step_pods(cluster, run_id, step):
        name, labels = pod["metadata"]["name"], pod["metadata"]["labels"]
        title = f"{labels[STEP_LABEL]} ({name}, {pod['status'].get('phase', 'unknown').lower()})"
        statuses = pod["status"].get("containerStatuses") or []
        restarts = sum(one["restartCount"] for one in statuses if one["name"] == MAIN)
        for previous in [True, False] if restarts else [False]:
            query = {"previous": "true"} if previous else {}
            try:
                text = cluster.log(name, container=MAIN, **query)
            except InfraError as error:
                text = f"(no log: {error})\n"
            yield f"{title}, before its restart" if previous else title, text or ""


def archive_of(endpoint: Endpoint, run_id: str, cluster: Cluster | None) -> tuple[str, str]:
    """Where KFP has put a run's logs: (pipeline root, pipeline's name). cluster: asked what is set there, if given."""
    run = run_of(endpoint, run_id)
    pipeline = str(((run.pipeline_spec or {}).get("pipeline_spec") or {}).get("pipelineInfo", {}).get("name", PIPELINE))
    root = (run.runtime_config.pipeline_root if run.runtime_config else None) or ""
    if root:
        return root, pipeline
    profile = namespace_of(endpoint, run) if endpoint.health.multi_user else ""
    with contextlib.suppress(InfraError):
        found = cluster.get("configmaps", LAUNCHER, namespace=profile or KFP_NAMESPACE) if cluster else None
        root = ((found or {}).get("data") or {}).get(ROOT_KEY, "")
    return root or (ARCHIVE_OF_PROFILE.format(profile) if profile else ARCHIVE), pipeline


def archived_logs(root: str, pipeline: str, run_id: str, step: str | None) -> Iterator[tuple[str, str]]:
    """(heading, text) of the logs that KFP has put into its bucket, below root, for pods that are gone."""
    address = re.sub(r"^(minio|s3)://", "s3://", root).rstrip("/")
    bucket, _, prefix = address.removeprefix("s3://").partition("/")
    store = open_store(f"s3://{bucket}")
    start = f"{prefix}/{pipeline}/{run_id}/" if prefix else f"{pipeline}/{run_id}/"
    for key in store.keys(start):
        task = key.removeprefix(start).split("/")[0]
        if key.rpartition("/")[2].startswith(LOG_FILE) and (step is None or _step_of(task) == step):
            yield f"{_step_of(task)} (from {store.uri(key)})", store.read(key).decode(errors="replace")


def _step_of(task: str) -> str:
    from cli.worker import step_name

    return step_name(task).replace("-", "_")
