"""`local --pipeline evaluate-only` as a person runs it: a base alone, and a trained model beside its base."""

import json
import os
import subprocess
import sys

import pytest

from cli.parameters import merged
from components.check import check
from tests.conftest import DEMO_MODEL, ROOT
from tests.evaluate.trained import with_adapter

SMALL = "--max-eval-samples 6 --num-eval-examples 6 --eval-k 2 --max-completion-length 24 --hidden-tests 0"


def run_local(store, problems, *options):
    """(exit code, output) of a run over the problems in a file."""
    command = [sys.executable, str(ROOT / "pipeline.py"), "local", "--pipeline", "evaluate-only"]
    command += ["--model-name", str(DEMO_MODEL), "--dataset", str(problems), "--threads", "1", *SMALL.split(), *options]
    environment = {**os.environ, "GRPO_STORE": str(store), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def problems(tmp_path):
    """A file of rows that name no split."""
    rows = [json.loads(line) for line in (ROOT / "demo/problems/test.jsonl").read_text().splitlines()[:6]]
    file = tmp_path / "own.jsonl"
    file.write_text("".join(json.dumps({k: v for k, v in row.items() if k != "split"}) + "\n" for row in rows))
    return file


@pytest.mark.slow
def test_a_base_alone_then_a_trained_model_beside_it(tmp_path, problems):
    store = tmp_path / "store"
    code, said = run_local(store, problems, "--run-id", "alone")
    assert code == 0, said
    assert "pass@1 on 6 held-out problems" in said
    assert "difference" not in said
    assert "Reports:" in said
    assert "train: started" not in said
    assert (store / "runs/alone/prepare/heldout.jsonl").exists()
    model = with_adapter(tmp_path / "model", scale=0.05)
    code, said = run_local(store, problems, "--run-id", "both", "--tuned-model", str(model))
    assert code == 0, said
    assert "6 of 6 problems were taken from the store (sampled)" in (store / "runs/both/log.txt").read_text()
    content = json.loads((store / "runs/both/evaluate/evaluation.json").read_text())
    alone = json.loads((store / "runs/alone/evaluate/evaluation.json").read_text())
    assert content["base"] == alone["base"]
    assert content["tuned_model"] == str(model)
    assert len(content["difference"]["ci95"]) == 2


def test_a_parameter_of_training_is_refused(tmp_path, problems):
    code, said = run_local(tmp_path / "store", problems, "--epochs", "3")
    assert code == 2
    assert said.strip() == "--epochs is no parameter of the pipeline evaluate-only: leave it out."


@pytest.mark.parametrize(
    ("address", "words"), [("models/none", "No model 'none' is published"), ("/none", "no trained")]
)
def test_a_model_that_is_not_there_is_refused_by_the_first_step(local_sandbox, store_root, capsys, address, words):
    given = {**merged({}), "model_revision": "r", "dataset_revision": "r", "training": False, "tuned_model": address}
    with pytest.raises(SystemExit) as ended:
        check.python_func(**{name: given[name] for name in check.component_spec.inputs})
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
