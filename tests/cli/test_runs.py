"""`runs list|pin|unpin|prune`: what is kept of past runs, and why."""

import json
import os
import time
from functools import partial

import pytest

from cli.main import main
from components.shared.store import open_store
from components.unchanged import LAST
from tests.buckets import own_bucket
from tests.cli.past import ID_OF_KFP, evaluation_of, past_run
from tests.cli.test_models import trained_run

DAY = 86400


@pytest.fixture
def runs_verb(verb):
    return partial(verb, "runs")


def aged(root, run_id, days):
    """Make a run's files that old."""
    then = time.time() - days * DAY
    for folder in (root / "runs" / run_id, root / "checkpoints" / run_id):
        for path in folder.rglob("*"):
            os.utime(path, (then, then))


@pytest.fixture
def old_runs(store_root):
    """Runs of 40 days, each of which stays for another reason or for none, and one of today."""
    store = open_store()
    for run_id in ("plain", "pinned", "compared", "latest-one"):
        past_run(store, run_id, evaluation=evaluation_of([0, 1], [2, 3]))
    trained_run(store, "published")
    past_run(store, "failed", outcome="failed")
    past_run(store, "stopped-lately", outcome="")
    store.write("checkpoints/plain/3/state", b"x")
    store.write("kfp/plain/cache/entry.json", b"{}")
    store.write("runs/latest", b"latest-one\n")
    store.write(f"{LAST}/abc.json", json.dumps({"run_id": "compared", "read": {}}).encode())
    main_quietly("models", "publish", "published", "nightly")
    main_quietly("runs", "pin", "pinned")
    for run_id in store.folders("runs/"):
        aged(store_root, run_id, 3 if run_id == "stopped-lately" else 40)
    past_run(store, "today", evaluation=evaluation_of([0, 1], [2, 3]))
    return store


def main_quietly(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert not ended.value.code


def test_pruning_says_first_and_removes_only_what_nobody_needs(old_runs, runs_verb):
    before = old_runs.keys("")
    code, said = runs_verb("prune", "--keep", "1", "--older-than", "0")
    assert code == 0
    reasons = {line.split()[0]: line for line in said.splitlines() if " days " in line}
    assert "stays: among the newest 1" in reasons["today"]
    assert "stays: published as nightly" in reasons["published"]
    assert "stays: pinned" in reasons["pinned"]
    assert "stays: a scheduled run compares itself with it" in reasons["compared"]
    assert "stays: it is runs/latest" in reasons["latest-one"]
    assert "stays: it can be continued, and was written to within 7 days" in reasons["stopped-lately"]
    assert reasons["plain"].endswith("goes")
    assert reasons["failed"].endswith("goes")
    assert "2 of 8 runs would go; nothing was changed. `--delete` removes them." in said
    assert old_runs.keys("") == before
    assert "Removed 2 of 8 runs" in runs_verb("prune", "--keep", "1", "--older-than", "0", "--delete")[1]
    gone = set(before) - set(old_runs.keys(""))
    assert {key.split("/")[1] for key in gone} == {"plain", "failed"}
    assert {key.split("/")[0] for key in gone} == {"runs", "checkpoints", "kfp"}
    assert "None of 6 runs is to go." in runs_verb("prune", "--keep", "1", "--older-than", "0", "--delete")[1]


def test_by_default_the_newest_and_the_young_stay(old_runs, runs_verb):
    assert "None of 8 runs is to go." in runs_verb("prune")[1]
    said = runs_verb("prune", "--keep", "0", "--older-than", "30")[1]
    assert "today    0.0 days  stays: written to within 30 days" in said
    assert "would go" in said
    assert "None of" in runs_verb("prune", "--keep", "0", "--older-than", "41")[1]


def test_a_pin_can_be_taken_off(old_runs, runs_verb):
    assert runs_verb("unpin", "pinned") == (0, "Run pinned is not pinned any more.\n")
    assert runs_verb("unpin", "pinned")[0] == 2
    assert "The store holds nothing of run nope" in runs_verb("pin", "nope")[1]


def test_an_id_of_kfp_is_whole_in_a_line_with_its_figures(store_root, runs_verb):
    past_run(open_store(), ID_OF_KFP, evaluation=evaluation_of([1] * 20, [2] * 20))
    (_, line) = runs_verb("list")[1].splitlines()
    assert line.startswith(f"{ID_OF_KFP}  ")
    assert "points" in line


def test_the_list_has_the_figures(old_runs, runs_verb):
    lines = runs_verb("list")[1].splitlines()
    assert lines[1].split()[:2] == ["today", "succeeded"], "the newest first"
    assert "+50.0 points" in lines[1]
    assert any(line.startswith("failed ") and " failed " in line for line in lines)
    assert any(line.startswith("pinned ") and line.rstrip().endswith("pinned") for line in lines)


def test_a_bucket_is_listed_and_pruned(runs_verb, monkeypatch):
    with own_bucket(monkeypatch):
        store = open_store()
        assert "There are no runs in" in runs_verb("list")[1]
        past_run(store, "one", evaluation=evaluation_of([0, 1], [2, 3]))
        assert "one" in runs_verb("list")[1]
        assert "Removed 1 of 1 runs" in runs_verb("prune", "--keep", "0", "--older-than", "0", "--delete")[1]
        assert store.keys("runs/") == []


def test_judged_samples_go_with_the_runs_once_nothing_is_added_to_them(store_root, runs_verb):
    store = open_store()
    old, new = "a" * 64, "b" * 64
    for key in (f"cache/{old}/1.jsonl", f"cache/{new}/1.jsonl", "cache/models/some/config.json", f"{LAST}/x.json"):
        store.write(key, b'{"run_id": "r"}')
        then = time.time() - 40 * DAY
        if new not in key:
            os.utime(store_root / key, (then, then))
    assert "0 of 0 runs and 1 sets of judged samples would go" in runs_verb("prune")[1]
    assert "None of 0 runs is to go." in runs_verb("prune", "--older-than", "41")[1]
    assert "Removed 0 of 0 runs and 1 sets of judged samples" in runs_verb("prune", "--older-than", "0", "--delete")[1]
    assert store.keys("cache/") == [f"cache/{new}/1.jsonl", f"{LAST}/x.json", "cache/models/some/config.json"]
