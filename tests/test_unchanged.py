"""on_unchanged skip: which run counts as the last, what counts as a change, what is left of a run that was skipped."""

import json

import pytest

from cli.parameters import merged
from components import readiness, unchanged
from components.shared.run import POD_RUN_VARIABLE, RUN_VARIABLE
from components.shared.status import write_status
from components.shared.store import open_store

PINNED = {"model_revision": "m1", "dataset_revision": "d1", "code_version": "c1", "on_unchanged": "skip"}


@pytest.fixture
def finished(store_root, monkeypatch):
    """Runs a pipeline's first and last step, nothing between: returns the run that it found to be repeated."""
    monkeypatch.delenv(POD_RUN_VARIABLE, raising=False)

    def finished(run_id, *, state="SUCCEEDED", resume_run="", **given):
        monkeypatch.setenv(RUN_VARIABLE, resume_run or run_id)
        since = readiness.keep(merged({**PINNED, "resume_run": resume_run, **given}))
        if since:
            unchanged.skip(run_id, resume_run, since)
        status = write_status(run_id, resume_run, state=state, error="")
        unchanged.remember(run_id, resume_run, status)
        return since

    return finished


def test_the_second_of_two_equal_runs_is_skipped_and_says_since_when(finished):
    assert finished("first") == ""
    assert finished("second") == "first"
    assert finished("third") == "first", "a run that was skipped is none to compare with"
    status = json.loads(open_store().read("runs/third/status.json"))
    assert (status["outcome"], status["unchanged_since"]) == ("succeeded", "first")
    page = open_store().read("runs/third/status.html").decode()
    assert "Unchanged since run" in page
    assert 'href="../first/status.html"' in page
    assert unchanged.remembered(open_store()) == {"first"}


@pytest.mark.parametrize("name", ["model_revision", "dataset_revision", "code_version"])
def test_what_a_run_reads_is_compared_with_the_last_success(finished, capsys, name):
    finished("first")
    assert finished("second", **{name: "other"}) == ""
    assert f"on_unchanged: {name} changed since run first, so this one trains" in capsys.readouterr().out
    assert finished("third", **{name: "other"}) == "second"
    assert finished("fourth") == "", "the last one had read something else"


@pytest.mark.parametrize(
    ("given", "repeats"),
    [
        ({"lr": 1e-4}, False),
        ({"publish_as": "other"}, False),
        ({"use_chat_template": True}, False),
        ({"on_unchanged": "retrain"}, False),
        ({"gpus": "4", "train_memory": "64Gi", "sandbox_url": "http://elsewhere:1", "save_steps": 5}, True),
    ],
)
def test_parameters_that_decide_the_result_are_compared_and_no_others(finished, given, repeats):
    finished("first")
    assert finished("second", **given) == ("first" if repeats else "")


def test_a_schedule_is_not_disturbed_by_another_with_other_parameters(finished):
    finished("first")
    finished("other", lr=1e-4)
    assert finished("second") == "first"
    assert unchanged.remembered(open_store()) == {"first", "other"}


def test_only_a_success_counts_and_what_continues_a_run_is_never_skipped(finished):
    finished("failed", state="FAILED")
    assert finished("second") == ""
    assert finished("again", resume_run="failed") == ""
    assert finished("third") == "failed", "it has succeeded by now, under its own name"


def test_a_run_whose_record_is_gone_is_trained_again(finished, capsys):
    finished("first")
    open_store().delete_folder("runs/first/")
    assert finished("second") == ""
    assert "no run with these parameters has succeeded yet" in capsys.readouterr().out


def test_a_run_that_was_skipped_can_be_run_after_all(finished):
    finished("first")
    finished("second")
    assert finished("second", on_unchanged="retrain") == ""
    assert json.loads(open_store().read("runs/second/status.json"))["unchanged_since"] == ""
