"""What an evaluation can show, said before it samples."""

import json

import pytest

from components.evaluate.planned import planned, sentence
from components.shared.statistics import mean_interval
from tests.evaluate.trained import evaluated, with_adapter


@pytest.mark.usefixtures("local_sandbox")
def test_what_can_be_shown_is_said_before_anything_is_sampled(tmp_path, problem_set, given, store_root, capsys):
    given.update(eval_k=2, max_completion_length=8)
    _, content = evaluated(tmp_path, problem_set, with_adapter(tmp_path / "model", scale=0.0), given)
    lines = capsys.readouterr().out.splitlines()
    said = next(
        place for place, line in enumerate(lines) if "12 problems with 2 samples of each model can show" in line
    )
    assert said < next(place for place, line in enumerate(lines) if "base model, sampled" in line)
    assert content["planned"]["minimum_detectable"] == pytest.approx(2.8 * ((0.02 + 2 * 0.1 / 2) / 12) ** 0.5)
    assert content["planned"]["from"] == "assumed"


def test_the_plan_takes_the_filters_estimate_where_there_is_one(tmp_path):
    (tmp_path / "filter").mkdir()
    (tmp_path / "filter/counts.json").write_text(json.dumps({"sample_variance": 0.2}))
    plan = planned(tmp_path, 50, 4)
    assert plan["minimum_detectable"] == pytest.approx(2.8 * ((0.02 + 2 * 0.2 / 4) / 50) ** 0.5)
    assert "given the filter's pass rates" in sentence(plan, count=50, samples=4, alone=False)


@pytest.mark.parametrize("count", [2, 9, 20, 50, 51, 500])
def test_no_interval_of_one_model_is_wider_than_planned(tmp_path, count):
    worst = mean_interval([0.0] * (count // 2) + [1.0] * (count - count // 2), low=0.0, high=1.0)
    planned_half = planned(tmp_path, count, 4)["half_width_alone"]
    assert max(worst.mean - worst.low, worst.high - worst.mean) <= planned_half + 1e-9
    assert planned(tmp_path, 1, 4)["half_width_alone"] == 1.0
