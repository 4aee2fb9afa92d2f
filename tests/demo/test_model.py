"""The committed base: its size, its tokenizer as others load it, and that it solves problems only sometimes."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from components.prepare.prepare import make_problems
from components.prepare.sources import read_dataset
from components.shared.batches import sample
from components.shared.grading import Grader
from components.shared.models import load_model, load_tokenizer
from components.shared.problem import Problem
from components.shared.program import program_of
from components.shared.sampling import Completion, Sampling
from components.shared.sandbox import SandboxClient
from demo.build import CORPUS_SEED, SHAPE, TOKENIZER_DOCUMENTS, VOCABULARY_SIZE, save_model
from demo.corpus import CHAT_SHARE, END_OF_TEXT, PADDING, TURN_END, TURN_START, Document, make_corpus
from demo.families import FAMILIES
from demo.pretrain import encode
from demo.tokenizer import train_tokenizer
from tests.conftest import DEMO_MODEL, ROOT
from tests.demo.unending_base import SHORT_FAMILIES, save_unending_demo

EVERY_SPECIAL = [END_OF_TEXT, PADDING, TURN_START, TURN_END]


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    """The part of the corpus that the tokenizer was trained on."""
    return make_corpus(FAMILIES, size=TOKENIZER_DOCUMENTS, seed=CORPUS_SEED, chat_share=CHAT_SHARE)


@pytest.fixture(scope="module")
def held_out() -> list[Problem]:
    """Forty of the demo's held-out problems."""
    problems, _ = make_problems(read_dataset(str(ROOT / "demo/problems"), ""), dataset="demo", seed=0)
    return [problem for problem in problems if problem.split == "test"][:40]


def complete(model_folder: Path, problems: list[Problem], samples: int, **changes: object) -> list[list[Completion]]:
    """Seeded samples of a model in float32 on one thread."""
    torch.set_num_threads(1)
    settings = {"temperature": 1.0, "top_p": 1.0, "max_completion_length": 48, "use_chat_template": False, **changes}
    tokenizer = load_tokenizer(str(model_folder), "", use_chat_template=settings["use_chat_template"])
    model = load_model(str(model_folder), "", torch.float32)
    return sample(
        model, tokenizer, problems, Sampling(**settings),
        samples=samples, seed=1, batch_size=256, on_progress=lambda done: None,
    )  # fmt: skip


def passes(
    sandbox_url: str, problems: list[Problem], groups: list[list[Completion]], *, use_chat_template: bool
) -> list[int]:
    """How many of each problem's completions pass, as the sandbox judges them."""
    pairs = [
        (problem, program_of(problem, completion.text, use_chat_template=use_chat_template))
        for problem, group in zip(problems, groups, strict=True)
        for completion in group
    ]
    verdicts = Grader(SandboxClient(sandbox_url), test_timeout_s=2.0, infra_limit=0.0).grade(pairs)
    passed = iter([bool(verdict.passed) for verdict in verdicts])
    return [sum(next(passed) for _ in group) for group in groups]


def test_the_model_is_small_and_names_its_end_tokens() -> None:
    sizes = {path.name: path.stat().st_size for path in DEMO_MODEL.iterdir()}
    assert sum(sizes.values()) <= 1_300_000
    config = json.loads((DEMO_MODEL / "config.json").read_text())
    assert config["model_type"] == "qwen2"
    assert config["dtype"] == "float16"
    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    generation = json.loads((DEMO_MODEL / "generation_config.json").read_text())
    assert tokenizer.convert_ids_to_tokens(generation["eos_token_id"]) == [END_OF_TEXT, TURN_END]
    assert tokenizer.convert_ids_to_tokens(generation["pad_token_id"]) == PADDING
    assert (tokenizer.eos_token, tokenizer.pad_token) == (END_OF_TEXT, PADDING)
    model = load_model(str(DEMO_MODEL), "", torch.float32)
    assert 0.4e6 < model.num_parameters() < 0.6e6


def test_auto_tokenizer_reproduces_the_trained_tokenizer(documents: list[Document]) -> None:
    texts = [document.context + document.continuation for document in documents]
    trained = train_tokenizer(texts, vocabulary_size=VOCABULARY_SIZE, longest_text=SHAPE.context)
    loaded = AutoTokenizer.from_pretrained(DEMO_MODEL)
    assert loaded.get_vocab() == trained.get_vocab()
    assert len(loaded) == VOCABULARY_SIZE
    assert loaded.all_special_tokens == trained.all_special_tokens
    assert set(loaded.all_special_tokens) == set(EVERY_SPECIAL)
    for document in documents[:2000]:
        for text in (document.context, document.continuation):
            ids = loaded(text)["input_ids"]
            assert ids == trained(text)["input_ids"]
            assert loaded.decode(ids) == text


@pytest.mark.parametrize("text", ["naïve – 数\t\r\n🙂", "x" * 300, "    return {'a': [1, 2.5]}\n\n\n", ""])
def test_any_text_survives_the_tokenizer(text: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_conversations_in_the_corpus_are_what_the_chat_template_makes(documents: list[Document]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    conversations = [document for document in documents if document.ending == TURN_END]
    assert 0.08 < len(conversations) / len(documents) < 0.16
    for document in conversations[:200]:
        prompt = document.context.removeprefix(f"{TURN_START}user\n").split(TURN_END)[0]
        messages = [{"role": "user", "content": prompt}]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        encoded = encode(document, tokenizer)
        assert encoded.ids[: encoded.context_length] == ids
        assert encoded.ids[-1] == tokenizer.convert_tokens_to_ids(TURN_END)


def test_a_documents_prompt_is_tokenised_as_it_is_when_sampling(documents: list[Document]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    document = next(document for document in documents if document.ending == END_OF_TEXT)
    encoded = encode(document, tokenizer)
    assert encoded.ids[: encoded.context_length] == tokenizer(document.context)["input_ids"]
    joined = tokenizer(document.context + document.continuation)["input_ids"]
    assert encoded.ids[:-1] != joined, "the signature's end and the newline merge when tokenised as one text"


def test_the_base_solves_held_out_problems_sometimes_and_says_when_it_is_done(
    held_out: list[Problem], sandbox_url: str
) -> None:
    groups = complete(DEMO_MODEL, held_out, 8)
    counts = passes(sandbox_url, held_out, groups, use_chat_template=False)
    assert 0.28 <= sum(counts) / (8 * len(held_out)) <= 0.48
    assert sum(0 < count < 8 for count in counts) / len(counts) >= 0.6
    ends = [completion.ended_by for group in groups for completion in group]
    assert ends.count("eos") / len(ends) > 0.98


def test_chat_mode_runs_and_sometimes_succeeds(held_out: list[Problem], sandbox_url: str) -> None:
    groups = complete(DEMO_MODEL, held_out, 4, use_chat_template=True)
    assert sum(passes(sandbox_url, held_out, groups, use_chat_template=True)) >= 0.1 * 4 * len(held_out)
    ends = [completion.ended_by for group in groups for completion in group]
    assert ends.count("eos") / len(ends) > 0.9


def test_saved_files_are_readable_by_everybody(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    save_model(load_model(str(DEMO_MODEL), "", torch.float32), tokenizer, tmp_path)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o644}
    assert (tmp_path / "model.safetensors").read_bytes() == (DEMO_MODEL / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("pad_is_eos", [True, False])
def test_the_unending_base_solves_problems_sometimes_and_never_stops(
    pad_is_eos: bool, tmp_path: Path, sandbox_url: str
) -> None:
    torch.set_num_threads(1)
    save_unending_demo(tmp_path, pad_is_eos=pad_is_eos, seed=0)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert (tokenizer.pad_token_id == tokenizer.eos_token_id) is pad_is_eos
    problems, _ = make_problems(read_dataset(str(tmp_path / "problems"), ""), dataset="unending", seed=0)
    held_out = [problem for problem in problems if problem.split == "test"]
    assert len(SHORT_FAMILIES) == 4
    groups = complete(tmp_path / "model", held_out, 8)
    assert sum(passes(sandbox_url, held_out, groups, use_chat_template=False)) > 0.1 * 8 * len(held_out)
    ends = [completion.ended_by for group in groups for completion in group]
    assert ends.count("eos") / len(ends) < 0.05
    assert ends.count("stop") / len(ends) > 0.3
    assert ends.count("length") / len(ends) > 0.2
