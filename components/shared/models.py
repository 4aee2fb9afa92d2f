"""Models, tokenizers and adapters, loaded in one way for filter, train and evaluate alike.

What cannot be loaded ends in one sentence: a user's mistake, or the hub that could not be reached.
"""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

from components.shared.errors import InfraError, UserError
from components.shared.mirror import local_model

transformers.utils.logging.disable_progress_bar()  # a step's log has lines of its own

PRECISIONS = ("auto", "bf16", "fp16", "fp32")
# How allocators without an exception of their own say it: torch's on a CPU, cuBLAS's, CUDA's, C++'s.
OUT_OF_MEMORY = ("DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: out of memory", "std::bad_alloc")
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def resolve_precision(precision: str) -> torch.dtype:
    """The dtype for a `precision` setting: auto = bf16 where CUDA has it, fp16 on other CUDA, fp32 without a GPU."""
    if precision not in PRECISIONS:
        raise UserError(f"precision {precision!r} is unknown: use one of {', '.join(PRECISIONS)}.")
    if precision == "auto":
        if not torch.cuda.is_available():
            return torch.float32
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if precision == "fp16" and not torch.cuda.is_available():
        raise UserError("precision fp16 needs a CUDA GPU: use fp32 (or auto) on a CPU.")
    return DTYPES[precision]


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch could not get memory, on a GPU or on a CPU (where it has no exception of its own)."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in OUT_OF_MEMORY)
    )


def free_memory() -> None:
    """Give back what nothing refers to any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def load_tokenizer(model_name: str, revision: str, *, use_chat_template: bool) -> Any:
    """The model's tokenizer, padding on the left, with a pad token; UserError when there is none."""
    tokenizer = _loaded("tokenizer", AutoTokenizer.from_pretrained, model_name, revision)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.eos_token_id is None:
        raise UserError(f"The tokenizer of {model_name} has no EOS token, so no completion could end by itself.")
    if use_chat_template and not tokenizer.chat_template:
        raise UserError(f"{model_name} has no chat template: use --no-use-chat-template, or an -Instruct model.")
    return tokenizer


def load_model(model_name: str, revision: str, dtype: torch.dtype, **options: Any) -> Any:
    """The base model in `dtype` on the device, in evaluation mode; UserError when it cannot be found."""
    model = _loaded("model", AutoModelForCausalLM.from_pretrained, model_name, revision, dtype=dtype, **options)
    return (model if "quantization_config" in options else model.to(device())).eval()


def load_base(model_name: str, revision: str, *, method: str, precision: str) -> Any:
    """The base as a method trains on it: for qlora in 4 bits (NF4, Dettmers et al. 2023), else at the precision."""
    dtype = resolve_precision(precision)
    if method != "qlora":
        return load_model(model_name, revision, dtype)
    if not torch.cuda.is_available():
        raise UserError("method qlora needs a CUDA GPU for its 4-bit base: use lora on this machine.")
    config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    return load_model(
        model_name, revision, dtype, quantization_config=config, device_map={"": torch.cuda.current_device()}
    )


def load_adapter(model: Any, adapter: Path) -> Any:
    """The base model with the adapter of `adapter` on top, not merged: merging in bf16 can lose small updates.

    UserError when the adapter does not fit the model.
    """
    from peft import PeftModel

    try:
        return PeftModel.from_pretrained(model, str(adapter)).eval()
    except (RuntimeError, ValueError, OSError) as error:
        if is_out_of_memory(error):
            raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"The adapter in {adapter} does not fit this base ({reason}): give its own base.") from None


def _loaded(what: str, load: Callable[..., Any], model_name: str, revision: str, **options: Any) -> Any:
    source, source_revision = local_model(model_name, revision)
    if Path(source).is_dir():
        return _from_folder(what, load, source, options)
    try:
        return load(source, revision=source_revision, **options)
    except (OSError, ValueError) as error:
        text = str(error)
        if "couldn't connect" in text or "Connection" in text or "offline" in text.lower():
            raise InfraError(f"The model hub could not be reached for the {what} of {model_name}.") from None
        raise UserError(
            f"The {what} of {model_name!r} cannot be loaded ({text.splitlines()[0] if text else error}): "
            "name a model on the hub or a directory that holds one."
        ) from None


def _from_folder(what: str, load: Callable[..., Any], folder: str, options: dict[str, Any]) -> Any:
    wanted = ("tokenizer.json", "tokenizer.model", "vocab.json") if what == "tokenizer" else ("config.json",)
    if not any((Path(folder) / name).is_file() for name in wanted):
        raise UserError(f"The directory {folder} holds no {what}: {' or '.join(wanted)} is missing.")
    try:
        return load(folder, **options)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"The {what} in {folder} cannot be loaded: {str(error).splitlines()[0]}.") from None
