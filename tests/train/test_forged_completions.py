"""A policy that cheats: a seeded share of its completions are the attack suite's programs. None of them is rewarded."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from components.shared.models import load_tokenizer
from components.shared.problem import PROBLEMS, write_problems
from components.shared.sampling import Completion
from components.train import rollouts
from components.train.rewards import Judged, TestReward
from tests.builders import make_problem
from tests.conftest import DEMO_MODEL
from tests.sandbox.attack import TESTS, Attack
from tests.sandbox.attacks import ATTACKS

SHARE = 0.5
LONGEST = 256  # tokens: what the demo's model can read at once
HONEST = "def f(n):\n    return n * n\n"
TOKENIZER = load_tokenizer(str(DEMO_MODEL), "", use_chat_template=True)


def ids_of(program: str) -> list[int]:
    ids: list[int] = TOKENIZER(f"```python\n{program}\n```", add_special_tokens=False)["input_ids"]
    return [*ids, TOKENIZER.eos_token_id]


def fits(program: str) -> bool:
    """Whether the demo's model could say it: text, and no longer than what it can read."""
    try:
        program.encode()
    except UnicodeEncodeError:
        return False
    return len(program) < 10 * LONGEST and len(ids_of(program)) <= LONGEST


WRITTEN = [attack for attack in ATTACKS if fits(attack.program)]
QUICK = [attack for attack in WRITTEN if attack.outcome not in ("timeout", "memory")][::16]


class CheatingPolicy:
    """Stands where the model is sampled: about half of the rows say a forged program, every 16th the honest one."""

    def __init__(self, sample: Callable[..., list[Completion]], seed: int) -> None:
        self.sample, self.random = sample, random.Random(seed)
        self.forged: list[str] = []

    def __call__(self, model: Any, tokenizer: Any, prompts: Sequence[str], *given: Any) -> list[Completion]:
        return [
            self.mixed(row, prompt, one)
            for row, (prompt, one) in enumerate(
                zip(prompts, self.sample(model, tokenizer, prompts, *given), strict=True)
            )
        ]

    def mixed(self, row: int, prompt: str, sampled: Completion) -> Completion:
        attack = ATTACKS[int(prompt.split("Variant ")[1].split(".")[0])]
        if row % 16 == 0:
            program = HONEST
        elif row % 4 == 1 or self.random.random() < SHARE:  # one of each group at least
            program = attack.program
            self.forged.append(attack.name)
        else:
            return sampled
        ids = ids_of(program)
        text = TOKENIZER.decode(ids, skip_special_tokens=True)
        return Completion(text=text, token_ids=tuple(ids), prompt_ids=sampled.prompt_ids, ended_by="eos")


@pytest.fixture
def rewarded(monkeypatch: pytest.MonkeyPatch) -> list[Judged]:
    """Every completion that training judges, with its reward."""
    seen: list[Judged] = []
    judge = TestReward.__call__

    def noting(reward: TestReward, *given: Any, **named: Any) -> Any:
        rewards = judge(reward, *given, **named)
        seen.extend(reward.batch)
        return rewards

    monkeypatch.setattr(TestReward, "__call__", noting)
    return seen


@pytest.mark.parametrize("attacks", [QUICK, pytest.param(WRITTEN, marks=pytest.mark.slow)], ids=["some", "all"])
def test_a_policy_that_cheats_is_never_rewarded(
    attacks: list[Attack],
    train: Callable[..., Any],
    rewarded: list[Judged],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    problems = [
        make_problem(str(place), prompt=f"Square n. Variant {place}.\n\ndef f(n):", entry_point="f", tests=attack.tests)
        for place, attack in enumerate(ATTACKS)
        if attack in attacks
    ][: len(attacks) // 4 * 4]
    write_problems(tmp_path / "forged" / PROBLEMS, problems)
    policy = CheatingPolicy(rollouts.generate, seed=1)
    monkeypatch.setattr(rollouts, "generate", policy)
    train(problems=tmp_path / "forged", use_chat_template=True, max_completion_length=16, epochs=1)
    forged = {f"```python\n{attack.program}\n```": attack.name for attack in ATTACKS}
    cheats = [judged for judged in rewarded if judged.completion in forged and HONEST not in judged.completion]
    assert len(cheats) == len(policy.forged) > 0.4 * len(rewarded)
    assert {judged.problem.task_id for judged in cheats} == {problem.task_id for problem in problems}
    paid = [(forged[judged.completion], judged.verdict) for judged in cheats if judged.reward != 0.0]
    assert not paid, paid
    honest = [judged for judged in rewarded if judged.completion == f"```python\n{HONEST}\n```"]
    fair = [judged.reward for judged in honest if judged.problem.tests == TESTS]
    assert fair
    assert set(fair) == {1.0}  # the same tests do reward what solves them
