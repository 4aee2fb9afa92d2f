"""Hidden tests are counted while training goes on, and change nothing of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from components.shared.problem import PROBLEMS, write_problems
from components.shared.sandbox import SandboxClient
from components.train.hidden import MOST_WAITING, HiddenTests
from components.train.metrics import missed_share_of, step_samples, summary
from components.train.rewards import Judged
from tests.builders import make_problem
from tests.conftest import demo_problems
from tests.train.conftest import rows
from tests.train.test_report import row
from tests.train.test_rewards import RIGHT, WRONG, call, make_reward
from tests.train.test_training import weights

HARD_CODED = "\n    return {2: 4}.get(x, 0)"  # passes both visible tests
HIDDEN = ["assert double(0) == 0", "assert double(5) == 10"]


def judged(url: str, completions: list[str], **changes: Any) -> list[Judged]:
    reward = make_reward(url)
    reward.problems = {"1": make_problem("1", **changes)}
    call(reward, completions)
    return reward.batch


def hidden_tests(url: str) -> HiddenTests:
    return HiddenTests(SandboxClient(url, retry_seconds=0.1), test_timeout_s=2, use_chat_template=False)


def test_passes_alone_are_judged_on_hidden_tests(sandbox_url: str) -> None:
    batch = judged(sandbox_url, [RIGHT, HARD_CODED, WRONG, HARD_CODED], hidden_tests=HIDDEN)
    assert [one.reward for one in batch] == [1.0, 1.0, 0.0, 1.0]
    hidden = hidden_tests(sandbox_url)
    hidden.start(batch)
    assert hidden.finish() == {"passed_visible": 3, "failed_hidden": 2}
    assert {one.test for one in hidden.missed} == {HIDDEN[1]}
    samples = step_samples(batch, step=1, num_generations=4, missed=hidden.missed)
    assert [one["failing_hidden_test"] for one in samples] == [None, HIDDEN[1], None, HIDDEN[1]]
    assert hidden.finish() is None  # one count a step


@pytest.mark.parametrize(("completions", "tests"), [([RIGHT, WRONG], []), ([WRONG, WRONG], HIDDEN)])
def test_there_is_no_count_without_hidden_tests_or_passes(
    sandbox_url: str, completions: list[str], tests: list[str]
) -> None:
    hidden = hidden_tests(sandbox_url)
    hidden.start(judged(sandbox_url, completions, hidden_tests=tests))
    assert hidden.finish() is None


def test_a_sandbox_that_is_away_leaves_a_step_uncounted(sandbox_url: str) -> None:
    batch = judged(sandbox_url, [RIGHT, HARD_CODED], hidden_tests=HIDDEN)
    hidden = hidden_tests("http://127.0.0.1:9")
    hidden.start(batch)
    assert hidden.finish() is None
    assert hidden.missed == []


def test_steps_are_left_out_when_training_has_had_to_wait(sandbox_url: str) -> None:
    batch = judged(sandbox_url, [RIGHT, HARD_CODED], hidden_tests=HIDDEN)
    hidden = hidden_tests(sandbox_url)
    hidden.started -= 1000
    hidden.waited = 1000 * MOST_WAITING + 60
    hidden.start(batch)
    assert hidden.finish() is None
    hidden.started -= 2000  # time goes by
    hidden.start(batch)
    assert hidden.finish() == {"passed_visible": 2, "failed_hidden": 1}


def test_the_gap_is_a_share_of_the_passes() -> None:
    metrics = [row(1, hidden={"passed_visible": 8, "failed_hidden": 2}), row(2, hidden=None), row(3)]
    assert missed_share_of(metrics) == 0.25
    assert missed_share_of(metrics[1:]) is None
    assert summary(metrics)["missed_share_first_tenth"] == 0.25
    assert "missed_share_last_tenth" not in summary(metrics)


@pytest.mark.slow
def test_weights_rewards_and_samples_are_the_same_with_and_without(
    train: Callable[..., Any], tmp_path: Path, store_root: Path
) -> None:
    problems = demo_problems(16)
    with_hidden = [
        one.model_copy(update={"hidden_tests": [one.tests[-1]] if place % 2 else ["assert 1 == 2"]})
        for place, one in enumerate(problems)
    ]
    models = {}
    for name, given in (("without", problems), ("with", with_hidden)):
        write_problems(tmp_path / name / PROBLEMS, given)
        models[name] = weights(train(name, problems=tmp_path / name)[1])
    assert all(torch.equal(models["with"][name], tensor) for name, tensor in models["without"].items())

    def seen(name: str) -> list[Any]:
        kept = [{**one, "failing_hidden_test": None} for one in rows(store_root, name, "samples.jsonl")]
        return kept + [{**one, "seconds": None, "hidden": None} for one in rows(store_root, name)]

    assert seen("with") == seen("without")
    assert {json.dumps(one["hidden"]) for one in rows(store_root, "without")} == {"null"}
    counts = [one["hidden"] for one in rows(store_root, "with") if one["hidden"]]
    assert 0 < sum(one["failed_hidden"] for one in counts) < sum(one["passed_visible"] for one in counts)
    assert "Hidden tests" in (store_root / "runs/with/train/report.html").read_text()
    assert "Hidden tests" not in (store_root / "runs/without/train/report.html").read_text()
