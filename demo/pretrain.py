"""Pretraining of a tiny Qwen2-architecture model on documents, on one CPU thread.

The recipe: Muon on the matrices (learning rate matched to AdamW's update size), AdamW on embeddings and norms,
linear warm-up and cosine decay, and a small weight on the context's tokens, whose prediction is not the aim. At an
equal number of steps Muon reaches a given loss in about half of AdamW's time on this model.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerBase, Qwen2Config, Qwen2ForCausalLM

from demo.corpus import Document

MUON_LEARNING_RATE, ADAMW_LEARNING_RATE = 8e-3, 5e-3
LAST_LEARNING_RATE_SHARE = 0.05
CONTEXT_TOKEN_WEIGHT = 0.2
# Batches of similar length are cut from chunks of this many batches, which keeps padding small and order random.
BATCHES_PER_CHUNK = 16


@dataclass(frozen=True)
class Shape:
    """The size of a model; `context` is the longest text in tokens."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    context: int


@dataclass(frozen=True)
class Encoded:
    """A document's token ids; the first `context_length` belong to the context."""

    ids: list[int]
    context_length: int


def new_model(shape: Shape, tokenizer: PreTrainedTokenizerBase, *, seed: int) -> Qwen2ForCausalLM:
    """An untrained float32 model with tied embeddings and the tokenizer's special tokens."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        intermediate_size=shape.intermediate,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2ForCausalLM(config)


def encode(document: Document, tokenizer: PreTrainedTokenizerBase) -> Encoded:
    """Token ids of context, continuation and ending, each tokenised by itself.

    Generation starts after the tokens of a prompt, so a token must not span the boundary: tokenised as one text,
    the "):" of a signature and the newline after it would merge.
    """
    context = tokenizer(document.context)["input_ids"]
    continuation = tokenizer(document.continuation)["input_ids"]
    ending = [tokenizer.convert_tokens_to_ids(document.ending)] if document.ending else []
    return Encoded(context + continuation + ending, len(context))


def batches(encoded: Sequence[Encoded], size: int, rng: random.Random) -> Iterator[list[Encoded]]:
    """Endless batches of `size` documents of similar length, in a new random order each time through."""
    if len(encoded) < size:
        raise ValueError(f"{len(encoded)} documents do not fill one batch of {size}")
    while True:
        order = rng.sample(encoded, len(encoded))
        chunk = size * BATCHES_PER_CHUNK
        cut: list[list[Encoded]] = []
        for start in range(0, len(order), chunk):
            alike = sorted(order[start : start + chunk], key=lambda document: len(document.ids))
            cut += [alike[first : first + size] for first in range(0, len(alike) - size + 1, size)]
        rng.shuffle(cut)
        yield from cut


def weighted_loss(model: Qwen2ForCausalLM, batch: Sequence[Encoded], padding: int) -> torch.Tensor:
    """Cross entropy per token (nats) of a batch, context tokens counting CONTEXT_TOKEN_WEIGHT, padding nothing."""
    longest = max(len(document.ids) for document in batch)
    ids = torch.full((len(batch), longest), padding)
    weights = torch.zeros(len(batch), longest)
    for row, document in enumerate(batch):
        ids[row, : len(document.ids)] = torch.tensor(document.ids)
        weights[row, : len(document.ids)] = 1.0
        weights[row, : document.context_length] = CONTEXT_TOKEN_WEIGHT
    # Padding is on the right and attention looks left only: no mask is needed.
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    losses = cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    return (losses * weights[:, 1:]).sum() / weights[:, 1:].sum()


def _optimizers(
    model: Qwen2ForCausalLM, steps: int
) -> list[tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]]:
    """Muon for the matrices inside the layers, AdamW for everything else, each with its schedule."""
    matrices = [weight for name, weight in model.named_parameters() if weight.ndim == 2 and "embed" not in name]
    others = [weight for name, weight in model.named_parameters() if weight.ndim != 2 or "embed" in name]
    warm_up = max(1, min(60, steps // 10))

    def share(step: int) -> float:
        cosine = 0.5 * (1 + math.cos(math.pi * min(1, step / steps)))
        return min(1, (step + 1) / warm_up) * (LAST_LEARNING_RATE_SHARE + (1 - LAST_LEARNING_RATE_SHARE) * cosine)

    pair: tuple[torch.optim.Optimizer, ...] = (
        torch.optim.Muon(matrices, lr=MUON_LEARNING_RATE, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=ADAMW_LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.0),
    )
    return [(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, share)) for optimizer in pair]


def pretrain(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    documents: Sequence[Document],
    *,
    steps: int,
    batch_size: int,
    seed: int,
) -> None:
    """Train a float32 model, new or not, in place for `steps` steps of `batch_size` documents; ready to generate after.

    The result repeats bit by bit for a seed on one machine with one thread. Documents without an ending give a base
    that never says that it has finished. Raises ValueError where a document exceeds the context.
    """
    encoded = [encode(document, tokenizer) for document in documents]
    longest = max(len(document.ids) for document in encoded)
    context = model.config.max_position_embeddings
    if longest > context:
        raise ValueError(f"a document has {longest} tokens, the model's context only {context}")
    model.train()
    optimizers = _optimizers(model, steps)
    source = batches(encoded, batch_size, random.Random(seed))
    for _ in range(steps):
        loss = weighted_loss(model, next(source), tokenizer.pad_token_id)
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in optimizers:
            optimizer.step()
            schedule.step()
    model.eval()
