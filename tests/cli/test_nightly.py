"""A series of runs on this machine, with the real steps: decided, published, continued from, skipped."""

import json

import pytest

from tests.cli.test_local import ROOT, Runner

# Validation problems to decide on, and a series that continues from what is current.
SERIES = "--publish-as nightly --init-adapter models/nightly --on-unchanged skip"


@pytest.fixture
def runner(tmp_path):
    """A runner whose data set has validation problems."""
    folder = tmp_path / "problems"
    folder.mkdir()
    for split, rows in (("train", 12), ("test", 6), ("validation", 6)):
        lines = (ROOT / f"demo/problems/{split}.jsonl").read_text().splitlines(keepends=True)
        (folder / f"{split}.jsonl").write_text("".join(lines[:rows]))
    return Runner(tmp_path / "store", folder)


@pytest.mark.slow
def test_a_series_decides_continues_from_what_is_current_and_ends_early_when_nothing_has_changed(runner):
    code, first = runner.finish("--run-id", "first", *SERIES.split())
    assert code == 0, first
    assert "nothing is published as nightly yet: training starts from the base" in first
    decision = json.loads((runner.store / "runs/first/publish/decision.json").read_text())
    assert (decision["problems"], decision["incumbent"]) == (6, None)
    assert (decision["left_out"], decision["all_training_known"]) == ([], True)
    assert f"  nightly: {'published' if decision['published'] else 'not published'}: " in first
    code, said = runner.verb("models", "publish", "first", "nightly")
    assert code == 0, said

    code, second = runner.finish("--run-id", "second", *SERIES.split())
    assert code == 0, second
    assert "on_unchanged: init_adapter changed since run first, so this one trains" in second
    assert "train: starts from the adapter models/nightly/first" in second
    decision = json.loads((runner.store / "runs/second/publish/decision.json").read_text())
    assert (decision["incumbent"], decision["all_training_known"]) == ("first", True)
    if decision["published"]:
        assert runner.verb("models", "rollback", "nightly")[0] == 0

    code, third = runner.finish("--run-id", "third", *SERIES.split())
    assert code == 0, third
    assert "Nothing was trained: nothing has changed since run second." in third
    assert "train: started" not in third
    status = json.loads((runner.store / "runs/third/status.json").read_text())
    assert (status["outcome"], status["unchanged_since"]) == ("succeeded", "second")
    assert "Unchanged since run" in (runner.store / "runs/third/status.html").read_text()

    code, said = runner.verb("compare", "first", "second", "third", "-o", str(runner.store / "page.html"))
    assert code == 0
    assert "Run third trained nothing: it was unchanged since run second." in said
    assert "unpaired, 4 problems shared" in said
