"""A base that never says that it has finished, made from the demo's model in seconds, for tests of training.

The demo's model is trained on a little more: documents in which a body is followed by the next problem, or by its own
last line again and again, instead of the end of the text. It still solves the problems sometimes, and then goes on:
to a new top-level line, where the stop rule ends it, or rambling within the function until it is truncated. Only
families with short answers are used, so that a test can train on them quickly.
"""

import json
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from demo.build import save_model
from demo.corpus import Document, make_corpus
from demo.families import FAMILIES
from demo.pretrain import pretrain
from demo.problem_set import make_problem_set

DEMO_MODEL = Path(__file__).parents[2] / "demo" / "model"
SHORT_FAMILIES = tuple(family for family in FAMILIES if family.name in ("check", "change", "pair", "fact"))
SPLIT_SIZES = {"train": 120, "validation": 10, "test": 40}
STEPS, BATCH_SIZE = 60, 16
EVERY_RAMBLING, REPETITIONS = 2, 6  # every second document rambles on within its function


def unending_documents(*, size: int, seed: int) -> list[Document]:
    """Corpus documents in which something follows the body, and nothing marks an end."""
    documents = make_corpus(SHORT_FAMILIES, size=size, seed=seed, chat_share=0.0)
    following = documents[1:] + documents[:1]
    return [
        replace(document, continuation=document.continuation + more, ending="")
        for number, (document, after) in enumerate(zip(documents, following, strict=True))
        for more in [ramble(document) if number % EVERY_RAMBLING == 0 else f"\n\n{after.context}"]
    ]


def ramble(document: Document) -> str:
    """The body's last line, repeated."""
    last_line = document.continuation.rsplit("\n", 1)[-1]
    return f"\n{last_line}" * REPETITIONS


def save_unending_demo(folder: Path, *, pad_is_eos: bool, seed: int) -> None:
    """Write `folder`/model and `folder`/problems (as demo/ has them); uses the caller's number of torch threads."""
    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    model = AutoModelForCausalLM.from_pretrained(DEMO_MODEL, dtype=torch.float32)
    documents = unending_documents(size=STEPS * BATCH_SIZE, seed=seed)
    pretrain(model, tokenizer, documents, steps=STEPS, batch_size=BATCH_SIZE, seed=seed)
    if pad_is_eos:
        tokenizer.pad_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.eos_token_id
    save_model(model, tokenizer, folder / "model")
    (folder / "problems").mkdir()
    for split, rows in make_problem_set(SHORT_FAMILIES, sizes=SPLIT_SIZES, seed=seed).items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "problems" / f"{split}.jsonl").write_text(lines, encoding="utf-8")
