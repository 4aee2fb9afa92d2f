"""`compare`: what it prints and draws of runs that ended, failed or are not finished, and which intervals it takes."""

import json

import pytest
from scipy import stats

from cli.comparing import page_of
from cli.main import main
from cli.past_runs import difference, differing, load
from components.shared.store import open_store
from tests.buckets import own_bucket
from tests.cli.past import evaluation_of, past_run

BASE, GOOD, BETTER = [0, 1, 2, 1] * 10, [1, 2, 3, 1] * 10, [3, 3, 4, 3] * 10
MISTAKES = [
    (["one"], "compare takes 2 to 20 different runs"),
    (["one", "one"], "different runs"),
    (["one", "nope"], "The store holds nothing of run nope"),
    (["one", "../x"], "is no run id"),
]


@pytest.fixture
def runs(store_root):
    """Five runs: two on the same problems, one on others, one that failed, one at work."""
    store = open_store()
    past_run(store, "one", evaluation=evaluation_of(BASE, GOOD), lr=1e-5)
    past_run(store, "two", evaluation=evaluation_of(BASE, BETTER), lr=2e-5)
    past_run(store, "elsewhere", evaluation=evaluation_of(BASE, BETTER, first_id=500), heldout="sha256:two")
    past_run(store, "crashed", outcome="failed")
    past_run(store, "working", outcome="")
    return store


def said(capsys, *arguments):
    """(exit code, stdout, stderr) of the verb."""
    with pytest.raises(SystemExit) as ended:
        main(["compare", *arguments])
    output = capsys.readouterr()
    return ended.value.code, output.out, output.err


def row(output, name):
    """The cells of a table's row, as words."""
    (line,) = [line for line in output.splitlines() if line.startswith(name)]
    return line.removeprefix(name).split()


def test_results_side_by_side_and_what_is_missing_in_words(runs, capsys, tmp_path):
    page = tmp_path / "deep/page.html"
    code, output, _ = said(capsys, "one", "two", "elsewhere", "crashed", "working", "-o", str(page))
    assert code == 0
    assert row(output, "state") == ["succeeded", "succeeded", "succeeded", "failed", "unfinished"]
    rates = row(output, "base pass@1")
    assert rates == [*["25.0", "%"] * 3, "–", "–"], "of the three that were evaluated"
    assert row(output, "lr") == ["1e-05", "2e-05", "0.0001", "0.0001", "0.0001"]
    assert "use_chat_template" not in output, "it is the same everywhere"
    assert "2 min 5 s" in output
    assert "10.0\N{NO-BREAK SPACE}% of 40 → 25.0\N{NO-BREAK SPACE}% of 80 passing samples, 5 problems" in output
    assert "paired, 40 problems shared" in output
    assert "unpaired, 0 problems shared" in output
    assert "better beyond noise" in output
    assert "Run crashed has no evaluation: it failed in train: The sandbox was away." in output
    assert "Run working has no evaluation: it is not finished" in output
    assert "Not judged on the same problems as run one: elsewhere." in output
    text = page.read_text()
    assert "<h1>Against one: 2 better beyond noise, none worse beyond noise, none within noise</h1>" in text
    assert len(text.encode()) < 500_000
    assert "The sandbox was away." in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_the_same_problems_are_compared_pair_by_pair(runs):
    found = difference(load(runs, "two"), load(runs, "one"))
    gains = [(after - before) / 4 for before, after in zip(GOOD, BETTER, strict=True)]
    low, high = stats.t.interval(0.95, len(gains) - 1, loc=sum(gains) / len(gains), scale=stats.sem(gains))
    assert (found.paired, found.common) == (True, 40)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))


def test_other_problems_are_compared_unpaired(runs):
    found = difference(load(runs, "elsewhere"), load(runs, "one"))
    samples = [[count / 4 for count in counts] for counts in (BETTER, GOOD)]
    expected = stats.ttest_ind(*samples, equal_var=False).confidence_interval(0.95)
    assert (found.paired, found.common) == (False, 0)
    assert (found.interval.low, found.interval.high) == pytest.approx((expected.low, expected.high), rel=0.01)


@pytest.mark.parametrize(
    ("heldout", "dataset", "common"),
    [("sha256:other", "sha256:same", 20), ("sha256:other", "sha256:another", 0)],
)
def test_one_data_set_means_that_equal_ids_are_equal_problems(store_root, heldout, dataset, common):
    """Of a larger held-out pool only what both have is paired; the same ids of another data set are other problems."""
    store = open_store()
    for run_id, digest, counts, mark in (
        ("small", "sha256:one", BASE[:20], "sha256:same"), ("large", heldout, BASE, dataset)
    ):  # fmt: skip
        past_run(store, run_id, evaluation=evaluation_of(counts, counts), heldout=digest)
        record = load(store, run_id).record | {"counts": {"prepare": {"dataset_digest": mark}}}
        store.write(f"runs/{run_id}/run.json", json.dumps(record).encode())
    assert difference(load(store, "large"), load(store, "small")).common == common


@pytest.mark.parametrize(("shared", "paired"), [(19, False), (20, True), (2, False)])
def test_too_few_problems_in_common_make_no_paired_interval(runs, shared, paired):
    """Two runs of one data set with other seeds: their held-out problems overlap by chance."""
    past_run(runs, "few", evaluation=evaluation_of(BASE, BETTER, first_id=40 - shared))
    found = difference(load(runs, "few"), load(runs, "one"))
    assert (found.paired, found.common) == (paired, shared)
    text = page_of(runs, [load(runs, "one"), load(runs, "few")])
    assert f"{'paired' if paired else 'unpaired'}, {shared} problems shared" in text
    assert (f"Judged on few of the problems of run one: few {shared}. A paired interval needs 20" in text) != paired
    assert "Not judged on the same problems" not in text


def test_a_run_without_results_is_compared_with_none(runs):
    assert difference(load(runs, "crashed"), load(runs, "one")) is None
    assert differing([load(runs, "crashed"), load(runs, "working")]) == []
    assert "None: where results differ, it is chance" in page_of(runs, [load(runs, "crashed"), load(runs, "working")])


def test_the_evaluation_of_a_base_alone_has_dashes(runs):
    past_run(runs, "alone", evaluation={"base": {"pass_at_1": 0.25}, "tuned": None, "problems": 4,
                                        "samples_per_problem": 4, "hidden_tests": None})  # fmt: skip
    text = page_of(runs, [load(runs, "one"), load(runs, "alone")])
    assert "4, 4 samples each" in text


def test_what_a_gain_costs_elsewhere_and_that_many_comparisons_find_something_by_chance(runs):
    elsewhere = evaluation_of([3, 4] * 10, [1, 2] * 10)
    for number in range(4):
        past_run(runs, f"more-{number}", evaluation={**evaluation_of(BASE, GOOD), "regression": elsewhere})
    text = page_of(runs, [load(runs, name) for name in ("one", *(f"more-{number}" for number in range(4)))])
    assert "-50.0 points (" in text.replace("−", "-")
    assert "20 problems" in text
    assert "These are 4 comparisons" in text
    text = page_of(runs, [load(runs, "one"), load(runs, "two")])
    assert "regression" not in text
    assert "comparisons: of those" not in text


def test_it_reads_a_bucket_too(capsys, tmp_path, monkeypatch):
    with own_bucket(monkeypatch):
        store = open_store()
        past_run(store, "one", evaluation=evaluation_of(BASE, GOOD))
        past_run(store, "two", evaluation=evaluation_of(BASE, GOOD))
        code, output, _ = said(capsys, "one", "two", "-o", str(tmp_path / "page.html"))
    assert code == 0
    assert "within noise" in output


@pytest.mark.parametrize(("arguments", "words"), MISTAKES)
def test_mistakes_are_one_sentence(runs, capsys, arguments, words):
    code, _, error = said(capsys, *arguments)
    assert code == 2
    assert words in error
    assert "Traceback" not in error
