"""Rebuild the demo from nothing: `python demo/build.py` writes demo/problems and demo/model.

`python demo/build.py --check` writes nothing and says whether the committed problems are what the generator makes.
The problems are the same everywhere; the model repeats bit by bit on one machine, and nearly so on another.
"""

import argparse
import functools
import json
import os
import sys
import time
from pathlib import Path

DEMO = Path(__file__).resolve().parent
if __package__ in (None, ""):
    sys.path.insert(0, str(DEMO.parent))

import torch  # noqa: E402
from transformers import PreTrainedTokenizerBase, Qwen2ForCausalLM  # noqa: E402

from demo.corpus import CHAT_SHARE, TURN_END, make_corpus  # noqa: E402
from demo.families import FAMILIES  # noqa: E402
from demo.pretrain import Shape, new_model, pretrain  # noqa: E402
from demo.problem_set import Row, make_problem_set  # noqa: E402
from demo.tokenizer import train_tokenizer  # noqa: E402

PROBLEM_SEED, CORPUS_SEED, MODEL_SEED = 1, 2, 3
SPLIT_SIZES = {"train": 300, "validation": 50, "test": 150}
CORPUS_SIZE = 30_000
TOKENIZER_DOCUMENTS = 8_000
VOCABULARY_SIZE = 512
SHAPE = Shape(hidden=128, layers=2, heads=8, intermediate=384, context=256)
STEPS, BATCH_SIZE = 800, 32


@functools.cache
def problem_files() -> dict[str, str]:
    """File name -> content, one JSON object a line, for each split."""
    splits: dict[str, list[Row]] = make_problem_set(FAMILIES, sizes=SPLIT_SIZES, seed=PROBLEM_SEED)
    return {f"{split}.jsonl": "".join(json.dumps(row) + "\n" for row in rows) for split, rows in splits.items()}


def differing_problem_files(folder: Path) -> list[str]:
    """Names of the files in `folder` that are not what the generator makes (missing ones included)."""
    return [
        name
        for name, content in problem_files().items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != content
    ]


def make_model() -> tuple[Qwen2ForCausalLM, PreTrainedTokenizerBase]:
    """The tokenizer and the pretrained model, in float32."""
    documents = make_corpus(FAMILIES, size=CORPUS_SIZE, seed=CORPUS_SEED, chat_share=CHAT_SHARE)
    texts = [document.context + document.continuation for document in documents[:TOKENIZER_DOCUMENTS]]
    tokenizer = train_tokenizer(texts, vocabulary_size=VOCABULARY_SIZE, longest_text=SHAPE.context)
    model = new_model(SHAPE, tokenizer, seed=MODEL_SEED)
    pretrain(model, tokenizer, documents, steps=STEPS, batch_size=BATCH_SIZE, seed=MODEL_SEED)
    return model, tokenizer


def save_model(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write weights (half precision), configuration and tokenizer, readable by everybody."""
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    # Either token ends a completion: the first in completion mode, the second in chat mode.
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids(TURN_END)]
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)  # weights are saved for their owner only, but a pod may run as another user


def build(folder: Path) -> None:
    """Write `folder`/problems and `folder`/model."""
    (folder / "problems").mkdir(parents=True, exist_ok=True)
    for name, content in problem_files().items():
        (folder / "problems" / name).write_text(content, encoding="utf-8")
    model, tokenizer = make_model()
    save_model(model, tokenizer, folder / "model")


def main() -> int:
    """Build or check; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare the committed problems with the generator")
    parser.add_argument("--output", type=Path, default=DEMO, help="folder that gets problems/ and model/")
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(1)  # sums over several threads would not repeat
    started = time.monotonic()
    if arguments.check:
        different = differing_problem_files(arguments.output / "problems")
        print(f"differs from the generator: {', '.join(different)}" if different else "problems are as generated")
        return 1 if different else 0
    build(arguments.output)
    print(f"built {arguments.output} in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
