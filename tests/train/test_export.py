"""What training hands on loads where nothing of ours is installed, says the same there, and where it comes from."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from components.shared.errors import UserError
from components.shared.problem import PREPARE_COUNTS, PROBLEMS
from components.shared.run import IMAGE_VARIABLE, digest_of
from components.train.card import provenance
from components.train.handover import compared_texts
from components.train.merge import add_merged, losses
from tests.conftest import DEMO_MODEL, ROOT, demo_problems
from tests.train.conftest import rows

Train = Callable[..., tuple[dict[str, float], Path]]
# What prepare leaves of the data set, and the pod's own word on its image.
READ = {
    "dataset": "mbpp",
    "dataset_revision": "4bb6404fdc6cacfda99d4ac4205087b89d32030c",
    "dataset_digest": f"sha256:{64 * 'd'}",
}
IMAGE = f"registry.example.org/grpo-code/trainer@sha256:{64 * 'e'}"
# A serving script of a stranger: plain transformers and peft, one prompt, and the stop rule from the generation config.
STRANGER = """
import json, sys, torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
base, export, prompt = sys.argv[1:]
found = {}
plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
adapter = PeftModel.from_pretrained(plain, export + "/adapter")
adapter.generation_config = GenerationConfig.from_pretrained(export + "/adapter")
merged = AutoModelForCausalLM.from_pretrained(export + "/merged", dtype=torch.float32)
for name, model in (("adapter", adapter), ("merged", merged)):
    tokenizer = AutoTokenizer.from_pretrained(export + "/" + name)
    read = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
    written = model.eval().generate(input_ids=read.input_ids, max_new_tokens=60, do_sample=False, tokenizer=tokenizer)
    found[name] = {
        "logits": model(input_ids=read.input_ids).logits[0, -1].tolist(),
        "text": tokenizer.decode(written[0, read.input_ids.shape[1]:], skip_special_tokens=True),
        "ours": [module for module in sys.modules if module.split(".")[0] in ("components", "cli", "pipeline")],
    }
print("\\nfound " + json.dumps(found))
"""


def as_a_stranger(export: Path, prompt: str, elsewhere: Path) -> dict[str, Any]:
    """Load the export in a fresh process that knows nothing of this project."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-I", "-c", STRANGER, str(DEMO_MODEL), str(export), prompt]
    done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.rsplit("\nfound ", 1)[1]))


@pytest.mark.slow
def test_an_export_loads_elsewhere_and_says_the_same(
    train: Train, problem_set: Path, store_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (problem_set / PREPARE_COUNTS).write_text(json.dumps(READ))
    monkeypatch.setenv(IMAGE_VARIABLE, IMAGE)
    _, export = train(export_merged="fp32", batch_size=24, num_generations=8)
    problem = demo_problems(1)[0]
    found = as_a_stranger(export, problem.prompt, tmp_path)
    assert found["adapter"]["ours"] == []
    assert torch.allclose(*(torch.tensor(found[name]["logits"]) for name in ("adapter", "merged")), atol=1e-4)
    assert found["adapter"]["text"] == found["merged"]["text"]
    assert found["merged"]["text"].count("\n") <= 3  # it stopped after the function's body
    facts = json.loads((export / "model.json").read_text())
    assert facts["kind"] == "adapter"
    assert facts["merged"]["precision"] == "fp32"
    assert facts["merged"]["update_kept"] > 0.9999
    assert facts["merged"]["lost"] < 1e-3
    assert facts["merged"]["logprob_trained"] > 1e-4
    assert (store_root / "runs/run/train/merged/model.safetensors").is_file()
    check_card(export, "adapter", run="run", problems=problem_set)
    assert "share of training's change that is lost" in check_card(export, "merged", run="run", problems=problem_set)
    coarse = merge_again(export, rows(store_root, "run", "samples.jsonl"), into="bf16")
    assert coarse["update_kept"] < 0.9999  # bf16 has 8 bits: part of the update is gone, and that is what it says
    assert coarse["lost"] > 10 * facts["merged"]["lost"]


def merge_again(export: Path, samples: list[dict[str, Any]], *, into: str) -> dict[str, Any]:
    given = {"model_name": str(DEMO_MODEL), "model_revision": "", "use_chat_template": False}
    texts = compared_texts(given, demo_problems(24), samples)
    return add_merged(
        export, texts, model_name=str(DEMO_MODEL), model_revision="", method="lora", precision="fp32", into=into
    )


def check_card(export: Path, kind: str, *, run: str, problems: Path) -> str:
    card = (export / kind / "README.md").read_text()
    head = yaml.safe_load(card.split("---")[1])
    assert head["library_name"] == ("peft" if kind == "adapter" else "transformers")
    table = dict(re.findall(r"^\| (.+?) \| (.*) \|$", card, re.MULTILINE))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert table["git commit"].startswith(commit.strip() or "not known")
    assert table["image"] == IMAGE
    assert table["data set"] == "mbpp at 4bb6404fdc6cacfda99d4ac4205087b89d32030c"
    assert table["data set digest"] == READ["dataset_digest"]
    assert f"torch {torch.__version__.partition('+')[0]}" in table["packages"]
    assert table["prepare/problems.jsonl"] == digest_of(problems / PROBLEMS)
    assert (table["run"], table["lora_r"], table["lr"], table["seed"]) == (run, "16", "0.002", "42")
    assert "| reward_last_tenth |" in card
    assert "seed 42 decides" in card
    return card


def test_a_model_that_was_trained_on_problems_alone_outside_a_cluster_says_so(
    problem_set: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(IMAGE_VARIABLE, raising=False)
    origin = provenance(problem_set, {"code_version": ""}, "run")
    assert (origin["image"], origin["code version"]) == ("none: trained outside a cluster", "not set")
    assert (origin["data set"], origin["data set digest"]) == ("handed in as problems", "not known")


def test_a_merge_needs_something_to_be_measured_with(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no completion"):
        add_merged(
            tmp_path, [("def f():", "")], model_name="", model_revision="", method="lora", precision="fp32", into="bf16"
        )


def test_losses_are_shares_of_what_training_did() -> None:
    base, wanted = torch.tensor([-1.0, -2.0]), torch.tensor([-0.5, -1.5])
    assert losses(base, wanted, wanted)["lost"] == 0.0
    assert losses(base, wanted, base)["lost"] == 1.0  # all of it
    assert losses(base, base, wanted)["lost"] is None  # nothing to lose
