"""Parameter grpo_overrides: which settings of TRL's GRPOConfig a user may reach, with which values, and how others are
refused.

TRL is not asked, which would take seconds and torch: a mistake is told at submit, and by the pipeline's first step.
"""

import difflib
import json
from typing import Any

from components.shared.errors import UserError

# The fields of GRPOConfig that are open, by the kinds of JSON value that each takes; a test compares them with the
# installed TRL and prints what has to stand here.
_FIELDS = {
    "bool": """
        average_tokens_across_devices batch_eval_metrics bf16_full_eval cast_lm_head_to_fp32
        dataloader_drop_last dataloader_in_order dataloader_persistent_workers dataloader_pin_memory
        disable_dropout do_train ds3_gather_for_generation eval_do_concat_batches eval_use_gather_object
        fp16_full_eval full_determinism gradient_checkpointing hub_always_push log_multimodal log_on_each_node
        log_unique_prompts prediction_loss_only restore_callback_states_from_checkpoint save_on_each_node
        skip_memory_metrics sync_ref_model torch_compile use_adaptive_entropy use_bias_correction_kl use_cache
        use_liger_kernel vllm_enable_sleep_mode vllm_importance_sampling_correction
    """,
    "int": """
        dataloader_num_workers ddp_timeout local_rank per_device_eval_batch_size ref_model_sync_steps
        vllm_group_port vllm_server_port vllm_tensor_parallel_size
    """,
    "list": """
        include_for_metrics
    """,
    "number": """
        adam_beta1 adam_beta2 adam_epsilon entropy_coef entropy_coef_delta entropy_coef_max entropy_coef_min
        entropy_target epsilon eval_delay label_smoothing_factor ref_model_mixup_alpha
        sapo_temperature_neg sapo_temperature_pos top_entropy_quantile vespo_k_neg vespo_k_pos vespo_lambda_neg
        vespo_lambda_pos vllm_gpu_memory_utilization vllm_server_timeout warmup_steps weight_decay
    """,
    "str": """
        hub_strategy importance_sampling_level length_column_name log_level log_level_replica loss_type
        lr_scheduler_type multi_objective_aggregation optim train_sampling_strategy
        vllm_importance_sampling_mode vllm_mode vllm_model_impl vllm_server_host
    """,
    "bool null": """
        activation_checkpointing ddp_broadcast_buffers ddp_find_unused_parameters ddp_static_graph disable_tqdm
        greater_is_better hub_private_repo tf32
    """,
    "bool str": """
        include_num_input_tokens_seen scale_rewards
    """,
    "dict null": """
        liger_kernel_config
    """,
    "int null": """
        dataloader_prefetch_factor ddp_bucket_cap_mb eval_accumulation_steps max_tool_calling_iterations
        num_completions_to_print torch_empty_cache_steps vllm_max_model_length
    """,
    "list null": """
        label_names reward_weights
    """,
    "number null": """
        delta epsilon_high max_grad_norm neftune_noise_alpha off_policy_mask_threshold router_aux_loss_coef
        vllm_importance_sampling_cap vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min
    """,
    "str list": """
        debug
    """,
    "str null": """
        dataloader_multiprocessing_context ddp_backend hub_revision metric_for_best_model optim_args
        torch_compile_backend torch_compile_mode trackio_bucket_id trackio_space_id vllm_server_base_url
        vllm_structured_outputs_regex
    """,
    "bool str null": """
        trackio_static_space_id
    """,
    "int str null": """
        pad_to_multiple_of
    """,
    "str dict null": """
        accelerator_config activation_checkpointing_kwargs gradient_checkpointing_kwargs lr_scheduler_kwargs
        transformers_continuous_batching_config
    """,
    "str list null": """
        optim_target_modules
    """,
}
KINDS: dict[str, tuple[str, ...]] = {
    name: tuple(kinds.split()) for kinds, names in _FIELDS.items() for name in names.split()
}
_LOG_LEVELS = "detail debug info warning error critical passive"
# The texts that a field takes, where these are only some; without those that need what is closed (an evaluation).
CHOICES: dict[str, tuple[str, ...]] = {
    name: tuple(texts.split())
    for name, texts in {
        "dataloader_multiprocessing_context": "fork spawn forkserver",
        "ddp_backend": "nccl gloo mpi xccl hccl cncl mccl",
        "debug": "underflow_overflow tpu_metrics_debug",
        "hub_strategy": "end every_save checkpoint all_checkpoints",
        "importance_sampling_level": "token sequence",
        "include_num_input_tokens_seen": "all non_padding no",
        "log_level": _LOG_LEVELS,
        "log_level_replica": _LOG_LEVELS,
        "loss_type": "bnpo cispo dapo dr_grpo grpo luspo sapo vespo",
        "lr_scheduler_type": """
            linear cosine cosine_with_restarts polynomial constant constant_with_warmup inverse_sqrt cosine_with_min_lr
            cosine_warmup_with_min_lr warmup_stable_decay
        """,
        "multi_objective_aggregation": "normalize_then_sum sum_then_normalize",
        "optim": """
            adamw_torch adamw_torch_fused adamw_torch_xla adamw_torch_npu_fused adafactor adamw_anyprecision
            adamw_torch_4bit adamw_torch_8bit ademamix sgd adagrad adamw_bnb_8bit adamw_8bit ademamix_8bit lion_8bit
            lion_32bit paged_adamw_32bit paged_adamw_8bit paged_ademamix_32bit paged_ademamix_8bit paged_lion_32bit
            paged_lion_8bit rmsprop rmsprop_bnb rmsprop_bnb_8bit rmsprop_bnb_32bit galore_adamw galore_adamw_8bit
            galore_adafactor galore_adamw_layerwise galore_adamw_8bit_layerwise galore_adafactor_layerwise lomo adalomo
            grokadamw schedule_free_radam schedule_free_adamw schedule_free_sgd apollo_adamw apollo_adamw_layerwise
            stable_adamw
        """,
        "scale_rewards": "batch group none",
        "train_sampling_strategy": "random sequential group_by_length batch_rebalance",
    }.items()
}
LEAST = {"warmup_steps": 0, "torch_empty_cache_steps": 1}
_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "number": "a number",
    "str": "a text",
    "list": "a list",
    "dict": "an object",
    "null": "null",
}
# Keys of GRPOConfig that the product sets itself, each with the parameter to use instead (or why it is closed).
RESERVED_OVERRIDES: dict[str, str] = {
    "learning_rate": "lr",
    "num_train_epochs": "epochs",
    "max_steps": "epochs and max_candidate_samples",
    "per_device_train_batch_size": "micro_batch_size",
    "gradient_accumulation_steps": "batch_size and micro_batch_size",
    "generation_batch_size": "batch_size",
    "steps_per_generation": "batch_size",
    "num_generations": "num_generations",
    "max_completion_length": "max_completion_length",
    "temperature": "temperature",
    "top_p": "top_p",
    "beta": "beta",
    "seed": "seed",
    "data_seed": "seed",
    "bf16": "precision",
    "fp16": "precision",
    "use_cpu": "nothing: it follows the machine",
    "output_dir": "nothing: the store decides",
    "save_steps": "save_steps",
    "save_strategy": "save_steps",
    "save_total_limit": "keep_checkpoints",
    "shuffle_dataset": "nothing: the order of prompts is fixed by the seed so that a run can resume exactly",
    "resume_from_checkpoint": "resume_run",
    "mask_truncated_completions": "nothing: truncated completions are always kept out of the loss",
    "model_init_kwargs": "precision and model_revision",
    "chat_template_kwargs": "use_chat_template",
    "trust_remote_code": "nothing: code that comes with a model is never run",
    "remove_unused_columns": "nothing: rewards need all columns",
    "use_vllm": "nothing yet: completions are sampled by the model itself",
    **dict.fromkeys(("report_to", "run_name", "project"), "trackers"),
    **dict.fromkeys(
        ("top_k", "min_p", "repetition_penalty", "generation_kwargs", "cache_implementation"),
        "nothing: filter, training and evaluation draw from the same distribution, by temperature and top_p",
    ),
    **dict.fromkeys(
        ("logging_steps", "logging_strategy", "logging_first_step", "logging_nan_inf_filter"),
        "nothing: every step is written down",
    ),
    **dict.fromkeys(
        ("save_only_model", "ignore_data_skip", "enable_jit_checkpoint", "load_best_model_at_end"),
        "nothing: checkpoints hold all that an exact resume needs",
    ),
    **dict.fromkeys(
        ("eval_strategy", "do_eval", "eval_steps", "eval_on_start", "do_predict", "num_generations_eval"),
        "nothing: the step evaluate judges the model",
    ),
    **dict.fromkeys(("deepspeed", "fsdp", "fsdp_config", "parallelism_config"), "gpus"),
    **dict.fromkeys(
        ("push_to_hub", "hub_model_id", "hub_token", "log_completions", "log_completions_hub_repo"),
        "nothing: what a run leaves goes to the store",
    ),
    **dict.fromkeys(
        ("auto_find_batch_size", "use_transformers_paged", "use_transformers_continuous_batching"),
        "nothing: batches are cut by micro_batch_size",
    ),
    "num_iterations": "epochs",
}


GRPO_FIELDS = frozenset((*KINDS, *RESERVED_OVERRIDES))


def parse_overrides(text: str) -> dict[str, Any]:
    """The JSON object in parameter grpo_overrides; UserError when it is none, holds an unknown or a reserved key, or a
    value of a kind that its key does not take."""
    try:
        overrides = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise UserError(f'grpo_overrides is no JSON ({error}): write it like {{"epsilon_high": 0.28}}.') from None
    if not isinstance(overrides, dict):
        raise UserError('grpo_overrides must be a JSON object: write it like {"epsilon_high": 0.28}.')
    for key, value in overrides.items():
        if key in RESERVED_OVERRIDES:
            raise UserError(f"grpo_overrides may not set {key}: use {RESERVED_OVERRIDES[key]} instead.")
        if key not in GRPO_FIELDS:
            near = difflib.get_close_matches(key, GRPO_FIELDS, n=1)
            raise UserError(f"grpo_overrides: GRPOConfig has no {key}{f': did you mean {near[0]}?' if near else '.'}")
        _refuse_wrong_value(key, value)
    return overrides


def _refuse_wrong_value(key: str, value: Any) -> None:
    kind, choices, least = _kind_of(value), CHOICES.get(key), LEAST.get(key)
    taken = {*KINDS[key], *(["int"] if "number" in KINDS[key] else [])}
    if kind not in taken:
        words = [_one_of(choices) if choices and each == "str" else _WORDS[each] for each in KINDS[key]]
        raise UserError(f"grpo_overrides: {key} is {json.dumps(value)}: use {', or '.join(words)}.")
    if choices and kind == "str":
        # GRPOConfig takes several of `debug`, with spaces between them.
        for text in value.split() if key == "debug" else [value]:
            if text not in choices:
                near = difflib.get_close_matches(text, choices, n=1, cutoff=0.75)
                right = f"did you mean {near[0]}?" if near else f"use {_one_of(choices)}."
                raise UserError(f"grpo_overrides: {key} knows no {json.dumps(text)}: {right}")
    if least is not None and kind in ("int", "number") and value < least:
        raise UserError(f"grpo_overrides: {key} {value} is out of range: it must be at least {least}.")


def _kind_of(value: Any) -> str:
    """The kind of a value that json has read."""
    kinds = {bool: "bool", int: "int", float: "number", str: "str", list: "list", dict: "dict", type(None): "null"}
    return kinds[type(value)]


def _one_of(choices: tuple[str, ...]) -> str:
    return f"one of {', '.join(choices)}"
