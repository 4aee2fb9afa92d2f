"""The page's words: never surer than the numbers, never a failing sample shown as a passing one."""

import re

import pytest

from components.evaluate.comparison import as_json, compare
from components.evaluate.report import CARDS, explanation, headline, make_report, samples_of, task_of, warnings
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
        "reward": "tests", "seeds": {"base": 1, "tuned": 2}, "method": "lora", "seconds": 3.0, **changes,
    }  # fmt: skip


def page_of(comparison, **changes):
    return make_report(comparison, content_of(comparison, **changes), GIVEN)


@pytest.mark.parametrize(
    ("rows", "opening"),
    [
        (GAIN, "It learned: pass@1 rose"),
        (NOISE, "Within noise:"),
        ([(b, a) for a, b in GAIN], "It got worse: pass@1 fell"),
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
    assert "Control" not in page_of(compared(*GAIN))


def test_limits_of_the_result_are_warned_about():
    comparison = compared(("??", "++"), *[("+-", "+-")] * 10, ("--", "++"))
    found = " ".join(warnings(content_of(comparison, requested_problems=15)))
    assert "Fewer than five problems changed" in found
    assert "1 problems were left out" in found
    assert "3 fewer" in found
    assert warnings(content_of(compared(*GAIN))) == []


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


def test_a_bucket_shows_eight_cards_and_names_the_rest():
    page = page_of(compared(*[("--", "++")] * 20))
    assert page.count('class="card"') == CARDS
    assert "12 more: 9, 10, 11" in page


def test_the_page_is_small_and_escaped_whatever_was_written():
    problems = [make_problem(str(n), prompt="<script>" * 99 + "\n\ndef double(x):") for n in range(64)]
    nasty = "def double(x):\n" + "    x = '</pre><script>alert(1)</script>' + [{(x)}]\n" * 3000
    shapes = [("passed", "failed"), ("failed", "passed"), ("passed", "passed"), ("failed", "failed")] * 16
    base = [[trial(before, program=nasty)] * 2 for before, _ in shapes]
    tuned = [[trial(after, program=nasty)] * 2 for _, after in shapes]
    page = page_of(compare(problems, base, tuned, samples=2))
    assert page.count('class="card"') == 4 * CARDS
    assert len(page.encode()) < 500_000
    assert "<script" not in page


def test_the_pass_at_k_table_stays_short():
    page = page_of(compared(("+" + "-" * 63, "++" + "-" * 62), ("-" * 64, "+" * 64)))
    assert re.findall(r"<td>pass@(\d+)</td>", page) == ["1", "2", "4", "8", "16", "32", "64"]
