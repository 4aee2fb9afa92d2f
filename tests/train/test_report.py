"""The training report at every stage of a run."""

import time
from typing import Any

from components.train.curves import curves, running, thin
from components.train.report import stale_after, training_report
from components.train.schedule import Schedule

SCHEDULE = Schedule(
    steps=10_000, epochs=2, problems=20_000, batch_size=8, micro_batch_size=8, prompts_per_step=4
)  # fmt: skip
GIVEN = {
    "method": "lora", "model_name": "a/model", "lr": 5e-5, "beta": 0.04, "num_generations": 2, "reward": "tests",
    "use_chat_template": False, "max_completion_length": 64, "dynamic_sampling_tokens": 0, "batch_size": 8,
    "infra_limit": 0.02, "test_timeout_s": 5.0, "epochs": 2, "truncated_reward": "zero",
}  # fmt: skip


def row(step: int, **changes: Any) -> dict[str, Any]:
    seconds = {"generate": 1.0, "reward": 0.1, "update": 0.5, "step": 1.6}
    groups = {"all_fail": 1, "mixed": 2, "all_pass": 1, "unrewarded": 0}
    plain = {"step": step, "epoch": step / 5000, "loss": 0.01, "reward": 0.5, "pass_rate": 0.5, "kl": 0.1}
    shares = {"truncated": 0.0, "usable": 1.0, "infra": 0.0, "zero_variance": 0.5, "entropy": 1.0, "grad_norm": 0.5}
    counts = {"outcomes": {"passed": 4, "failed": 4}, "ended_by": {"eos": 8, "stop": 0, "length": 0}}
    lengths = {"mean": 20.0, "max": 40.0}
    return {**plain, **shares, **counts, "groups": groups, "seconds": seconds, "lengths": lengths, **changes}


def sample(step: int, completion: str) -> dict[str, Any]:
    return {
        "step": step, "task_id": "7", "prompt": "Add <2>.\n\ndef f(x):", "completion": completion,
        "outcome": "failed", "reward": 0.0,
        "failing_test": "assert f(1) == '<b>'", "failing_hidden_test": None,
    }  # fmt: skip


def page(
    metrics: list[dict[str, Any]], samples: list[dict[str, Any]], *, finished: bool = False, **changes: Any
) -> str:
    return training_report(
        metrics, samples, schedule=SCHEDULE, given={**GIVEN, **changes}, run="run-1", finished=finished
    )


def test_it_reloads_itself_until_the_run_is_finished() -> None:
    assert 'http-equiv="refresh"' in page([row(1)], [])
    assert 'http-equiv="refresh"' not in page([row(1)], [], finished=True)


def test_there_is_a_page_before_the_first_step_and_without_any_reward() -> None:
    assert "No completion has been rewarded yet." in page([], [])
    assert "No completion has been rewarded yet." in page([row(1, reward=None, pass_rate=None, kl=None, loss=None)], [])


def test_samples_are_cut_where_the_program_ends_and_cannot_write_into_the_page() -> None:
    html = page([row(1), row(2)], [sample(1, "\n    return OLD"), sample(2, "\n    return NEW + '<i>'\nAFTER()")])
    assert "NEW" in html
    assert "OLD" not in html
    assert "AFTER" not in html
    assert "<i>" not in html
    assert "&#39;&lt;b&gt;&#39;" in html
    assert "AFTER" in page([row(2)], [sample(2, "\n    return NEW\nAFTER()")], use_chat_template=True)


def test_a_long_run_has_a_small_page() -> None:
    metrics = [row(step, reward=(step % 7) / 7) for step in range(1, 10_001)]
    samples = [sample(step, "\n    return x" * 20) for step in range(1, 10_001) for _ in range(2)]
    began = time.process_time()
    html = page(metrics, samples)
    assert time.process_time() - began < 5
    assert len(html.encode()) < 500_000
    assert "a point is the mean of 34 steps" in html


def test_every_curve_shows_each_step_and_its_average() -> None:
    metrics = [row(step, reward=step % 2, hidden={"passed_visible": 4, "failed_hidden": 1}) for step in range(1, 41)]
    names = [name for name, _, _ in curves(metrics)]
    assert names == [
        "Reward", "Pass rate", "Groups", "Hidden tests", "Training loss", "Distance from the base", "Entropy",
        "Lengths", "Truncated", "Where the time goes",
    ]  # fmt: skip
    for name, svg, _ in curves(metrics):
        lines = 3 if name in ("Groups", "Where the time goes") else 2 if name == "Lengths" else 1
        assert svg.count("opacity: 0.3" if lines == 1 else "opacity: 0.15") == lines, name
    silent = [row(1, kl=None, entropy=None)]
    assert not {"Hidden tests", "Distance from the base", "Entropy"} & {name for name, _, _ in curves(silent)}


def test_a_page_says_when_it_was_written_and_when_that_is_too_long_ago() -> None:
    html = page([row(1)], [])
    assert time.strftime("Written %Y-%m-%d", time.gmtime()) in html
    assert "Nothing has been written since" in html
    ended = page([row(1)], [], finished=True)
    assert "Nothing has been written since" not in ended
    assert "Training ended after step 1 of 10000, before its end" in ended
    assert "before its end" not in html
    assert "before its end" not in page([row(10_000)], [], finished=True)
    slow = {"generate": 400.0, "reward": 1.0, "update": 99.0, "step": 500.0}
    assert (stale_after([row(1)]), stale_after([row(1, seconds=slow)]), stale_after([])) == (300.0, 5000.0, 1800.0)


def test_a_completion_that_misses_hidden_tests_is_shown_with_the_test() -> None:
    passing = {**sample(1, "\n    return x"), "outcome": "passed", "reward": 1.0, "failing_test": None}
    assert "of the hidden ones this does not hold: assert f(9)" in page(
        [row(1)], [{**passing, "failing_hidden_test": "assert f(9)"}]
    )
    del passing["failing_hidden_test"]  # as an older run wrote it
    assert "hidden ones" not in page([row(1)], [passing])


def test_steps_that_taught_nothing_are_told() -> None:
    assert "2 steps taught nothing" in page([row(1, usable=0.0, truncated=1.0), row(2, usable=0.0, infra=1.0)], [])
    assert "taught nothing" not in page([row(1)], [])


def test_the_page_says_what_to_change() -> None:
    rows = [row(step, truncated=0.6) for step in range(1, 21)]
    assert "60% of the completions are truncated" in page(rows, [])
    assert "raise max_completion_length (now 64)" in page(rows, [])
    assert "To do" not in page([row(step) for step in range(1, 21)], [])


def test_thinning_keeps_means_and_the_last_step() -> None:
    points = [(float(step), 1.0 if step % 2 else None) for step in range(1, 1001)]
    thinned = thin(points)
    assert len(thinned) <= 300
    assert thinned[-1][0] == 1000
    assert {y for _, y in thinned} == {1.0}
    assert thin(points[:10]) == points[:10]
    assert running([(1, None), (2, 0.0)]) == [(1, None), (2, 0.0)]
