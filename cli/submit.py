"""A run or a schedule on Kubeflow Pipelines: parameters checked, pinned and typed, then handed over."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cli.compiling import Fixed, compiled
from cli.endpoint import Endpoint
from cli.parameters import WHOLE, all_parameters, merged
from cli.revisions import code_version
from components import revisions
from components.settings import FIXED, check
from components.shared.errors import InfraError, UserError
from components.shared.model_hub import HubUnreachable
from components.shared.run import resume_root
from components.shared.store import STORE_VARIABLE, in_bucket, store_at_hand, store_is_known

EXPERIMENT = "grpo-code"
ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")
ARCHIVED = "ARCHIVED"  # what KFP stores of a run that somebody has put away: the only end for one without a workflow
Say = Callable[[str], None]


@dataclass(frozen=True)
class Place:
    """Under which names KFP keeps what is submitted; empty ones are KFP's own defaults."""

    experiment: str = EXPERIMENT
    service_account: str = ""
    pipeline_root: str = ""

    def as_options(self) -> dict[str, str | None]:
        return {"service_account": self.service_account or None, "pipeline_root": self.pipeline_root or None}


def parameters_for_cluster(
    given: dict[str, Any], say: Say, *, follow: bool = False, pipeline: str = WHOLE
) -> dict[str, Any]:
    """All parameters, checked together, with what the run reads pinned; UserError for what pods could not read.

    follow leaves model and data set open, so that every run of a schedule takes the newest. What cannot be asked from
    here (a store without keys, a hub out of reach, what a run that is continued had read) is pinned by the run's first
    step, and `say` is told.
    """
    parameters = merged(given, pipeline)
    for warning in check({**merged({}), **parameters}):
        say(f"warning: {warning}")
    revisions.refuse_what_no_pod_has(parameters)
    _refuse_missing_models(parameters, say)
    parameters["code_version"] = parameters["code_version"] or code_version()
    if follow:
        return parameters
    for name, parameter in revisions.SOURCES.items():
        source = parameters[parameter]
        if not source:
            continue
        if parameters["resume_run"] and not revisions.PINNED.fullmatch(parameters[name]):
            say(
                f"{source} is pinned by the run's first step, at what run {parameters['resume_run']} had read: "
                "its record in the store cannot be read here."
            )
            continue
        if in_bucket(source) and not store_is_known():
            say(f"{source} is pinned by the run's first step: S3_ENDPOINT and its keys are not set here.")
            continue
        try:
            parameters[name] = revisions.pin(parameters, name)
        except HubUnreachable:
            say(f"{source} is pinned by the run's first step: the hub cannot be reached from here.")
    return parameters


def _refuse_missing_models(parameters: dict[str, Any], say: Say) -> None:
    """UserError for an init_adapter or tuned_model that is not there, as far as the run's store can be asked here."""
    if parameters["resume_run"]:
        return  # it goes on with what it had, which the run's first step knows
    store = store_at_hand() if in_bucket(os.environ.get(STORE_VARIABLE) or "") else None
    asked = {
        name: address
        for name in (revisions.ADAPTER, revisions.TUNED_MODEL)
        if (address := parameters.get(name)) and (store_is_known() or not in_bucket(address))
    }
    try:
        given = {"publish_as": parameters.get("publish_as", ""), revisions.ADAPTER: "", **asked}
        revisions.refuse_missing_models(given, on_cluster=True, store=store)
    except InfraError as error:
        say(f"{' and '.join(asked)} will be looked for by the run's first step: {error}")


def start_run(endpoint: Endpoint, fixed: Fixed, parameters: dict[str, Any], place: Place, name: str) -> str:
    """Start a run of the pipeline as it is compiled now; returns its id."""
    client = endpoint.client
    with compiled(fixed) as file, endpoint.spoken():
        made = client.run_pipeline(
            experiment_id=experiment_id(endpoint, place.experiment),
            job_name=name,
            pipeline_package_path=str(file),
            params=parameters,
            **place.as_options(),
        )
    return str(made.run_id)


def experiment_id(endpoint: Endpoint, name: str) -> str:
    """The experiment of this name, made when there is none."""
    with endpoint.spoken():
        made = endpoint.client.create_experiment(name, namespace=endpoint.namespace_of_runs)
    return str(made.experiment_id)


def run_of(endpoint: Endpoint, run_id: str) -> Any:
    """KFP's record of a run; UserError when there is none."""
    with endpoint.spoken():
        return endpoint.client.get_run(run_id)


def namespace_of(endpoint: Endpoint, run: Any) -> str:
    """The namespace that a run's experiment belongs to; empty where KFP serves a single user."""
    with endpoint.spoken():
        return str(endpoint.client.get_experiment(run.experiment_id).namespace or "")


def continued(endpoint: Endpoint, run_id: str, given: dict[str, Any], place: Place) -> tuple[dict[str, Any], Place]:
    """What goes on with a failed run: its parameters and its place with the given ones over them, `resume_run` set.

    UserError while that run works (unless it was archived: its workflow is lost, and KFP has no end for it), when it
    has succeeded, or when a given value is one that may not change.
    """
    run = run_of(endpoint, run_id)
    state = str(run.state)
    if state not in ENDED and str(run.storage_state) != ARCHIVED:
        raise UserError(
            f"Run {run_id} is still {state.lower()}: wait for its end, or terminate it in KFP's UI; a run that `doctor "
            f"--run {run_id}` calls lost can be given up with `kfp run archive {run_id}`."
        )
    if state == "SUCCEEDED":
        raise UserError(f"Run {run_id} has succeeded: there is nothing to continue; leave --resume out for a new run.")
    then = _parameters_of(run)
    root = resume_root(run_id, then.get("resume_run", ""))
    was = merged(then) | _read_by(root, merged(then))
    for name in FIXED:
        unknown = name in revisions.REVISIONS and not revisions.PINNED.fullmatch(was[name])
        if name in given and given[name] != was[name] and not unknown:
            raise UserError(
                f"Run {run_id} cannot be continued with another {name}: it was {was[name]!r}; leave it out, or start a "
                "new run."
            )
    then |= {name: was[name] for name in revisions.REVISIONS}
    then.pop("code_version", None)  # what continues is this code
    kept = replace(
        place,
        service_account=place.service_account or run.service_account or "",
        pipeline_root=place.pipeline_root or (run.runtime_config.pipeline_root if run.runtime_config else "") or "",
    )
    return {**then, **given, "resume_run": root}, kept


def _parameters_of(run: Any) -> dict[str, Any]:
    """The parameters with which a run was started, of those that there still are."""
    known = all_parameters()
    stored = (run.runtime_config.parameters if run.runtime_config else None) or {}
    return {name: typed(known[name].kind, value) for name, value in stored.items() if name in known}


def _read_by(run: str, asked: dict[str, Any]) -> dict[str, str]:
    """The revisions that a run had read, where its store is at hand; the new run's first step asks it in any case."""
    with contextlib.suppress(InfraError):
        store = store_at_hand()
        if store is not None:
            return revisions.as_read_by(store, run, asked)
    return {}


def typed(kind: str, value: Any) -> Any:
    """A parameter's value as KFP gives it back, in its own type: JSON has one kind of number."""
    return int(value) if kind == "Integer" else float(value) if kind == "Float" else value
