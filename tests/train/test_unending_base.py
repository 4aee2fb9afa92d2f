"""A base that never says EOS and often rambles on within the function: training must teach it to pass and to finish."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from components.shared.attempts import Attempt, attempt, passes
from components.shared.grading import Grader
from components.shared.models import load_adapter, load_model, load_tokenizer
from components.shared.problem import PROBLEMS, write_problems
from components.shared.sampling import Sampling
from components.shared.sandbox import SandboxClient
from tests.conftest import problems_of
from tests.demo.unending_base import save_unending_demo
from tests.train.conftest import rows

LENGTH = 32
SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_completion_length=LENGTH, use_chat_template=False)


def share(attempts: list[Attempt], ended_by: str) -> float:
    return sum(one.completion.ended_by == ended_by for one in attempts) / len(attempts)


@pytest.mark.slow
@pytest.mark.parametrize("pad_is_eos", [False, True], ids=["pad is not eos", "pad is eos"])
def test_it_learns_to_pass_and_to_finish(
    pad_is_eos: bool, train: Callable[..., tuple[object, Path]], tmp_path: Path, store_root: Path, sandbox_url: str
) -> None:
    torch.set_num_threads(1)
    save_unending_demo(tmp_path / "base", pad_is_eos=pad_is_eos, seed=1)
    base_folder, problem_folder = str(tmp_path / "base/model"), tmp_path / "unending"
    write_problems(problem_folder / PROBLEMS, problems_of(tmp_path / "base/problems/train.jsonl"))
    _, model_folder = train(
        model_name=base_folder,
        problems=problem_folder,
        batch_size=32,
        num_generations=8,
        max_completion_length=LENGTH,
        epochs=2,
    )
    assert json.loads((model_folder / "model.json").read_text())["kind"] == "adapter"
    heldout = problems_of(tmp_path / "base/problems/test.jsonl")
    grader = Grader(SandboxClient(sandbox_url), test_timeout_s=2.0, infra_limit=0.0)
    tokenizer = load_tokenizer(base_folder, "", use_chat_template=False)
    model = load_model(base_folder, "", torch.float32)

    def attempts(seed: int) -> list[Attempt]:
        given = {"samples": 4, "seed": seed, "grader": grader, "on_progress": lambda done: None}
        groups = attempt(model, tokenizer, heldout, SAMPLING, **given)
        return [one for group in groups for one in group]

    base = attempts(1)
    model = load_adapter(model, model_folder / "adapter")
    tuned = attempts(2)
    assert share(base, "eos") < 0.05
    assert share(base, "length") > 0.2
    assert (passes(tuned) - passes(base)) / len(base) > 0.25
    assert share(tuned, "length") < share(base, "length") - 0.1
    truncated = [row["truncated"] for row in rows(store_root, "run")]
    assert sum(truncated[-10:]) < sum(truncated[:10])
