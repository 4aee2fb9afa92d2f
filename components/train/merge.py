"""Base and adapter merged into one model, and what the merge lost, measured on the files that were written.

An update of RL is small beside its weight: stored in 16 bits, part of it can fall below the last digit. So the files
are read back and compared with the adapter on the base as it was trained: the update itself, weight by weight, and
what the model says, as the log-probabilities of tokens that training had sampled.
"""

import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from safetensors import safe_open
from transformers import AutoTokenizer

from components.shared.errors import UserError
from components.shared.models import DTYPES, load_adapter, load_base, load_model
from components.shared.progress import say
from components.train.export import TOKENIZER, copy_files

LARGEST_FILE = "5GB"
MOST_TOKENS = 4096  # enough to tell a loss of a hundredth from none, and minutes even for 7B on a CPU
LOSS_TO_WARN_OF = 0.05
Text = tuple[str, str]  # what the model read, what it wrote


def add_merged(
    target: Path, texts: Sequence[Text], *, model_name: str, model_revision: str, method: str, precision: str, into: str
) -> dict[str, Any]:
    """Write `target`/merged in precision `into` from `target`/adapter, and return what the merge lost (see `losses`).

    texts: prompts with completions of the policy, to compare on; UserError when there are none.
    """
    if not any(written for _, written in texts):
        raise UserError("export_merged has nothing to measure the merge with: training has left no completion.")
    adapter, folder = target / "adapter", target / "merged"
    merged = load_adapter(load_model(model_name, model_revision, DTYPES[into]), adapter).merge_and_unload()
    merged.save_pretrained(folder, max_shard_size=LARGEST_FILE)
    for file in folder.iterdir():
        file.chmod(0o644)
    copy_files(adapter, folder, (*TOKENIZER, "generation_config.json"))
    del merged
    free()
    trained = load_adapter(load_base(model_name, model_revision, method=method, precision=precision), adapter)
    tokens = encoded(AutoTokenizer.from_pretrained(adapter), texts)
    wanted = logprobs(trained, tokens)
    with trained.disable_adapter():
        base = logprobs(trained, tokens)
    kept = None if method == "qlora" else update_kept(trained, folder)
    del trained
    free()
    stored = logprobs(load_model(str(folder), "", DTYPES[into]), tokens)
    free()
    found = {"precision": into, "update_kept": kept, **losses(base, wanted, stored)}
    tell(found)
    return found


def losses(base: torch.Tensor, wanted: torch.Tensor, stored: torch.Tensor) -> dict[str, float | int | None]:
    """What the merge changed, from log-probabilities (nats) of the same tokens, each of shape (tokens,).

    logprob_error: mean distance of the merged files from the adapter; logprob_trained: that of the adapter from the
    base, which is what training did; lost: their ratio, None where training did nothing.
    """
    error, trained = (wanted - stored).abs().mean().item(), (wanted - base).abs().mean().item()
    return {
        "tokens": wanted.numel(),
        "logprob_error": error,
        "logprob_trained": trained,
        "lost": error / trained if trained else None,
    }


def tell(found: dict[str, Any]) -> None:
    """Say the loss in the log, as a warning where it is worth one."""
    lost = found["lost"]
    said = "training changed nothing" if lost is None else f"{lost:.2%} of what training changed is lost"
    warned = "warning: " if lost is not None and lost > LOSS_TO_WARN_OF else ""
    advice = ": use the adapter, or export_merged fp32" if warned and found["precision"] != "fp32" else ""
    say("train", f"{warned}merged in {found['precision']}, {said}, by the files over {found['tokens']} tokens{advice}")


def encoded(tokenizer: Any, texts: Sequence[Text]) -> list[tuple[torch.Tensor, int]]:
    """Token ids of shape (1, length) for each text with the length of its prompt, up to MOST_TOKENS in all."""
    rows: list[tuple[torch.Tensor, int]] = []
    total = 0
    for read, written in texts:
        start, end = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in (read, written))
        total += len(start) + len(end)
        if start and end and (not rows or total <= MOST_TOKENS):
            rows.append((torch.tensor([start + end]), len(start)))
    return rows


@torch.no_grad()
def logprobs(model: Any, rows: Sequence[tuple[torch.Tensor, int]]) -> torch.Tensor:
    """Log-probability of each completion token of all rows, in fp32, shape (tokens,)."""
    found = []
    for ids, start in rows:
        logits = model(input_ids=ids.to(model.device)).logits[0, start - 1 : -1].float()
        written = ids[0, start:].to(logits.device)
        found.append(logits.log_softmax(-1).gather(1, written[:, None])[:, 0].cpu())
    return torch.cat(found)


@torch.no_grad()
def update_kept(trained: Any, folder: Path) -> float:
    """Cosine between the adapter's update of all weights and what the files hold of it; 1 when nothing is lost."""
    dot = meant = held = 0.0
    modules = trained.base_model.model.named_modules()
    adapted: dict[str, Any] = {name: module for name, module in modules if isinstance(module, LoraLayer)}
    for name, layer in adapted.items():
        base = layer.get_base_layer().weight.float().cpu()
        update = layer.get_delta_weight("default").float().cpu()
        difference = stored_tensor(folder, f"{name}.weight").float() - base
        dot += (update * difference).sum().item()
        meant, held = meant + update.pow(2).sum().item(), held + difference.pow(2).sum().item()
    return dot / (meant * held) ** 0.5 if meant and held else 0.0


def stored_tensor(folder: Path, name: str) -> torch.Tensor:
    """One tensor of a saved model, by its name; KeyError when no file has it."""
    for file in _files(folder):
        with safe_open(file, framework="pt") as opened:
            if name in opened.keys():  # noqa: SIM118 - it is no dictionary
                tensor: torch.Tensor = opened.get_tensor(name)
                return tensor
    raise KeyError(name)


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("*.safetensors"))


def free() -> None:
    """Give back the memory of models that are no longer referenced."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
