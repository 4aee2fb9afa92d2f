"""Rewards and what a step's metrics say of them, with a real sandbox."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from components.shared.errors import InfraError
from components.shared.grading import Grader
from components.shared.sandbox import SandboxClient
from components.train.interruption import Interruption
from components.train.metrics import kind_of_group, lost_step, step_metrics, step_samples
from components.train.processes import Processes
from components.train.rewards import TestReward
from components.train.watch import LOST_STEPS_IN_A_ROW, stuck
from tests.builders import make_problem

RIGHT, WRONG, BROKEN = "\n    return 2 * x", "\n    return x", "\n    return ("
LOGS = {"loss": 0.1, "kl": 0.01, "entropy": float("nan"), "completions/mean_length": 6.0}


def make_reward(url: str, *, control: bool = False, truncated: float | None = 0.0) -> TestReward:
    return TestReward(
        grader=Grader(SandboxClient(url, retry_seconds=1), test_timeout_s=2, infra_limit=0.5),
        problems={"1": make_problem("1"), "2": make_problem("2")},
        use_chat_template=False,
        truncated=truncated,
        control=control,
        seed=3,
        interruption=Interruption(),
        processes=Processes(1, 0),
        then=lambda batch: None,
    )


def call(reward: TestReward, completions: list[str], ended_by: list[str] | None = None, **given: Any) -> Any:
    ends = ended_by or ["eos"] * len(completions)
    names = given.get("task_id", ["1"] * len(completions))
    state = SimpleNamespace(global_step=given.get("step", 0))
    return reward(completions=completions, task_id=names, ended_by=ends, trainer_state=state, prompts=[])


def test_all_tests_or_nothing(sandbox_url: str) -> None:
    reward = make_reward(sandbox_url)
    assert call(reward, [RIGHT, WRONG, BROKEN, RIGHT + "\nprint(1)"]) == [1.0, 0.0, 0.0, 1.0]
    assert [judged.verdict.outcome for judged in reward.batch] == ["passed", "failed", "syntax", "passed"]
    assert reward.batch[1].failing_test == "assert double(2) == 4"
    assert reward.seconds > 0


def test_a_truncated_completion_is_judged_and_gets_no_reward(sandbox_url: str) -> None:
    reward = make_reward(sandbox_url)
    assert call(reward, [RIGHT, RIGHT, WRONG, WRONG], ["eos", "length", "stop", "length"]) == [1.0, 0.0, 0.0, 0.0]
    row = step_metrics(reward.batch, LOGS, step=1, epoch=0.5, num_generations=4)
    assert (row["reward"], row["pass_rate"], row["truncated"], row["usable"]) == (0.25, 0.5, 0.5, 0.5)
    assert row["groups"] == {"all_fail": 0, "mixed": 1, "all_pass": 0, "unrewarded": 0}
    assert row["outcomes"] == {"failed": 2, "passed": 2}
    assert (row["entropy"], row["kl"], row["lengths"]) == (None, 0.01, {"mean": 6.0, "max": None})
    assert lost_step(row) is None


def test_truncated_completions_may_be_left_out_of_their_group(sandbox_url: str) -> None:
    reward = make_reward(sandbox_url, truncated=None)
    ends = ["eos", "length", "stop", "length", "length", "length", "length", "length"]
    assert call(reward, [RIGHT, RIGHT, WRONG, WRONG, *[RIGHT] * 4], ends) == [1.0, None, 0.0, None, *[None] * 4]
    row = step_metrics(reward.batch, LOGS, step=1, epoch=0.5, num_generations=4)
    assert row["groups"] == {"all_fail": 0, "mixed": 1, "all_pass": 0, "unrewarded": 1}
    assert (row["reward"], row["pass_rate"], row["infra"], row["usable"]) == (0.5, 0.75, 0.0, 0.25)
    assert row["zero_variance"] == 0.5


def test_the_control_leaves_out_truncated_completions_too(sandbox_url: str) -> None:
    left_out = make_reward(sandbox_url, control=True, truncated=None)
    assert call(left_out, [RIGHT, RIGHT], ["length", "length"]) == [None, None]
    flipped = make_reward(sandbox_url, control=True)
    assert set(call(flipped, [RIGHT] * 16, ["length"] * 16)) == {0.0, 1.0}


def test_a_sandbox_that_is_away_stops_the_run_and_gives_no_zero() -> None:
    with pytest.raises(InfraError, match="could not be judged"):
        call(make_reward("http://127.0.0.1:9"), [RIGHT, WRONG])


def test_groups_are_told_apart_by_the_rewards_that_count(sandbox_url: str) -> None:
    reward = make_reward(sandbox_url)
    call(reward, [RIGHT, RIGHT, WRONG, WRONG, RIGHT, WRONG, RIGHT, WRONG])
    reward.batch[0] = replace(reward.batch[0], reward=None)  # as an infrastructure failure leaves it
    reward.batch[4:6] = [replace(judged, reward=None) for judged in reward.batch[4:6]]
    kinds = [kind_of_group(reward.batch[start : start + 2]) for start in range(0, 8, 2)]
    assert kinds == ["all_pass", "all_fail", "unrewarded", "mixed"]
    samples = step_samples(reward.batch, step=4, num_generations=2, missed=[])
    assert [(one["outcome"], one["reward"], one["failing_test"]) for one in samples] == [
        ("passed", 1.0, None),
        ("failed", 0.0, "assert double(2) == 4"),
    ]


def test_a_step_without_a_usable_completion_is_named_with_the_parameter(sandbox_url: str) -> None:
    reward = make_reward(sandbox_url)
    call(reward, [RIGHT, WRONG], ["length", "length"])
    row = step_metrics(reward.batch, LOGS, step=1, epoch=0, num_generations=2)
    assert row["reward"] == 0.0
    assert "raise max_completion_length" in str(lost_step(row))
    unjudged, either = ({**row, "truncated": share, "infra": 1 - share} for share in (0.0, 0.5))
    for lost in (unjudged, either):
        for remedy in ("sandbox_url", "more replicas", "test_timeout_s"):
            assert remedy in str(lost_step(lost))
        assert remedy in str(stuck([lost] * LOST_STEPS_IN_A_ROW, {}))
    assert "could not be judged: raise max_completion_length" in str(lost_step(either))
    assert "max_completion_length" not in str(lost_step(unjudged))


def test_the_control_flips_coins_and_still_reports_what_passed(sandbox_url: str) -> None:
    reward = make_reward(sandbox_url, control=True)
    rewards = call(reward, [WRONG] * 40)
    assert 8 <= sum(rewards) <= 32
    assert call(reward, [WRONG] * 40) == rewards
    assert call(reward, [WRONG] * 40, step=1) != rewards
    assert step_metrics(reward.batch, LOGS, step=1, epoch=0, num_generations=4)["pass_rate"] == 0.0
