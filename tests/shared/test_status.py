"""The last page: what became of the run, in one sentence, and how to go on."""

import json

import pytest

from cli.parameters import merged
from components import readiness
from components.shared.errors import UserError, reported
from components.shared.run import POD_RUN_VARIABLE, RUN_VARIABLE, done, record
from components.shared.status import UNKNOWN, write_status
from components.shared.store import open_store
from components.unchanged import credit


@pytest.fixture
def pod(store_root, monkeypatch):
    """As in a step's pod of run `kfp-1`."""
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    monkeypatch.setenv(POD_RUN_VARIABLE, "kfp-1")
    return open_store()


def page(store, run="kfp-1"):
    return store.read(f"runs/{run}/status.html").decode()


def test_a_success_shows_the_figures_and_the_reports(pod):
    evaluation = {
        "base": {"pass_at_1": 0.25},
        "tuned": {"pass_at_1": 0.5},
        "difference": {"pass_at_1": 0.25, "ci95": [0.1, 0.4]},
    }
    pod.write("runs/kfp-1/evaluate/evaluation.json", json.dumps(evaluation).encode())
    pod.write("runs/kfp-1/evaluate/report.html", b"report")
    status = write_status("kfp-1", "", state="SUCCEEDED", error="")
    assert (status["outcome"], status["message"], status["resume"]) == ("succeeded", "", "")
    assert json.loads(pod.read("runs/kfp-1/status.json")) == status
    assert "The run succeeded" in page(pod)
    assert "+25.0 points" in page(pod)
    assert 'href="evaluate/report.html"' in page(pod)
    assert "train/report.html" not in page(pod)


def test_a_failure_says_the_steps_own_sentence_and_how_to_go_on(pod, capsys):
    with pytest.raises(SystemExit), reported("train"):
        raise UserError("The number is <too> small: give a larger one.")
    status = write_status("kfp-1", "", state="FAILED", error="Error (exit code 2)")
    assert (status["failed_step"], status["message"]) == ("train", "The number is <too> small: give a larger one.")
    assert status["resume"] == "python pipeline.py run --resume kfp-1"
    assert "train: The number is &lt;too&gt; small" in page(pod)
    assert "run --resume kfp-1" in page(pod)
    assert "run kfp-1 failed (train: The number" in capsys.readouterr().out


@pytest.mark.parametrize(("error", "message"), [("", UNKNOWN), ("pod deleted", "pod deleted")])
def test_a_pod_that_could_not_speak(pod, error, message):
    status = write_status("kfp-1", "", state="FAILED", error=error)
    assert (status["failed_step"], status["message"]) == (None, message)


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("COMPLETE", "succeeded"),
        ("CACHED", "succeeded"),
        ("RUNNING", "failed"),
        ("CANCELED", "stopped"),
        ("", "failed"),
    ],
)
def test_the_states_of_kfps_metadata_store(pod, state, outcome):
    """Seen with KFP 2.17: COMPLETE, and RUNNING where the step's pod was killed before it could say anything there."""
    status = write_status("kfp-1", "", state=state, error="")
    assert (status["outcome"], bool(status["message"])) == (outcome, outcome != "succeeded")


@pytest.mark.parametrize(
    ("parameters", "steps", "outcome"),
    [
        ({}, ["evaluate"], "succeeded"),
        ({"publish_as": "m"}, ["evaluate"], "failed"),
        ({"publish_as": "m"}, ["evaluate", "publish"], "succeeded"),
        ({"publish_as": "m"}, ["unchanged"], "succeeded"),
        ({}, [], "failed"),
    ],
)
def test_where_kfp_does_not_know_the_record_of_this_attempt_decides(pod, monkeypatch, parameters, steps, outcome):
    monkeypatch.setenv(POD_RUN_VARIABLE, "kfp-2")
    for step in steps:
        record(pod, "kfp-1", parameters=parameters, **done(step))
    assert write_status("kfp-2", "kfp-1", state="RUNNING", error="")["outcome"] == outcome
    monkeypatch.setenv(POD_RUN_VARIABLE, "kfp-3")
    assert write_status("kfp-3", "kfp-1", state="RUNNING", error="")["outcome"] == "failed", "another attempt"


@pytest.mark.parametrize(
    ("state", "at_its_end", "failed", "outcome"),
    [
        ("COMPLETE", True, False, "succeeded"),
        ("COMPLETE", True, True, "succeeded"),  # a further try of the pod that had failed did it
        ("COMPLETE", False, True, "failed"),
        ("SUCCEEDED", False, False, "succeeded"),  # kfp.local, whose cache leaves no word in the record either
        ("RUNNING", True, True, "succeeded"),
        ("RUNNING", False, True, "failed"),
        ("FAILED", True, False, "failed"),  # a step's results were not kept after it had said its word
        ("CANCELED", True, False, "stopped"),
    ],
)
def test_no_state_makes_a_success_of_a_run_in_which_a_step_failed(pod, state, at_its_end, failed, outcome):
    if at_its_end:
        record(pod, "kfp-1", parameters={}, **done("evaluate"))
    if failed:
        with pytest.raises(SystemExit), reported("train"):
            raise UserError("Too small.")
    assert write_status("kfp-1", "", state=state, error="")["outcome"] == outcome


def evaluated_by(folder, run):
    """The artifact of evaluate, as the run had left it that KFP's cache answers with."""
    (folder / "evaluation.json").write_text(json.dumps({"run_id": run}))
    return folder


@pytest.mark.parametrize(
    ("made_by", "killed", "outcome", "since"),
    [
        ("kfp-1", None, "succeeded", ""),  # all steps ran
        ("kfp-0", None, "succeeded", "kfp-0"),  # train and evaluate came from the cache
        ("kfp-0", "reused", "failed", ""),
        ("kfp-1", "evaluate", "failed", ""),
        ("kfp-1", "train", "failed", ""),
    ],
)
def test_a_run_that_took_its_results_from_the_cache_succeeded_and_one_that_was_killed_failed(
    pod, tmp_path, capsys, made_by, killed, outcome, since
):
    """KFP's metadata store says RUNNING of all of them: only what never comes from the cache can tell them apart."""
    readiness.keep(merged({"model_revision": "m", "dataset_revision": "d"}))
    if made_by == "kfp-1" and killed not in ("evaluate", "train"):
        record(pod, "kfp-1", **done("evaluate"))
    if killed is None:
        credit("kfp-1", "", evaluated_by(tmp_path, made_by))
    status = write_status("kfp-1", "", state="RUNNING", error="")
    assert (status["outcome"], status["unchanged_since"]) == (outcome, since)
    assert ('href="../kfp-0/status.html"' in page(pod)) == bool(since)
    assert (UNKNOWN in page(pod)) == (outcome == "failed")


def test_what_continues_a_run_writes_into_the_first_ones_folder(pod, monkeypatch):
    monkeypatch.setenv(POD_RUN_VARIABLE, "kfp-2")
    status = write_status("kfp-2", "kfp-1", state="FAILED", error="")
    assert (status["run_id"], status["attempt"]) == ("kfp-1", "kfp-2")
    assert status["resume"].endswith("--resume kfp-2")
    assert "run kfp-1" in page(pod, "kfp-1")


def test_on_one_machine_the_advice_is_that_of_the_local_run(store_root, monkeypatch):
    monkeypatch.delenv(POD_RUN_VARIABLE, raising=False)
    monkeypatch.setenv(RUN_VARIABLE, "own")
    status = write_status("kfp-local", "", state="FAILED", error="")
    assert (status["run_id"], status["resume"]) == ("own", "make run ARGS='--run-id own'")


def test_a_store_that_is_gone_does_not_hide_the_failure(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRPO_STORE", str(tmp_path / "file/store"))
    monkeypatch.setenv(POD_RUN_VARIABLE, "kfp-1")
    with pytest.raises(SystemExit) as ended, reported("train"):
        raise UserError("Too small.")
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert "train: Too small." in shown
    assert "could not be written down" in shown
