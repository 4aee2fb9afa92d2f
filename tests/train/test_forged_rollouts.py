"""A policy that cheats: the attacks of the sandbox's tests, and honest solutions, among the rollouts of a real run."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.shared.problem import PROBLEMS, write_problems
from components.shared.sampling import Completion
from components.train.rewards import TestReward
from components.train.rollouts import Rollouts
from tests.builders import make_problem
from tests.sandbox.attack import TESTS
from tests.sandbox.attacks import ATTACKS
from tests.train.conftest import rows

HONEST = "def f(n):\n    return n * n\n"
LONGEST = 4000  # characters; the few longer attacks would only make the update slow
FORGED = [
    attack
    for attack in ATTACKS
    if attack.tests == TESTS
    and len(attack.program) < LONGEST
    and attack.program == attack.program.encode(errors="ignore").decode()  # no tokenizer writes half a surrogate pair
]


@pytest.mark.slow
def test_no_forged_completion_is_ever_rewarded(
    train: Callable[..., Any], tmp_path: Path, store_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = [
        make_problem(str(number), prompt=f"Square it, {number}.\n\ndef f(n):", entry_point="f", tests=TESTS)
        for number in range(64)
    ]
    write_problems(tmp_path / "squares" / PROBLEMS, problems)
    waiting = [attack.program for attack in FORGED]
    random.Random(7).shuffle(waiting)
    forged = set(waiting)
    draw, judge, seen = Rollouts.draw, TestReward.__call__, []

    def cheat(rollouts: Rollouts, prompts: Sequence[str], names: Sequence[str], trainer: Any) -> list[Completion]:
        completions = draw(rollouts, prompts, names, trainer)
        for row in range(len(completions)):
            text = waiting.pop() if row % 2 and waiting else HONEST if row % 4 == 0 else None
            if text is not None:
                ids = (*rollouts.tokenizer(text)["input_ids"], rollouts.tokenizer.eos_token_id)
                completions[row] = replace(completions[row], text=text, token_ids=ids, ended_by="eos")
        return completions

    def watch(reward: TestReward, *given: Any, **named: Any) -> Any:
        rewards = judge(reward, *given, **named)
        seen.extend((judged.completion, judged.reward) for judged in reward.batch)
        return rewards

    monkeypatch.setattr(Rollouts, "draw", cheat)
    monkeypatch.setattr(TestReward, "__call__", watch)
    train(
        problems=tmp_path / "squares", use_chat_template=True, batch_size=32, num_generations=8, micro_batch_size=4,
        epochs=1,
    )  # fmt: skip
    assert waiting == []
    assert len(FORGED) > 150
    cheats = [(text, reward) for text, reward in seen if text in forged]
    assert len(cheats) >= len(forged)
    assert {reward for _, reward in cheats} == {0.0}
    assert {reward for text, reward in seen if text == HONEST} == {1.0}
    assert all(row["groups"]["mixed"] for row in rows(store_root, "run"))
