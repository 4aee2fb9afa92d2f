"""TRL's GRPOTrainer, set up from the pipeline's parameters.

What departs from TRL's defaults, and why: truncated completions are masked; beta comes from the user (TRL's is 0);
prompts come in the order they are given (see schedule.py); rollouts and rewards are ours (rollouts.py, rewards.py);
the device's precision is the model's own dtype, not only the trainer's flag.
"""

import logging
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is experimental, and we pin TRL for it
warnings.filterwarnings("ignore", category=FutureWarning)

import torch  # noqa: E402
import transformers  # noqa: E402
from datasets import Dataset  # noqa: E402
from peft import LoraConfig  # noqa: E402
from transformers.pytorch_utils import Conv1D  # noqa: E402
from transformers.trainer_callback import PrinterCallback  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

from components.overrides import parse_overrides  # noqa: E402
from components.shared.errors import UserError  # noqa: E402
from components.shared.models import load_base, load_model, resolve_precision  # noqa: E402
from components.shared.problem import Problem  # noqa: E402
from components.train.rewards import TestReward  # noqa: E402
from components.train.rollouts import Rollouts  # noqa: E402
from components.train.schedule import Schedule  # noqa: E402

transformers.logging.set_verbosity_error()
ALL_LINEAR = "all-linear"


def load_policy(model_name: str, model_revision: str, *, method: str, precision: str) -> Any:
    """The base model that training starts from.

    Full fine-tuning in fp16 keeps fp32 weights and computes in fp16, since a gradient scaler needs fp32 weights.
    """
    if method == "full" and resolve_precision(precision) == torch.float16:
        return load_model(model_name, model_revision, torch.float32)
    return load_base(model_name, model_revision, method=method, precision=precision)


def make_config(
    *,
    folder: Path,
    schedule: Schedule,
    lr: float,
    beta: float,
    num_generations: int,
    max_completion_length: int,
    temperature: float,
    top_p: float,
    precision: str,
    seed: int,
    grpo_overrides: str,
) -> GRPOConfig:
    """GRPOConfig for one process; UserError for an override that GRPOConfig does not take."""
    dtype, on_gpu = resolve_precision(precision), torch.cuda.is_available()
    ours = {
        "output_dir": str(folder),
        "max_steps": schedule.steps,
        "per_device_train_batch_size": schedule.micro_batch_size,
        "gradient_accumulation_steps": schedule.accumulation,
        "num_generations": num_generations,
        "max_completion_length": max_completion_length,
        "temperature": temperature,
        "top_p": top_p,
        "learning_rate": lr,
        "beta": beta,
        "mask_truncated_completions": True,
        "shuffle_dataset": False,
        "seed": seed,
        "bf16": on_gpu and dtype == torch.bfloat16,
        "fp16": on_gpu and dtype == torch.float16,
        "use_cpu": not on_gpu,
        "activation_checkpointing": on_gpu,
        "dataloader_pin_memory": on_gpu,
        "save_strategy": "no",  # the callback decides when
        "save_total_limit": 1,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # a loss that is no number must be seen
        "disable_tqdm": True,
        "report_to": "none",  # trackers come after the callback that measures, see trackers.py
        "ddp_backend": ("nccl" if on_gpu else "gloo") if schedule.processes > 1 else None,
        "ddp_find_unused_parameters": False if schedule.processes > 1 else None,
    }
    try:
        return GRPOConfig(**{**ours, **parse_overrides(grpo_overrides)})
    except (TypeError, ValueError) as error:
        raise UserError(f"grpo_overrides: GRPOConfig refuses the settings ({error}).") from None


def make_trainer(
    *,
    policy: Any,
    tokenizer: Any,
    config: GRPOConfig,
    order: Sequence[Problem],
    rollouts: Rollouts,
    reward: TestReward,
    method: str,
    lora_r: int,
    lora_alpha: int,
    lora_target_modules: str,
    callbacks: Sequence[Any],
) -> GRPOTrainer:
    """The trainer over `order`, one row a prompt. With an adapter KL is taken to the base by switching it off."""
    adapter = LoraConfig(
        r=lora_r,
        lora_alpha=lora_alpha,
        lora_dropout=0.0,
        target_modules=target_modules(policy, lora_target_modules),
        task_type="CAUSAL_LM",
    )
    _pin_reference(policy, config)
    trainer = GRPOTrainer(
        model=policy,
        args=config,
        reward_funcs=[reward],
        train_dataset=Dataset.from_list([{"prompt": one.prompt, "task_id": one.task_id} for one in order]),
        processing_class=tokenizer,
        peft_config=None if method == "full" else adapter,
        rollout_func=rollouts,
        callbacks=list(callbacks),
    )
    trainer.remove_callback(PrinterCallback)
    if method != "full":
        _in_fp32(trainer.model)
    return trainer


def _pin_reference(policy: Any, config: GRPOConfig) -> None:
    """Have TRL take the reference copy, which it loads itself by the policy's name, from the policy's own commit.

    Only models that came from the hub have one. For the policy TRL would warn that it ignores this.
    """
    commit = getattr(policy.config, "_commit_hash", None)
    if commit:
        logging.getLogger("trl.trainer.grpo_trainer").setLevel(logging.ERROR)
        config.model_init_kwargs = {"revision": commit}


def target_modules(policy: Any, wanted: str) -> str | list[str]:
    """Parameter lora_target_modules as peft takes it; UserError that names the layers which the model does not have."""
    if wanted.strip() == ALL_LINEAR:
        return ALL_LINEAR
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    head = policy.get_output_embeddings()
    linear = {
        name
        for name, module in policy.named_modules()
        # 4-bit layers of bitsandbytes are Linear, too; Conv1D is GPT-2's name for one.
        if isinstance(module, torch.nn.Linear | Conv1D) and module is not head
    }
    missing = [name for name in names if not any(one == name or one.endswith(f".{name}") for one in linear)]
    if missing or not names:
        known = sorted({name.rsplit(".", 1)[-1] for name in linear})
        raise UserError(
            f"lora_target_modules: the model has no linear layer {', '.join(missing) or 'of an empty name'}; it has "
            f"{', '.join(known)}, or use {ALL_LINEAR}."
        )
    return names


def _in_fp32(policy: Any) -> None:
    """Keep the adapter's weights in fp32: TRL makes them bf16 on a 4-bit base, which rounds small updates away."""
    for parameter in policy.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
