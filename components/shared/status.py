"""The end of a run for those who were not watching: `runs/<run>/status.json` and the page `status.html` beside it."""

import json
import time
from typing import Any

from components.shared.errors import FAILURE_KEY
from components.shared.pages import clip, render
from components.shared.progress import say
from components.shared.run import came_to_its_end, folder_of, on_cluster, recorded, resume_command, run_id_of, this_run
from components.shared.store import Store, open_store

STATUS, PAGE = "status.json", "status.html"
EVALUATION = "evaluate/evaluation.json"
DECISION = "publish/decision.json"  # whether the run's model was published, and why or why not
REPORTS = {  # a run's pages, in the order in which to read them: what each says
    "evaluate/report.html": "Evaluation: did it learn, by how much, how sure",
    "train/report.html": "Training: its curves, and completions with their verdicts",
    "prepare/card.html": "Data: what was trained on and measured on, and what was left out",
}
# kfp.local says SUCCEEDED. KFP hands the exit handler the state that its metadata store has of the run, which may be
# RUNNING still: where a pod was killed and so has said nothing there, and where the last steps came from the cache.
OUTCOMES = {
    **dict.fromkeys(("COMPLETE", "CACHED", "SUCCEEDED"), "succeeded"),
    **dict.fromkeys(("CANCELED", "CANCELLED"), "stopped"),
    "FAILED": "failed",
}
UNCHANGED_SINCE = "unchanged_since"  # in run.json and status.json: the run that this one would have repeated
UNKNOWN = "It ended without a sentence of its own: a killed or evicted pod, or one that never started."


def write_status(run_id: str, resume_run: str, *, state: str, error: str) -> dict[str, Any]:
    """Write both files and return what status.json says; run_id is this attempt's id, resume_run that of the first.

    state and error are KFP's own words for how the run ended.
    """
    store, run, attempt = open_store(), run_id_of(run_id, resume_run), this_run() or run_id
    told = recorded(store, run)
    failure = _file(store, attempt, FAILURE_KEY)
    outcome = outcome_of(state, at_its_end=came_to_its_end(told, attempt), failed=failure is not None)
    failure = failure if outcome != "succeeded" else None
    status = {
        "run_id": run,
        "attempt": attempt,
        "outcome": outcome,
        "failed_step": failure["step"] if failure else None,
        "message": failure["message"] if failure else ("" if outcome == "succeeded" else clip(error or UNKNOWN, 1000)),
        "resume": "" if outcome == "succeeded" else _resume(attempt),
        UNCHANGED_SINCE: told.get(UNCHANGED_SINCE) or "",
        "publishing": _file(store, run, DECISION),
        "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    reports = [(name, text, True) for name, text in REPORTS.items() if store.exists(f"{folder_of(run)}/{name}")]
    page = render(
        "status.html",
        title=f"{outcome.capitalize()} · grpo-code",
        refresh_seconds=None,
        status=status,
        store=store.uri(folder_of(run)),
        reports=reports,
        evaluation=_file(store, run, EVALUATION) if outcome == "succeeded" else None,
    )
    store.write(f"{folder_of(run)}/{STATUS}", (json.dumps(status, indent=1, ensure_ascii=False) + "\n").encode())
    store.write(f"{folder_of(run)}/{PAGE}", page.encode())
    where = f"{status['failed_step']}: {status['message']}" if failure else status["message"]
    say("finish", f"run {run} {outcome}{f' ({where})' if where else ''}")
    return status


def outcome_of(state: str, *, at_its_end: bool, failed: bool) -> str:
    """How a run ended: succeeded, failed or stopped. state: KFP's word for it.

    at_its_end: what must come last has said in the run's record that it was done. It is never taken from the cache, so
    that on a cluster a success without that word is none. failed: a step has left its failure, which a further try of
    its pod may have mended.
    """
    known = OUTCOMES.get(state.upper())
    if known is None or (known == "succeeded" and failed):
        return "succeeded" if at_its_end else "failed"
    return known


def _resume(attempt: str) -> str:
    return resume_command(attempt) if on_cluster() else f"make run ARGS='--run-id {attempt}'"


def _file(store: Store, run: str, name: str) -> dict[str, Any] | None:
    """A JSON file that a step has left in the run's folder; None where there is none."""
    try:
        return dict(json.loads(store.read(f"{folder_of(run)}/{name}")))
    except KeyError:
        return None
