"""Pretraining and the build script; the whole build is slow."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from components.settings import check
from demo.build import differing_problem_files
from demo.corpus import END_OF_TEXT, Document, make_corpus
from demo.families import FAMILIES
from demo.pretrain import Encoded, Shape, encode, new_model, pretrain, weighted_loss
from pipeline import grpo_code
from tests.conftest import DEMO_MODEL, ROOT

TINY = Shape(hidden=16, layers=1, heads=2, intermediate=32, context=96)


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return make_corpus(FAMILIES[:2], size=64, seed=0, chat_share=0.0)


def test_pretraining_learns_and_repeats(documents: list[Document]) -> None:
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    encoded = [encode(document, tokenizer) for document in documents]
    models = [new_model(TINY, tokenizer, seed=1) for _ in range(2)]
    before = weighted_loss(models[0], encoded, tokenizer.pad_token_id).item()
    for model in models:
        pretrain(model, tokenizer, documents, steps=30, batch_size=16, seed=2)
    first, second = ([weight for _, weight in model.named_parameters()] for model in models)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert weighted_loss(models[0], encoded, tokenizer.pad_token_id).item() < 0.85 * before


def test_padding_does_not_change_a_documents_loss(documents: list[Document]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    model = new_model(TINY, tokenizer, seed=1).eval()
    short, long = sorted((encode(document, tokenizer) for document in documents), key=lambda e: len(e.ids))[::63]
    assert len(long.ids) > len(short.ids)
    alone = [weighted_loss(model, [each], tokenizer.pad_token_id) for each in (short, long)]
    weights = [_weight(each) for each in (short, long)]
    together = weighted_loss(model, [short, long], tokenizer.pad_token_id)
    expected = sum(loss * weight for loss, weight in zip(alone, weights, strict=True)) / sum(weights)
    torch.testing.assert_close(together, expected)


def _weight(encoded: Encoded) -> float:
    """What a document weighs in the loss: a fifth for each predicted context token, one for each other."""
    return 0.2 * (encoded.context_length - 1) + len(encoded.ids) - encoded.context_length


def test_a_document_longer_than_the_context_is_refused() -> None:
    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    model = new_model(TINY, tokenizer, seed=1)
    with pytest.raises(ValueError, match="the model's context only 96"):
        pretrain(model, tokenizer, [Document("x " * 200, "y", END_OF_TEXT)], steps=1, batch_size=1, seed=0)


def test_too_few_documents_are_refused(documents: list[Document]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    model = new_model(TINY, tokenizer, seed=1)
    with pytest.raises(ValueError, match="64 documents do not fill one batch of 65"):
        pretrain(model, tokenizer, documents, steps=1, batch_size=65, seed=0)


def test_the_preset_names_parameters_of_the_pipeline_and_fits_together() -> None:
    inputs = grpo_code.component_spec.inputs
    preset = tomllib.loads((ROOT / "demo/parameters.toml").read_text())
    assert set(preset) <= set(inputs)
    assert check({**{name: spec.default for name, spec in inputs.items()}, **preset}) == []


@pytest.mark.slow
def test_check_says_so_when_a_problem_file_is_changed(tmp_path: Path) -> None:
    (tmp_path / "problems").mkdir()
    command = [sys.executable, str(ROOT / "demo/build.py"), "--check", "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stdout == "differs from the generator: train.jsonl, validation.jsonl, test.jsonl\n"


@pytest.mark.slow
def test_the_script_rebuilds_problems_and_model_from_nothing(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "demo/build.py"), "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900, cwd="/")
    assert done.stdout.startswith(f"built {tmp_path} in ")
    assert differing_problem_files(tmp_path / "problems") == []
    for path in DEMO_MODEL.iterdir():
        if path.suffix != ".safetensors":
            assert (tmp_path / "model" / path.name).read_bytes() == path.read_bytes()
    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    held_back = make_corpus(FAMILIES, size=512, seed=99, chat_share=0.1)
    losses = [_loss(folder, held_back, tokenizer) for folder in (DEMO_MODEL, tmp_path / "model")]
    assert abs(losses[0] - losses[1]) < 0.02, "another machine's arithmetic may differ, what is learned may not"


def _loss(folder: Path, documents: list[Document], tokenizer: object) -> float:
    """The weighted loss of a saved model on fresh documents, in nats."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    encoded = [encode(document, tokenizer) for document in documents]
    with torch.no_grad():
        return weighted_loss(model, encoded, tokenizer.pad_token_id).item()
