"""What was fixed when a run's pipeline was compiled, read back from the pipeline: what continues a run keeps it.

The compiled pipeline says all of it (components/pods.py put it there), so that nothing has to be stored beside it.
"""

from collections.abc import Mapping
from typing import Any

from cli.compiling import fixed_options
from cli.endpoint import Endpoint
from components.pods import KUEUE_PRIORITY, KUEUE_QUEUE, MODEL_CACHE, SCRATCH, STEP_LABEL, STEPS, is_own_label

SHM = "/dev/shm"
LAST = ("train", "evaluate")  # steps that get all that is fixed; only evaluating has no train
Json = Mapping[str, Any]


def options_of_run(endpoint: Endpoint, run: Any) -> dict[str, Any]:
    """The options that `fixed_options` names, as they were for a run of KFP's; empty when its pipeline says nothing.

    All but which pipeline it is: that is named anew, and another is refused (`parameters.refuse_other_pipeline`).

    A run holds its pipeline, or names the version of an uploaded one.
    """
    pipeline, version = run.pipeline_spec, run.pipeline_version_reference
    if not pipeline and version:
        with endpoint.spoken():
            made = endpoint.client.get_pipeline_version(version.pipeline_id, version.pipeline_version_id)
        pipeline = made.pipeline_spec
    return options_of(pipeline or {})


def options_of(pipeline: Json) -> dict[str, Any]:
    """The same of a compiled pipeline, {"pipeline_spec": …, "platform_spec": …} as KFP's API has it."""
    platform = (pipeline.get("platform_spec") or {}).get("platforms", {}).get("kubernetes", {})
    pods: dict[str, Json] = {}
    for each in platform.get("deploymentSpec", {}).get("executors", {}).values():
        pods.setdefault(each.get("podMetadata", {}).get("labels", {}).get(STEP_LABEL, ""), each)
    tasks = {step: _task(pipeline.get("pipeline_spec") or {}, step) for step in LAST if step in pods}
    step, task = next(((step, task) for step, task in tasks.items() if task), ("", None))
    if task is None:  # not of this product
        return {}
    pod = pods[step]
    labels = pod["podMetadata"]["labels"]
    sizes = {each["mountPath"]: each.get("sizeLimit", "") for each in pod.get("emptyDirMounts", ())}
    claims = {each["mountPath"]: each["constant"] for each in pod.get("pvcMount", ())}
    return {
        "cache_training": bool(task.get("cachingOptions", {}).get("enableCache")),
        "retries": int(task.get("retryPolicy", {}).get("maxRetryCount", 0)),
        "timeout": _hours(pods),
        "shm_size": sizes.get(SHM, ""),
        "scratch_size": sizes.get(SCRATCH, ""),
        "model_cache_claim": claims.get(MODEL_CACHE, ""),
        "queue": labels.get(KUEUE_QUEUE, ""),
        "priority_class": labels.get(KUEUE_PRIORITY, ""),
        "pull_secret": tuple(each["secretName"] for each in pod.get("imagePullSecret", ())),
        "pod_label": tuple(f"{key}={value}" for key, value in labels.items() if not is_own_label(key)),
    }


def as_text(kept: Json) -> str:
    """Those of the options that are not the defaults, as one would write them."""
    words: list[str] = []
    for option in fixed_options():
        if option.name not in kept:
            continue
        value = kept[option.name]
        if option.multiple:
            words += [f"{option.opts[0]} {each}" for each in value]
        elif value != option.default:
            words.append(option.opts[0] if option.is_flag else f"{option.opts[0]} {value}")
    return " ".join(words)


def _task(spec: Json, name: str) -> Json | None:
    """A task by its name, in whichever part of the pipeline it is."""
    parts = [spec.get("root") or {}, *(spec.get("components") or {}).values()]
    tasks = (part.get("dag", {}).get("tasks", {}).get(name) for part in parts)
    return next((each for each in tasks if each is not None), None)


def _hours(pods: Mapping[str, Json]) -> tuple[str, ...]:
    """The deadlines that are not the steps' own, as --timeout takes them."""
    changed = []
    for step, needs in STEPS.items():
        seconds = int(pods.get(step, {}).get("activeDeadlineSeconds") or 3600 * needs.hours)
        if seconds != round(3600 * needs.hours):
            changed.append(f"{step}={seconds / 3600:g}")
    return tuple(changed)
