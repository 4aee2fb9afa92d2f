"""Which parameters each step with a model goes by: check hands them on, pinned, as one JSON text a step.

One text rather than thirty inputs: Kubeflow Pipelines keeps every input of every group and pod in the run's workflow,
which may not outgrow a mebibyte. A step gets only what it goes by, for its input is its cache's key as well.
"""

import json
from collections.abc import Mapping
from typing import Any

from components.settings import ADAPTER, BATCHES, LEARNING, SAMPLING

_JUDGING = ("sandbox_url", "test_timeout_s", "infra_limit")
_ALL = ("precision", *SAMPLING, "seed", "threads", *_JUDGING)
# Besides these a step is told the model's revision, for which it waits, and all but the filter the run.
HANDED: dict[str, tuple[str, ...]] = {
    "filter": (
        *_ALL, "model_name", "method", "init_adapter", "batch_size", "num_generations", "filter_samples",
        "filter_all_samples", "max_train_samples", "code_version",
    ),
    "train": (
        *_ALL, *BATCHES, *LEARNING, *ADAPTER, "model_name", "method", "micro_batch_size", "init_adapter",
        "truncated_reward", "dynamic_sampling_tokens", "max_stuck_steps", "save_steps", "keep_checkpoints",
        "export_merged", "trackers", "reward", "resume_run", "code_version",
    ),
    "evaluate": (
        *_ALL, "model_name", "tuned_model", "num_eval_examples", "eval_k", "reward", "resume_run", "code_version",
    ),
    "publish": (*_ALL, "eval_k", "publish_as", "resume_run"),
}  # fmt: skip


def settings_for(step: str, given: Mapping[str, Any]) -> str:
    """A step's parameters as a JSON object; the same values give the same text."""
    return json.dumps({name: given[name] for name in sorted(HANDED[step])})
