"""The rules that tie parameters together, in one function: at submit, and as the pipeline's first uncached step.

Ranges of single parameters stand in RANGES, choices in CHOICES; what several parameters must agree on follows.
All that is wrong is said at once. Only the standard library is imported: submitting needs nothing of the steps.
"""

import difflib
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from components.overrides import parse_overrides
from components.placement import wrong_placement
from components.shared.errors import UserError
from components.shared.published import check_model_name
from components.shared.replicas import addresses_in
from components.shared.run import check_run_id
from components.shared.store import bucket_and_key, in_bucket

CHOICES: dict[str, tuple[str, ...]] = {
    "method": ("lora", "full", "qlora"),
    "precision": ("auto", "bf16", "fp16", "fp32"),
    "reward": ("tests", "random"),
    "truncated_reward": ("zero", "none"),
    "on_unchanged": ("retrain", "skip"),
    "export_merged": ("no", "bf16", "fp16", "fp32"),
}
TRACKERS = ("tensorboard", "mlflow", "wandb")
SPLITS = ("train", "validation", "prompt", "test")
PUBLISHABLE_SPLITS = ("train", "prompt")  # training on these leaves the validation problems to decide on
DATA_SUFFIXES = (".jsonl", ".json", ".parquet")
# Names for data sets on the hub: (hub id, configuration).
NAMED_DATASETS = {
    "mbpp": ("google-research-datasets/mbpp", "full"),
    "mbpp-sanitized": ("google-research-datasets/mbpp", "sanitized"),
}
DATASET_FORMS = (
    f"use {', '.join(NAMED_DATASETS)}, a hub id owner/name, a file ending in {', '.join(DATA_SUFFIXES)}, a directory "
    "with train and test files, or s3://bucket/key"
)
# What must be the same when a run is continued; the rest (sandbox, checkpoints kept, threads, pods, and how a batch is
# cut into micro batches) may change.
SAMPLING = ("temperature", "top_p", "max_completion_length", "use_chat_template")
BATCHES = ("epochs", "batch_size", "num_generations")
LEARNING = ("lr", "beta", "precision", "seed", "grpo_overrides")
ADAPTER = ("lora_r", "lora_alpha", "lora_target_modules")
FIXED = (
    *SAMPLING, *BATCHES, *LEARNING, *ADAPTER, "model_name", "model_revision", "method", "reward",
    "truncated_reward", "dynamic_sampling_tokens", "init_adapter",
)  # fmt: skip
NOT_COMPARABLE = (
    "candidate_splits all trains on problems of the test split outside the held-out ones: "
    "the result is not comparable with published MBPP figures."
)
INFINITE = math.inf
# name: (smallest, largest); both ends belong to the range unless the name is in OPEN_BELOW.
RANGES: dict[str, tuple[float, float]] = {
    "epochs": (1, 1000),
    "lr": (0, 1),
    "batch_size": (2, 65536),
    "num_generations": (2, 4096),
    "max_completion_length": (1, 65536),
    "max_candidate_samples": (1, 10_000_000),
    "max_train_samples": (1, 10_000_000),
    "filter_samples": (2, 4096),
    "max_eval_samples": (2, 1_000_000),
    "hidden_tests": (0, 200),
    "num_eval_examples": (2, 1_000_000),
    "eval_k": (1, 4096),
    "beta": (0, INFINITE),
    "lora_r": (1, 4096),
    "lora_alpha": (1, 65536),
    "temperature": (0, 100),
    "top_p": (0, 1),
    "micro_batch_size": (0, 65536),
    "dynamic_sampling_tokens": (0, 1_000_000_000),
    "max_stuck_steps": (0, 1_000_000),
    "save_steps": (0, 1_000_000),
    "keep_checkpoints": (1, 1000),
    "seed": (0, 2**32 - 1),
    "threads": (0, 4096),
    "test_timeout_s": (0, 600),
    "infra_limit": (0, 1),
}
ADDRESSES = ("model_name", "dataset", "regression_dataset")
NEVER_EMPTY = ("model_name", "dataset", "sandbox_url", "lora_target_modules")
OPEN_BELOW = ("lr", "temperature", "top_p", "test_timeout_s")  # zero itself makes no sense for these


def check(parameters: Mapping[str, Any]) -> list[str]:
    """Check all parameters together; returns warnings, raises one UserError that names everything wrong."""
    wrong = [*_wrong_choices(parameters), *_wrong_ranges(parameters), *wrong_placement(parameters)]
    if not wrong:
        wrong = [*_wrong_batch(parameters), *_wrong_splits(parameters), *_wrong_overrides(parameters)]
        wrong += _wrong_series(parameters)
    if wrong:
        raise UserError(" ".join(wrong))
    return _warnings(parameters)


def _wrong_choices(given: Mapping[str, Any]) -> list[str]:
    wrong = []
    for name, choices in CHOICES.items():
        if given[name] not in choices:
            wrong.append(f"{name} {given[name]!r} is unknown: use one of {', '.join(choices)}.")
    empty = [name for name in NEVER_EMPTY if not str(given[name]).strip()]
    wrong += [f"{name} is empty: it needs a value." for name in empty]
    parsed: list[Callable[[], object]] = [
        partial(tracker_names, given["trackers"]),
        *(partial(bucket_and_key, given[name]) for name in ADDRESSES if in_bucket(given[name])),
        *([] if "sandbox_url" in empty else [partial(addresses_in, given["sandbox_url"])]),
        *([partial(check_run_id, given["resume_run"], "resume_run")] if given["resume_run"] else []),
        *([partial(check_model_name, given["publish_as"], "publish_as")] if given["publish_as"] else []),
    ]
    for parse in parsed:
        try:
            parse()
        except UserError as error:
            wrong.append(str(error))
    return wrong


def _wrong_ranges(given: Mapping[str, Any]) -> list[str]:
    wrong = []
    for name, (low, high) in RANGES.items():
        value = given[name]
        inside = low <= value <= high and not (name in OPEN_BELOW and value == low) and math.isfinite(value)
        if not inside:
            lower = f"greater than {low:g}" if name in OPEN_BELOW else f"at least {low:g}"
            upper = "" if high == INFINITE else f" and at most {high:.10g}"
            wrong.append(f"{name} {value:.10g} is out of range: it must be {lower}{upper}.")
    return wrong


def _wrong_batch(given: Mapping[str, Any]) -> list[str]:
    wrong = []
    batch, group, micro = given["batch_size"], given["num_generations"], given["micro_batch_size"]
    if batch % group:
        fitting = sorted({max(group, batch - batch % group), batch - batch % group + group})
        divisors = [size for size in range(2, min(batch, 64) + 1) if batch % size == 0]
        wrong.append(
            f"batch_size {batch} is not divisible by num_generations {group}: use batch_size "
            f"{' or '.join(map(str, fitting))}, or num_generations {' or '.join(map(str, divisors))}."
        )
    elif micro and batch % micro:
        divisors = [size for size in range(1, batch + 1) if batch % size == 0]
        wrong.append(
            f"micro_batch_size {micro} does not divide batch_size {batch}: use one of {', '.join(map(str, divisors))}, "
            "or 0 for auto."
        )
    processes = training_processes(batch, int(given["gpus"]))
    share = batch // processes
    if micro and processes > 1 and not batch % micro and share % micro:
        wrong.append(
            f"micro_batch_size {micro} does not divide the {share} completions that each of {processes} GPUs gets of a "
            "step: use a divisor of that, or 0 for auto."
        )
    tokens, one_group = given["dynamic_sampling_tokens"], group * given["max_completion_length"]
    if 0 < tokens < one_group:
        wrong.append(
            f"dynamic_sampling_tokens {tokens} is less than one group may take (num_generations {group} x "
            f"max_completion_length {given['max_completion_length']}): use at least {one_group}, or 0 to draw no other."
        )
    if tokens and processes > 1:
        wrong.append("dynamic_sampling_tokens needs a single process: set gpus to 1, or dynamic_sampling_tokens to 0.")
    if tokens and given["reward"] == "random":
        wrong.append("dynamic_sampling_tokens needs reward tests: coin flips say nothing about a group.")
    if given["num_eval_examples"] > given["max_eval_samples"]:
        wrong.append(
            f"num_eval_examples {given['num_eval_examples']} is larger than the held-out pool of max_eval_samples "
            f"{given['max_eval_samples']}: lower the first or raise the second."
        )
    return wrong


def training_processes(batch_size: int, gpus: int) -> int:
    """How many processes train on a machine with so many GPUs: one a GPU, as many as divide the batch."""
    return max(count for count in range(1, max(1, gpus) + 1) if batch_size % count == 0)


def unknown_dataset(dataset: str) -> UserError:
    """What to say of a data set whose name is none."""
    near = difflib.get_close_matches(dataset, NAMED_DATASETS, n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return UserError(f"The data set {dataset!r} is unknown: {DATASET_FORMS}.{meant}")


def unknown_format(dataset: str) -> UserError:
    """What to say of a file that is no data set."""
    return UserError(f"The data set {dataset} has an unknown format: {DATASET_FORMS}.")


def split_names(candidate_splits: str) -> tuple[str, ...]:
    """The splits in parameter candidate_splits, `all` written out."""
    names = tuple(name.strip() for name in candidate_splits.split(",") if name.strip())
    return SPLITS if names == ("all",) else names


def tracker_names(trackers: str) -> list[str]:
    """The names in parameter trackers, each once; UserError when one is unknown."""
    names = list(dict.fromkeys(name.strip() for name in trackers.split(",") if name.strip()))
    unknown = [name for name in names if name not in TRACKERS]
    if unknown:
        raise UserError(f"trackers names {', '.join(unknown)}: use {', '.join(TRACKERS)}, or leave it empty.")
    return names


def _wrong_splits(given: Mapping[str, Any]) -> list[str]:
    names = split_names(given["candidate_splits"])
    unknown = [name for name in names if name not in SPLITS]
    if not names or unknown:
        what = f"names {', '.join(map(repr, unknown))}" if unknown else "is empty"
        return [f"candidate_splits {what}: use a comma list of {', '.join(SPLITS[:3])}, or all."]
    if "test" in names and given["candidate_splits"].strip() != "all":
        return ["candidate_splits names test, which the held-out problems come from: use all to add the rest of it."]
    return []


def _wrong_overrides(given: Mapping[str, Any]) -> list[str]:
    try:
        parse_overrides(given["grpo_overrides"])
    except UserError as error:
        return [str(error)]
    return []


def _wrong_series(given: Mapping[str, Any]) -> list[str]:
    if given["publish_as"] and given["reward"] == "random":
        return ["publish_as needs reward tests: what coin flips have taught is not to be published."]
    if given["init_adapter"] and given["method"] == "full":
        return ["init_adapter needs method lora or qlora: method full trains no adapter."]
    return []


def _warnings(given: Mapping[str, Any]) -> list[str]:
    warnings = []
    if given["use_filter"] and given["filter_samples"] < 3:
        warnings.append("filter_samples below 3 says little about how often a problem is solved.")
    if "test" in split_names(given["candidate_splits"]):
        warnings.append(NOT_COMPARABLE)
    if given["export_merged"] != "no" and given["method"] == "full":
        warnings.append("export_merged has no effect with method full, which trains no adapter.")
    if given["publish_as"] and "validation" in split_names(given["candidate_splits"]):
        warnings.append(
            "publish_as is decided on validation problems, and candidate_splits takes them for training: few may be "
            "left, and few find only large differences (90 problems at eval_k 4: 8 to 11 points); "
            f"candidate_splits {','.join(PUBLISHABLE_SPLITS)} leaves all of them."
        )
    if given["reward"] == "random":
        warnings.append("reward random is a control: rewards are coin flips, and no learning is expected.")
    return warnings
