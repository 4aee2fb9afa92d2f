"""From judged trials to evaluation.json: rates, buckets, what is left out, and the hidden tests' gap."""

import json

import pytest

from components.evaluate.comparison import Trial, compare, scores_of
from components.evaluate.content import alone_as_json, as_json
from components.shared.attempts import Attempt
from components.shared.sampling import Completion
from components.shared.sandbox import TestVerdict, Verdict
from components.shared.statistics import mean_interval
from tests.builders import make_problem


def trial(
    outcome: str, *, hidden: str | None = None, truncated: bool = False, program: str = "def double(x): ..."
) -> Trial:
    completion = Completion(text="", token_ids=(7, 8), prompt_ids=(), ended_by="length" if truncated else "eos")
    return Trial(Attempt(completion, program, verdict(outcome)), None if hidden is None else verdict(hidden))


def verdict(outcome: str) -> Verdict:
    passed = None if outcome == "infra" else outcome == "passed"
    return Verdict(id="0", outcome=outcome, passed=passed, tests=[TestVerdict(index=0, outcome=outcome, detail="why")])


def trials(marks: str) -> list[Trial]:
    """One trial a character: + passed, - failed, ? infra."""
    return [trial({"+": "passed", "-": "failed", "?": "infra"}[mark]) for mark in marks]


def compared(*rows: tuple[str, str]):
    """A comparison over problems 1, 2, …; each row holds the marks of base and tuned model."""
    problems = [make_problem(str(number)) for number in range(1, len(rows) + 1)]
    base, tuned = [trials(row[0]) for row in rows], [trials(row[1]) for row in rows]
    return compare(problems, base, tuned, samples=max(len(row[0]) for row in rows))


def test_rates_and_pass_at_k():
    content = as_json(compared(("+---", "++--"), ("----", "+---"), ("++++", "++++")))
    assert content["base"]["pass_at_1"] == pytest.approx((0.25 + 0 + 1) / 3)
    assert content["tuned"]["pass_at_1"] == pytest.approx((0.5 + 0.25 + 1) / 3)
    assert content["difference"]["pass_at_1"] == pytest.approx(0.5 / 3)
    assert content["tuned"]["pass_at_k"] == pytest.approx(
        {"1": 1.75 / 3, "2": (5 / 6 + 1 / 2 + 1) / 3, "3": (1 + 3 / 4 + 1) / 3, "4": 1.0}
    )
    assert content["base"]["outcomes"] == {"failed": 7, "passed": 5}
    assert content["base"]["lengths"] == {"mean": 2, "median": 2, "longest": 2}
    assert (content["problems"], content["samples_per_problem"]) == (3, 4)


def test_buckets_hold_each_problem_once_and_the_largest_change_first():
    comparison = compared(
        ("+---", "++--"), ("----", "++++"), ("++++", "+---"), ("++++", "+++-"), ("----", "----"), ("+---", "-+--")
    )
    assert as_json(comparison)["buckets"] == {
        "improved": ["2", "1"], "both": ["6"], "neither": ["5"], "regressed": ["3", "4"]
    }  # fmt: skip


def test_a_lost_verdict_is_not_a_failure():
    content = as_json(compared(("+?", "++"), ("??", "++"), ("--", "-+")))
    assert content["dropped"] == ["2"]
    assert content["problems"] == 2
    assert content["base"]["pass_at_1"] == 0.5
    assert content["base"]["infra"] == 0.25
    assert content["base"]["pass_at_k"]["2"] == 0.0, "only problem 3 has two judged samples"
    assert content["per_problem"][0] == {
        "task_id": "1", "base_passes": 1, "base_judged": 1, "tuned_passes": 2, "tuned_judged": 2
    }  # fmt: skip
    assert content["buckets"]["both"] == ["1"], "1 of 1 and 2 of 2 are the same rate"


def test_within_noise_is_said_and_a_clear_gain_is_not_noise():
    noise = as_json(compared(*[("+-", "-+"), ("++", "+-"), ("--", "+-"), ("+-", "++")] * 3))
    gain = as_json(compared(*[("--", "++"), ("+-", "++"), ("--", "+-")] * 6))
    assert noise["within_noise"]
    assert not gain["within_noise"]
    assert gain["difference"]["ci95"][0] > 0
    assert noise["minimum_detectable"] > abs(noise["difference"]["pass_at_1"])
    assert noise["problems_to_settle"] > 12


def test_no_change_at_all_is_no_certainty():
    content = as_json(compared(*[("+-", "+-")] * 30))
    low, high = content["difference"]["ci95"]
    assert low < -0.05
    assert high > 0.05
    assert content["minimum_detectable"] > 0.05
    assert content["problems_to_settle"] is None


def test_hidden_tests_show_what_only_the_visible_ones_accept():
    problems = [make_problem("1", hidden_tests=["assert double(3) == 6"]), make_problem("2")]
    base = [[trial("passed", hidden="passed"), trial("failed")], trials("+-")]
    tuned = [[trial("passed", hidden="failed"), trial("passed", hidden="passed")], trials("++")]
    hidden = as_json(compare(problems, base, tuned, samples=2))["hidden_tests"]
    assert hidden == {
        "problems": 1,
        "generated": 0,
        "base": {
            "visible": 0.5, "visible_and_hidden": 0.5, "gap": 0.0, "gap_ci95": hidden["base"]["gap_ci95"],
            "missed_share": 0.0, "passed_visible": 1, "failed_hidden": 0,
        },
        "tuned": {
            "visible": 1.0, "visible_and_hidden": 0.5, "gap": 0.5, "gap_ci95": hidden["tuned"]["gap_ci95"],
            "missed_share": 0.5, "passed_visible": 2, "failed_hidden": 1,
        },
        "growth": {"gap": 0.5, "ci95": hidden["growth"]["ci95"]},
        "growth_of_share": {"share": 0.5, "ci95": hidden["growth_of_share"]["ci95"]},
    }  # fmt: skip
    assert hidden["tuned"]["gap_ci95"][0] <= 0.5 <= hidden["tuned"]["gap_ci95"][1]


def test_a_lost_hidden_verdict_is_no_gap():
    problem = make_problem("1", hidden_tests=["assert double(3) == 6"])
    tuned = [trial("passed", hidden="infra"), trial("passed", hidden="passed")]
    hidden = as_json(compare([problem], [trials("--")], [tuned], samples=2))["hidden_tests"]
    assert hidden["tuned"]["gap"] == 0.0
    assert (hidden["tuned"]["passed_visible"], hidden["tuned"]["failed_hidden"]) == (1, 0)


def test_the_gap_has_an_interval_and_its_growth_is_paired():
    """20 problems of 4 samples: the base fails a hidden test with 1 sample in 10 problems, the tuned model with 3."""
    problems = [make_problem(str(n), hidden_tests=["h"], hidden_tests_from=["generated"]) for n in range(20)]
    right, wrong = trial("passed", hidden="passed"), trial("passed", hidden="failed")
    base = [[wrong if n < 10 else right, right, right, right] for n in range(20)]
    tuned = [[wrong, wrong, wrong, right] if n < 10 else [right] * 4 for n in range(20)]
    hidden = as_json(compare(problems, base, tuned, samples=4))["hidden_tests"]
    assert (hidden["problems"], hidden["generated"]) == (20, 20)
    assert hidden["base"]["gap"] == pytest.approx(0.125)
    assert hidden["tuned"]["gap"] == pytest.approx(0.375)
    growth = mean_interval([0.5] * 10 + [0.0] * 10, low=-1, high=1)
    assert hidden["growth"] == {"gap": pytest.approx(0.25), "ci95": [growth.low, growth.high]}
    share = hidden["growth_of_share"]
    assert share["share"] == pytest.approx(0.25), "all samples pass the visible tests"
    assert share["ci95"] == pytest.approx([growth.low, growth.high])


def test_the_share_of_what_passes_that_fails_hidden_tests_is_a_ratio_of_means():
    """Passes 4 and 1 of 4 with 1 and 1 missed, then 4 and 4 with 2 and 1: 2/5 before, 3/8 after."""
    problems = [make_problem(str(n), hidden_tests=["h"]) for n in range(2)]
    right, wrong, failed = trial("passed", hidden="passed"), trial("passed", hidden="failed"), trial("failed")
    base = [[wrong, right, right, right], [wrong, failed, failed, failed]]
    tuned = [[wrong, wrong, right, right], [wrong, right, right, right]]
    hidden = as_json(compare(problems, base, tuned, samples=4))["hidden_tests"]
    assert hidden["growth_of_share"]["share"] == pytest.approx(3 / 8 - 2 / 5)


def test_without_hidden_tests_there_is_no_gap_to_report():
    assert as_json(compared(("+", "+")))["hidden_tests"] is None


def test_a_base_alone_has_its_rate_and_no_difference():
    problems = [make_problem(str(number)) for number in range(3)]
    content = alone_as_json(scores_of(problems, [trials("++--"), trials("????"), trials("+?--")], samples=4))
    assert content["base"]["pass_at_1"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert content["dropped"] == ["1"]
    assert content["problems"] == 2
    assert content["per_problem"][1] == {"task_id": "2", "base_passes": 1, "base_judged": 3}
    assert not {"tuned", "difference", "buckets", "within_noise"} & set(content)
    assert json.loads(json.dumps(content)) == content


def test_the_content_is_plain_json():
    content = as_json(compared(("+-", "++"), ("--", "-+")))
    assert json.loads(json.dumps(content)) == content
