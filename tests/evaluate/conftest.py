"""What the tests of the whole step share: held-out problems of the demo, and a model that has learned nothing."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from components.shared.problem import HELDOUT, write_problems
from tests.builders import make_problem
from tests.conftest import DEMO_MODEL, ROOT


@pytest.fixture(scope="session")
def problem_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as prepare writes it, with 16 held-out problems; the first has a hidden test, its own first one."""
    folder = tmp_path_factory.mktemp("problems")
    rows = [json.loads(line) for line in (ROOT / "demo/problems/test.jsonl").read_text().splitlines()[:16]]
    problems = [
        make_problem(
            str(row["task_id"]),
            split="test",
            prompt=f"{row['text']}\n\n{row['code'].splitlines()[0]}",
            entry_point=re.search(r"def (\w+)", row["code"]).group(1),
            tests=row["test_list"],
            hidden_tests=row["test_list"][:1] if number == 0 else [],
            reference=row["code"],
        )
        for number, row in enumerate(rows)
    ]
    write_problems(folder / HELDOUT, problems)
    (folder / "prepare/counts.json").write_text(json.dumps({"seconds": 1.5, "dataset": "demo"}))
    return folder


@pytest.fixture(scope="session")
def untaught_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2 model with random weights and the demo's tokenizer."""
    folder = tmp_path_factory.mktemp("untaught")
    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=256,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def given() -> dict[str, Any]:
    """The step's parameters, small."""
    return {
        "run_id": "kfp-id", "resume_run": "", "model_name": str(DEMO_MODEL), "model_revision": "", "precision": "fp32",
        "use_chat_template": False, "temperature": 1.0, "top_p": 1.0, "max_completion_length": 40,
        "num_eval_examples": 12, "eval_k": 3, "reward": "tests", "seed": 7, "threads": 1, "sandbox_url": "http://unused",
        "test_timeout_s": 2.0, "infra_limit": 0.02, "code_version": "c1", "tuned_model": "",
    }  # fmt: skip
