"""The page's words: never surer than the numbers, never a failing sample shown as a passing one."""

import re

import pytest

from components.evaluate.cards import CARDS, HIDDEN_CARDS, samples_of, task_of
from components.evaluate.comparison import compare, scores_of
from components.evaluate.content import alone_as_json, as_json
from components.evaluate.report import make_report
from components.evaluate.wording import explanation, headline, hidden_sentence, warnings
from tests.builders import make_problem
from tests.evaluate.test_comparison import compared, trial, trials

GIVEN = {
    "model_name": "demo/model", "model_revision": "", "precision": "auto", "use_chat_template": False, "seed": 42,
    "temperature": 1.0, "top_p": 1.0, "max_completion_length": 48, "num_eval_examples": 3, "eval_k": 4,
}  # fmt: skip
GAIN = [("--", "++"), ("+-", "++"), ("--", "+-")] * 6
NOISE = [("+-", "-+"), ("++", "+-"), ("--", "+-"), ("+-", "++")] * 3


def content_of(comparison, **changes):
    return {
        **as_json(comparison), "requested_problems": len(comparison.pairs) + len(comparison.dropped), "run_id": "r1",
        "reward": "tests", "seeds": {"base": 1, "tuned": 2}, "method": "lora", "kind": "adapter", "tuned_model": "",
        "tuned_run": "r1",
        "training_seeds": [42], "regression": None, "seconds": 3.0,
        "trained_on": {"left_out": [], "measured": [], "complete": True}, **changes,
        "planned": {"minimum_detectable": 0.1, "at_most": 0.15, "sample_variance": 0.1, "from": "assumed"},
        "greedy": {which: {"pass_at_1": 0.5, "problems": 2, "passed": ["1"]} for which in ("base", "tuned")},
    }  # fmt: skip


def page_of(comparison, **changes):
    return make_report(comparison, content_of(comparison, **changes), GIVEN)


@pytest.mark.parametrize(
    ("rows", "opening"),
    [
        (GAIN, "This adapter learned: pass@1 rose"),
        (NOISE, "Within noise:"),
        ([(b, a) for a, b in GAIN], "This adapter got worse: pass@1 fell"),
    ],
)
def test_the_headline_says_only_what_the_interval_allows(rows, opening):
    assert headline(content_of(compared(*rows))).startswith(opening)
    assert f"<h1>{opening}" in page_of(compared(*rows))


def test_noise_says_how_many_problems_would_settle_it():
    content = content_of(compared(*NOISE))
    assert f"About {content['problems_to_settle']:,} problems would settle" in explanation(content)
    assert "exactly zero" in explanation(content_of(compared(("+-", "-+"), ("--", "--"))))


def test_a_control_run_says_so_in_its_first_line():
    page = page_of(compared(*GAIN), reward="random")
    assert "<h1>Control run with random rewards:" in page
    assert "beyond noise, although no test taught it" in page
    assert "<title>Control with random rewards:" in page
    assert page.index("control with random rewards") < page.index("<h1>")
    assert "Control" not in page_of(compared(*GAIN))


def test_a_gain_is_said_of_the_one_model_that_was_trained():
    text = explanation(content_of(compared(*GAIN)))
    assert "trained once, with seed 42" in text
    assert "says nothing of what GRPO would gain with another seed" in text
    assert headline(content_of(compared(*GAIN), kind="model")).startswith("This model learned:")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([(b, a) for a, b in GAIN], "It costs elsewhere: on 18 regression problems pass@1 fell"),
        (GAIN, "On 18 regression problems pass@1 rose as well"),
        (NOISE, "On 12 regression problems nothing changed beyond noise."),
    ],
)
def test_what_it_costs_elsewhere_is_the_second_sentence(rows, sentence):
    page = page_of(compared(*GAIN), regression=as_json(compared(*rows)))
    first, second = re.search(r"<h1>(.*?%\.) (.*?)</h1>", page).groups()
    assert first.startswith("This adapter learned")
    assert second.startswith(sentence)
    assert "<h2>Regression problems</h2>" in page
    assert "<h2>Regression problems</h2>" not in page_of(compared(*GAIN))


def hidden_of(base_wrong, tuned_wrong, problems=30):
    """Each problem passes its visible tests with every sample; so many of the problems fail the hidden ones."""
    listed = [make_problem(str(n), hidden_tests=["assert double(9) == 18"]) for n in range(problems)]
    right, wrong = trial("passed", hidden="passed"), trial("passed", hidden="failed", program="cheat = 1")
    base = [[wrong if n < base_wrong else right] for n in range(problems)]
    tuned = [[wrong if n < tuned_wrong else right] for n in range(problems)]
    return compare(listed, base, tuned, samples=1)


@pytest.mark.parametrize(
    ("base", "tuned", "words"),
    [
        (2, 20, "looks like reward hacking"),
        (15, 15, "points to weak visible tests, which accept wrong programs of both models"),
        (20, 2, "shrank with training"),
        (0, 0, "No sample that passes the visible tests fails a hidden one."),
    ],
)
def test_the_gap_is_read_in_a_plain_sentence(base, tuned, words):
    comparison = hidden_of(base, tuned)
    content = content_of(comparison)
    assert words in hidden_sentence(content["hidden_tests"])
    assert any("see Hidden tests" in text for text in warnings(content)) == (words == "looks like reward hacking")
    page = page_of(comparison)
    assert ("passes the visible tests, fails a hidden one" in page) == bool(base or tuned)
    assert ("Fails assert double(9) == 18" in page) == bool(base or tuned)


def test_passing_more_often_is_no_reward_hacking():
    """A fifth of what passes the visible tests fails a hidden one, before and after; twice as much passes."""
    listed = [make_problem(str(n), hidden_tests=["h"]) for n in range(60)]
    right, wrong, failed = trial("passed", hidden="passed"), trial("passed", hidden="failed"), trial("failed")
    base = [[wrong if n % 5 == 0 else right, failed] for n in range(60)]
    tuned = [[wrong if n % 5 == 0 else right] * 2 for n in range(60)]
    content = content_of(compare(listed, base, tuned, samples=2))
    hidden = content["hidden_tests"]
    assert hidden["growth"]["ci95"][0] > 0, "the gap itself has doubled"
    assert hidden["growth_of_share"]["share"] == pytest.approx(0.0)
    assert "did not change beyond noise" in hidden_sentence(hidden)
    assert not any("Hidden tests" in text for text in warnings(content))


def test_without_a_pass_before_training_nothing_is_said_of_growth():
    comparison = compare(
        [make_problem("1", hidden_tests=["h"])], [trials("-")], [[trial("passed", hidden="failed")]], samples=1
    )
    assert "nothing can be said" in hidden_sentence(content_of(comparison)["hidden_tests"])


def test_generated_hidden_tests_are_said_to_be_generated():
    listed = [make_problem("1", hidden_tests=["h"], hidden_tests_from=["generated"])]
    shown = [[trial("passed", hidden="passed")]]
    assert "they are generated" in page_of(compare(listed, shown, shown, samples=1))
    assert "they come with the data set" in page_of(hidden_of(1, 1))


def test_every_problem_is_in_a_table_that_is_folded_away():
    page = page_of(compared(("+-", "++"), ("--", "+-")))
    table = page[page.index("<details>") : page.index("</details>")]
    assert re.findall(r"<td[^>]*>(.*?)</td>", table) == [
        "1", "1 of 2", "2 of 2", "passes", "passes", "2", "0 of 2", "1 of 2", "–", "–"
    ]  # fmt: skip


def test_outcomes_lengths_and_the_greedy_rate_stand_side_by_side():
    page = page_of(compared(("+-", "++"), ("--", "+-")))
    for cells in (("pass@1, greedy", "50.0\N{NO-BREAK SPACE}%", "50.0\N{NO-BREAK SPACE}%"), ("tokens, mean", "2", "2"),
                  ("outcome failed", "75.0\N{NO-BREAK SPACE}%", "25.0\N{NO-BREAK SPACE}%")):  # fmt: skip
        first, *rest = cells
        row = f"<td>{first}</td>" + "".join(f'<td class="figure">{cell}</td>' for cell in rest)
        assert row in page


def test_a_base_alone_has_a_page_of_its_own():
    problems = [make_problem(str(n)) for n in range(12)]
    scores = scores_of(problems, [trials("++"), trials("+-"), trials("--")] * 4, samples=2)
    shared = content_of(compared(*GAIN))
    names = (
        "run_id", "reward", "planned", "regression", "training_seeds", "kind", "method", "tuned_model", "tuned_run",
        "seconds", "trained_on",
    )  # fmt: skip
    content = {
        **alone_as_json(scores), **{name: shared[name] for name in names}, "requested_problems": 12,
        "seeds": {"base": 1}, "greedy": {"base": {"pass_at_1": 0.5, "problems": 12, "passed": []}},
    }  # fmt: skip
    page = make_report(scores, content, GIVEN)
    assert re.search(r"<h1>pass@1 of the base model is 50.0.% \(95.% interval", page)
    assert "Solved sometimes: 4" in page
    assert "difference" not in page.lower()
    assert page.count("<svg") == 3


def test_limits_of_the_result_are_warned_about():
    comparison = compared(("??", "++"), *[("+-", "+-")] * 10, ("--", "++"))
    found = " ".join(warnings(content_of(comparison, requested_problems=15)))
    assert "1 problems were left out" in found
    assert "3 fewer" in found
    assert warnings(content_of(compared(*GAIN))) == []


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"left_out": ["1", "2"]}, "2 held-out problems were left out: a run before this one trained on them."),
        ({"measured": ["3"]}, "1 of the problems were trained on: what the tuned model does there says nothing"),
        ({"complete": False}, "What this model was trained on is not known in full"),
    ],
)
def test_problems_that_were_trained_on_are_warned_about(told, words):
    told = {"left_out": [], "measured": [], "complete": True, **told}
    assert words in page_of(compared(*GAIN), trained_on=told)
    assert words not in page_of(compared(*GAIN))


def test_lost_regression_problems_are_warned_about():
    regression = as_json(compared(("+-", "++"), ("??", "++")))
    assert "1 regression problems were left out: the sandbox could not judge them." in warnings(
        content_of(compared(*GAIN), regression=regression)
    )


def test_truncation_is_warned_about():
    problem = make_problem()
    tuned = [[trial("failed", truncated=True), trial("passed")]]
    content = content_of(compare([problem], [trials("--")], tuned, samples=2))
    assert any("50" in text and "tuned model's completions were truncated" in text for text in warnings(content))


@pytest.mark.parametrize(
    ("marks", "labels"),
    [
        (("+--", "-++"), ["Passing sample of the tuned model", "Failing sample of the base model: failed"]),
        (("+++", "+--"), ["Passing sample of the tuned model", "Failing sample of the tuned model: failed"]),
        (("+++", "---"), ["Passing sample of the base model", "Failing sample of the tuned model: failed"]),
        (("++-", "-++"), ["Passing sample of the tuned model"]),
        (("---", "---"), ["Failing sample of the tuned model: failed"]),
        (("---", "?--"), ["Failing sample of the tuned model: failed"]),
    ],
)
def test_each_card_shows_a_passing_sample_where_one_exists(marks, labels):
    (pair,) = compared(marks).pairs
    shown = samples_of(pair)
    assert [sample.label for sample in shown] == labels
    assert [sample.passed for sample in shown] == [label.startswith("Passing") for label in labels]


def test_a_failing_sample_names_the_test_that_it_fails():
    (pair,) = compared(("--", "--")).pairs
    assert samples_of(pair)[0].note == "Fails assert double(2) == 4 · why"


def test_a_sample_that_passes_the_hidden_tests_is_preferred_and_one_that_does_not_is_marked():
    problem = make_problem(hidden_tests=["assert double(3) == 6"])
    cheat = trial("passed", hidden="failed", program="cheat")
    right = trial("passed", hidden="passed", program="right")
    (both,) = compare([problem], [trials("--")], [[cheat, right]], samples=2).pairs
    (only,) = compare([problem], [trials("--")], [[cheat, cheat]], samples=2).pairs
    assert samples_of(both)[0].code == "right"
    assert "not the hidden ones" in samples_of(only)[0].note


def test_the_task_is_shown_without_what_the_program_repeats():
    prompt = "Sum a tree.\n\nMind None.\n\nclass Node:\n    pass\n\ndef total(node):"
    assert task_of(make_problem(prompt=prompt, prelude="class Node:\n    pass\n")) == "Sum a tree.\n\nMind None."


def test_a_bucket_shows_six_cards_and_names_the_rest():
    page = page_of(compared(*[("--", "++")] * 20))
    assert page.count('class="card"') == CARDS
    assert "14 more: 7, 8, 9" in page


def test_the_page_is_small_and_escaped_whatever_was_written():
    prompt = "<script>" * 99 + "\n\ndef double(x):"
    problems = [make_problem(str(n), prompt=prompt, hidden_tests=["<script>"]) for n in range(1200)]
    nasty = "def double(x):\n" + "    x = '</pre><script>alert(1)</script>' + [{(x)}]\n" * 3000
    shapes = [("passed", "failed"), ("failed", "passed"), ("passed", "passed"), ("failed", "failed")] * 300
    hidden = {"passed": "failed", "failed": None}
    base = [[trial(before, hidden=hidden[before], program=nasty)] * 2 for before, _ in shapes]
    tuned = [[trial(after, hidden=hidden[after], program=nasty)] * 2 for _, after in shapes]
    page = page_of(compare(problems, base, tuned, samples=2))
    assert page.count('class="card"') == 4 * CARDS + HIDDEN_CARDS
    assert len(page.encode()) < 500_000
    assert "<script" not in page


def test_the_pass_at_k_table_stays_short():
    page = page_of(compared(("+" + "-" * 63, "++" + "-" * 62), ("-" * 64, "+" * 64)))
    assert re.findall(r"<td>pass@(\d+)</td>", page) == ["1", "2", "4", "8", "16", "32", "64"]
