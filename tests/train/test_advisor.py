"""Each symptom gets the parameter to change; a healthy run gets no advice."""

from typing import Any

import pytest

from components.shared.errors import InfraError, UserError
from components.train.advisor import Advisor, advise
from components.train.symptoms import RULES
from components.train.watch import LOST_STEPS_IN_A_ROW, refuse_nan, stuck
from tests.train.conftest import parameters
from tests.train.test_report import row

ALL_FAIL = {"all_fail": 4, "mixed": 0, "all_pass": 0, "unrewarded": 0}
ALL_PASS = {"all_fail": 0, "mixed": 0, "all_pass": 4, "unrewarded": 0}
HALF = {"all_fail": 2, "mixed": 0, "all_pass": 2, "unrewarded": 0}
SLOW = {"generate": 90.0, "reward": 1.0, "update": 5.0, "step": 96.0}
JUDGING = {"generate": 1.0, "reward": 1.0, "update": 1.0, "step": 3.0}
PASSED, HACKED = {"passed_visible": 8, "failed_hidden": 1}, {"passed_visible": 8, "failed_hidden": 2}
# symptom: (changes of the first 30 rows, of the last 20, a parameter that the advice must name)
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "truncation": ({}, {"truncated": 0.5}, "max_completion_length (now 32)"),
    "no_programs": ({}, {"outcomes": {"syntax": 6, "failed": 2}}, "turn use_chat_template on if this is an -Instruct"),
    "all_fail": ({}, {"groups": ALL_FAIL, "zero_variance": 1.0, "reward": 0.0}, "model_name"),
    "all_pass": ({}, {"groups": ALL_PASS, "zero_variance": 1.0}, "use_filter"),
    "few_mixed": ({}, {"groups": HALF, "zero_variance": 1.0}, "num_generations (now 4)"),
    "drift": ({}, {"kl": 0.8, "lengths": {"mean": 40.0, "max": 50.0}}, "raise beta (now 0.04)"),
    "no_movement": ({"kl": 1e-6}, {"kl": 1e-6}, "raise lr (now 0.002)"),
    "entropy_collapse": ({}, {"entropy": 0.1}, "epsilon_high"),
    "degenerate_reward": ({"reward": 0.3}, {"reward": 0.99}, "dataset with more tests"),
    "reward_hacking": ({"hidden": PASSED}, {"hidden": HACKED}, "lower epochs (now 1)"),
    "wild_gradients": ({}, {"grad_norm": 50.0}, "lower lr"),
    "infrastructure": ({}, {"infra": 0.01}, "infra_limit"),
    "timeouts": ({}, {"outcomes": {"timeout": 4, "failed": 4}}, "test_timeout_s"),
    "slow_rewards": ({}, {"seconds": JUDGING}, "more replicas"),
    "slow_generation": ({}, {"seconds": SLOW}, "num_generations (now 4)"),
}


def history(first: dict[str, Any], last: dict[str, Any]) -> list[dict[str, Any]]:
    return [row(step, **(first if step <= 30 else last)) for step in range(1, 51)]


@pytest.mark.parametrize("name", CASES)
def test_a_symptom_is_named_with_the_parameter_to_change(name: str) -> None:
    first, last, parameter = CASES[name]
    found = {advice.name: advice for advice in advise(history(first, last), parameters())}
    assert set(found) == {name}
    assert parameter in str(found[name])


def test_every_rule_has_a_case_and_a_healthy_run_no_advice() -> None:
    assert {check.__name__ for check in RULES} == set(CASES)
    assert advise(history({}, {}), parameters()) == []
    assert advise([row(step, truncated=1.0) for step in range(1, 6)], parameters()) == []  # too early to say


def test_truncation_without_a_reward_names_that_too() -> None:
    long = history({}, {"truncated": 0.5})
    (found,) = advise(long, parameters(truncated_reward="none"))
    assert found.change == "raise max_completion_length (now 32), or set truncated_reward zero"


def test_nothing_measured_is_no_symptom() -> None:
    nothing = {"reward": None, "pass_rate": None, "kl": None, "entropy": None, "grad_norm": None, "loss": None}
    groups = {"all_fail": 0, "mixed": 0, "all_pass": 0, "unrewarded": 4}
    empty = {**nothing, "groups": groups, "zero_variance": 1.0, "outcomes": {"infra": 8}, "infra": 1.0}
    found = [advice.name for advice in advise(history({}, empty), parameters())]
    assert found == ["few_mixed", "infrastructure"]


def test_advice_is_told_once_until_the_symptom_was_away() -> None:
    advisor, said = Advisor(), []
    for step in range(1, 101):
        long = step <= 30 or step > 80
        rows = [row(one, truncated=0.9 if one <= 30 or one > 80 else 0.0) for one in range(1, step + 1)]
        said += [(step, advice.name) for advice in advisor.news(rows, parameters()) if long or advice.name]
    assert said == [(10, "truncation"), (85, "truncation")]


def test_a_run_that_learns_nothing_stops_only_when_asked_to() -> None:
    flat = history({}, {"groups": ALL_FAIL, "zero_variance": 1.0})
    assert stuck(flat, parameters()) is None
    assert stuck(flat, parameters(max_stuck_steps=21)) is None
    verdict = stuck(flat, parameters(max_stuck_steps=20))
    assert isinstance(verdict, UserError)
    assert "No group was mixed for 20 steps in a row" in str(verdict)
    assert "model_name" in str(verdict)


def test_steps_without_a_usable_completion_stop_a_run_by_themselves() -> None:
    truncated = [row(step, usable=0.0, truncated=1.0) for step in range(1, LOST_STEPS_IN_A_ROW + 1)]
    assert "raise max_completion_length" in str(stuck(truncated, parameters()))
    assert stuck(truncated[1:], parameters()) is None
    assert stuck([*truncated[1:], row(6)], parameters()) is None
    assert isinstance(stuck([row(step, usable=0.0, infra=1.0) for step in range(5)], parameters()), InfraError)


def test_what_is_not_a_number_is_answered_with_what_to_do() -> None:
    refuse_nan({"loss": 0.1, "grad_norm": 1.0}, 3, parameters(), scaled=False)
    refuse_nan({"loss": 0.1, "grad_norm": float("inf")}, 3, parameters(), scaled=True)  # fp16 skips such a step
    with pytest.raises(UserError, match=r"gradient of step 3 .*lower lr \(now 0.002\), or use precision fp32"):
        refuse_nan({"loss": 0.1, "grad_norm": float("nan")}, 3, parameters(), scaled=False)
    with pytest.raises(UserError, match=r"loss of step 3 .*lower lr \(now 0.002\)\.$"):
        refuse_nan({"loss": float("nan")}, 3, parameters(precision="fp32"), scaled=True)


def test_a_gap_that_does_not_grow_is_the_tests_fault() -> None:
    weak = {"hidden": {"passed_visible": 8, "failed_hidden": 4}}
    (advice,) = advise(history(weak, weak), parameters())
    assert advice.symptom == "50% of the completions that pass the visible tests fail hidden ones"
    assert "too few to tell a solution from a guess" in advice.cause
    few = {"hidden": {"passed_visible": 1, "failed_hidden": 1}}
    assert advise(history(few, few), parameters()) == []
    assert advise(history({"hidden": PASSED}, {"hidden": PASSED}), parameters()) == []
