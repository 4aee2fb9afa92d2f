"""What is known of a run, gathered from the cluster, from KFP and from the store; nothing is changed."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from cli.cluster import Cluster, Forbidden, Object
from cli.doctor.diagnosis import Evidence
from cli.endpoint import Endpoint, NotThere
from components.pods import MAIN, RUN_LABEL
from components.shared.errors import FAILURE_KEY, InfraError, UserError
from components.shared.run import folder_of
from components.shared.store import store_at_hand

LAST_LINES = 60


def gather(run_id: str, cluster: Cluster, endpoint: Endpoint | None) -> Evidence:
    """Pods, their events and logs, nodes, the workflow, KFP's state of the run, and the failure that a step left."""
    selector = f"{RUN_LABEL}={run_id}"
    pods = cluster.list("pods", labelSelector=selector)
    workflows = cluster.list("workflows", labelSelector=selector)
    names = {pod["metadata"]["name"] for pod in pods}
    state, not_asked = _run_state(run_id, endpoint)
    events = [event for event in cluster.list("events") if event.get("involvedObject", {}).get("name") in names]
    return Evidence(
        run_id=run_id,
        namespace=cluster.namespace,
        pods=pods,
        events=events,
        logs={pod["metadata"]["name"]: _log(cluster, pod) for pod in pods if _has_log(pod)},
        workflow=workflows[0] if workflows else None,
        nodes=_nodes(cluster),
        run_state=state,
        not_asked=not_asked,
        failure=_failure(run_id),
    )


def _has_log(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Running", "Failed") and any(
        container["name"] == MAIN for container in pod["spec"]["containers"]
    )


def _log(cluster: Cluster, pod: Object) -> str:
    with contextlib.suppress(InfraError):  # a container that has not started, or whose node is gone, has none
        return cluster.log(pod["metadata"]["name"], tailLines=LAST_LINES) or ""
    return ""


def _nodes(cluster: Cluster) -> list[Object]:
    try:
        return cluster.list("nodes")
    except Forbidden:  # a user of a profile need not see nodes
        return []


def _run_state(run_id: str, endpoint: Endpoint | None) -> tuple[str, str]:
    """KFP's word for the run's state, `unknown` when it knows no such run; empty, and why, when it cannot be asked."""
    if endpoint is None:
        return "", ""
    try:
        with endpoint.spoken():
            return str(endpoint.client.get_run(run_id).state or ""), ""
    except NotThere:
        return "unknown", ""
    except (UserError, InfraError) as error:
        return "", str(error)


def _failure(run_id: str) -> Mapping[str, Any] | None:
    """The failure in the run's folder, where this machine has the store at hand."""
    with contextlib.suppress(KeyError, ValueError, InfraError, UserError):
        store = store_at_hand()
        told = json.loads(store.read(f"{folder_of(run_id)}/{FAILURE_KEY}")) if store is not None else None
        return told if isinstance(told, dict) else None
    return None
