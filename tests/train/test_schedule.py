"""Batch arithmetic and the order of prompts."""

import pytest

from components.shared.errors import UserError
from components.train.schedule import plan, prompt_order
from tests.builders import make_problem


def test_steps_run_over_the_epochs_without_a_gap() -> None:
    schedule = plan(problems=10, epochs=3, batch_size=16, num_generations=4, micro_batch_size=8)
    assert (schedule.prompts_per_step, schedule.steps, schedule.accumulation) == (4, 7, 2)
    assert schedule.epoch_at(5) == 2.0
    assert schedule.epoch_at(7) == 2.8


def test_auto_micro_batch_divides_the_batch() -> None:
    for batch_size in (2, 8, 48, 100, 96):
        schedule = plan(problems=50, epochs=1, batch_size=batch_size, num_generations=2, micro_batch_size=0)
        assert batch_size % schedule.micro_batch_size == 0


def test_too_few_problems_for_one_step_is_said_with_what_would_do() -> None:
    with pytest.raises(UserError, match=r"3 training problems in 1 epochs do not fill one step of 4.*at most 24"):
        plan(problems=3, epochs=1, batch_size=32, num_generations=8, micro_batch_size=0)


def test_every_epoch_has_every_problem_in_an_order_of_its_own() -> None:
    problems = [make_problem(str(number)) for number in range(20)]
    order = prompt_order(problems, epochs=2, seed=1)
    first, second = order[:20], order[20:]
    assert sorted(one.task_id for one in first) == sorted(one.task_id for one in second)
    assert first != second
    assert prompt_order(problems, epochs=2, seed=1) == order
    assert prompt_order(problems, epochs=2, seed=2) != order
