"""`watch`: a run's steps as KFP sees them, until its end; and what its end means.

KFP reports states every few seconds; how far a step is stands in its pod's log, which is read where a kubeconfig is
at hand. Ctrl-C ends the watching, never the run.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from cli.cluster import Cluster
from cli.display import Display, make_console, make_display, print_plain
from cli.endpoint import Endpoint, NoEntry
from cli.local import STEPS
from cli.pods import newest_line
from cli.processes import STOPPED
from cli.submit import ENDED, run_of
from cli.worker import step_name
from components.shared.errors import InfraError, UserError
from components.shared.run import folder_of, resume_command, resume_root
from components.shared.status import STATUS
from components.shared.store import store_at_hand

SECONDS = 5.0
PATIENCE = 300.0  # seconds for which an API that does not answer is asked again
ON_CLUSTER = ("check", "fetch_model", *STEPS[1:])
STATES = {"RUNNING": "running", "SUCCEEDED": "done", "FAILED": "failed", "CANCELED": "failed"}


def watch(endpoint: Endpoint, run_id: str, *, namespace: str) -> int:
    """Show the run until it ends; returns 0 if it succeeded, 1 if not, 130 when the watching was stopped."""
    console = make_console()
    run = run_of(endpoint, run_id)
    try:
        print_plain(console, f"grpo-code run {run_id} ({endpoint.run_link(run_id)})")
        with make_display(console, [step for step in ON_CLUSTER if step != "unchanged"]) as display:
            run = _until_end(endpoint, run, display, _cluster(namespace))
    except (KeyboardInterrupt, NoEntry) as error:
        print_plain(console, f"Stopped watching; the run goes on: python pipeline.py watch {run_id}")
        if isinstance(error, NoEntry):  # a token that has expired meanwhile
            raise
        return STOPPED
    return _tell_end(run, console)


def _until_end(endpoint: Endpoint, run: Any, display: Display, cluster: Cluster | None) -> Any:
    told: dict[str, str] = {}
    lines: dict[str, str] = {}
    while True:
        for event in new_events(run, told):
            display.show(event)
        for step in [step for step, state in told.items() if state == "running"]:
            line = newest_line(cluster, run.run_id, step) if cluster else ""
            if line and lines.get(step) != line:
                lines[step] = line
                display.show({"step": step, "message": line, "time": time.time()})
        if str(run.state) in ENDED:
            return run
        time.sleep(SECONDS)
        run = _asked_again(endpoint, run)


def _asked_again(endpoint: Endpoint, run: Any) -> Any:
    """The run's record now; an API that is away for a while is no end of the run."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return run_of(endpoint, run.run_id)
        except InfraError:
            if time.monotonic() > deadline:
                raise
            time.sleep(SECONDS)


def new_events(run: Any, told: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The display's events for what has changed since `told`, which is brought up to date.

    A task that KFP took from its cache has no pod of its own; it is done as soon as it starts.
    """
    details = (run.run_details.task_details if run.run_details else None) or []
    for task in sorted(details, key=lambda task: str(task.start_time or "")):
        step = step_of(str(task.display_name or ""))
        state = STATES.get(str(task.state))
        if step is None or state is None or told.get(step) == state:
            continue
        if state != "running" and step not in told:
            yield {"step": step, "state": "running", "time": _seconds(task.start_time)}
        told[step] = state
        yield {"step": step, "state": state, "time": _seconds(task.end_time if state != "running" else task.start_time)}


def step_of(task: str) -> str | None:
    """The step that one of KFP's tasks does, None for drivers and groups."""
    name = step_name(task).replace("-", "_")
    return name if name in ON_CLUSTER else None


def _seconds(moment: Any) -> float:
    return float(moment.timestamp()) if moment is not None and moment.year > 1970 else time.time()


def _cluster(namespace: str) -> Cluster | None:
    """Only what makes the watching nicer: without a kubeconfig there are states and no lines."""
    try:
        return Cluster.connect(namespace=namespace or None)
    except (UserError, InfraError):
        return None


def _tell_end(run: Any, console: Console) -> int:
    run_id, state = str(run.run_id), str(run.state)
    if state == "SUCCEEDED":
        print_plain(console, f"The run succeeded. See its report: python pipeline.py report {_kept_under(run)}")
        return 0
    why = _sentence(run)
    print_plain(console, f"The run {state.lower()}{f': {why}' if why else '.'}")
    print_plain(console, f"Why, in detail: python pipeline.py doctor --run {run_id}")
    print_plain(console, f"What was finished is kept; go on with: {resume_command(run_id)}")
    return 1


def _kept_under(run: Any) -> str:
    """The id under which the store has the run: that of the first attempt."""
    parameters = (run.runtime_config.parameters if run.runtime_config else None) or {}
    return resume_root(str(run.run_id), str(parameters.get("resume_run") or ""))


def _sentence(run: Any) -> str:
    """The failed step's own sentence from the store, else what KFP says."""
    with contextlib.suppress(KeyError, ValueError, UserError, InfraError):
        store = store_at_hand()
        if store is not None:
            status = json.loads(store.read(f"{folder_of(_kept_under(run))}/{STATUS}"))
            if status["attempt"] == run.run_id and status["failed_step"]:
                return f"{status['failed_step']}: {status['message']}"
    return str(run.error.message or "") if run.error else ""
