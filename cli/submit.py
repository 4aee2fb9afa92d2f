"""A run or a schedule on Kubeflow Pipelines: parameters checked, pinned and typed, then handed over."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.compiling import Fixed, compiled
from cli.endpoint import Endpoint
from cli.parameters import merged, pipeline_parameters
from cli.revisions import code_version
from components import revisions
from components.settings import DATA_SUFFIXES, FIXED, check
from components.shared.errors import UserError
from components.shared.model_hub import HubUnreachable
from components.shared.run import resume_root
from components.shared.store import store_is_known

EXPERIMENT = "grpo-code"
ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Place:
    """Under which names KFP keeps what is submitted; empty ones are KFP's own defaults."""

    experiment: str = EXPERIMENT
    service_account: str = ""
    pipeline_root: str = ""

    def as_options(self) -> dict[str, str | None]:
        return {"service_account": self.service_account or None, "pipeline_root": self.pipeline_root or None}


def parameters_for_cluster(given: dict[str, Any], say: Say, *, follow: bool = False) -> dict[str, Any]:
    """All parameters, checked together, with what the run reads pinned; UserError for what pods could not read.

    follow leaves model and data set open, so that every run of a schedule takes the newest. What cannot be asked from
    here (a store without keys, a hub out of reach) is pinned by the run's first step, and `say` is told.
    """
    parameters = merged(given)
    for warning in check(parameters):
        say(f"warning: {warning}")
    _refuse_local("model_name", parameters["model_name"], "a hub id")
    _refuse_local("dataset", parameters["dataset"], "mbpp, a hub id")
    parameters["code_version"] = parameters["code_version"] or code_version()
    if follow:
        return parameters
    for name, source, pin in (
        ("model_revision", parameters["model_name"], revisions.model_revision),
        ("dataset_revision", parameters["dataset"], revisions.dataset_revision),
    ):
        if source.startswith("s3://") and not store_is_known():
            say(f"{source} is pinned by the run's first step: S3_ENDPOINT and its keys are not set here.")
            continue
        try:
            parameters[name] = pin(source, parameters[name])
        except HubUnreachable:
            say(f"{source} is pinned by the run's first step: the hub cannot be reached from here.")
    return parameters


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


def parameters_to_resume(endpoint: Endpoint, run_id: str, given: dict[str, Any]) -> dict[str, Any]:
    """A failed run's parameters with the given ones over them and `resume_run` set.

    UserError while that run works, when it has succeeded, or when a given value is one that may not change.
    """
    run = run_of(endpoint, run_id)
    state = str(run.state)
    if state not in ENDED:
        raise UserError(f"Run {run_id} is still {state.lower()}: wait for its end, or terminate it in KFP's UI.")
    if state == "SUCCEEDED":
        raise UserError(f"Run {run_id} has succeeded: there is nothing to continue; leave --resume out for a new run.")
    known = pipeline_parameters()
    stored = (run.runtime_config.parameters if run.runtime_config else None) or {}
    then = {name: typed(known[name].kind, value) for name, value in stored.items() if name in known}
    for name in FIXED:
        if name in given and given[name] != merged(then)[name]:
            raise UserError(
                f"Run {run_id} cannot be continued with another {name}: it was {merged(then)[name]!r}; leave it "
                "out, or start a new run."
            )
    then.pop("code_version", None)  # what continues is this code
    return {**then, **given, "resume_run": resume_root(run_id, then.get("resume_run", ""))}


def typed(kind: str, value: Any) -> Any:
    """A parameter's value as KFP gives it back, in its own type: JSON has one kind of number."""
    return int(value) if kind == "Integer" else float(value) if kind == "Float" else value


def _refuse_local(name: str, value: str, forms: str) -> None:
    if value.startswith("s3://"):
        return
    path = Path(value).expanduser()
    if path.exists() or value.startswith(("/", ".", "~")) or path.suffix in DATA_SUFFIXES:
        raise UserError(
            f"{name} {value!r} is a path on this machine, which the cluster's pods do not have: upload it to the store "
            f"and give its s3:// address (`python pipeline.py upload-demo` does that for the demo), or use {forms}."
        )
