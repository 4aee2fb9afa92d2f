"""Whether a run would repeat an earlier one: on_unchanged skip ends it before anything is trained.

A run repeats the last successful run of the same store with the same parameters (publish_as among them, so that two
schedules do not meet) if it reads the same as that one did: the model's revision, the data set's, the adapter to start
from and the code. Where its pods work, the sandbox's address and how often checkpoints are saved decide no result, and
are left out. A run that continues another is never skipped.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.pods import PLACEMENT
from components.revisions import ADAPTER, REVISIONS
from components.shared.progress import say
from components.shared.run import done, folder_of, record, recorded, run_id_of
from components.shared.status import EVALUATION, STATUS, UNCHANGED_SINCE
from components.shared.store import Store, open_store

LAST = "cache/last-run"
READ = (*REVISIONS, ADAPTER, "code_version")
DECIDES_NOTHING = (
    *PLACEMENT, "sandbox_url", "infra_limit", "threads", "save_steps", "keep_checkpoints", "trackers", "on_unchanged",
    "resume_run",
)  # fmt: skip
INPUTS = "inputs"  # in run.json: what finish remembers of a run that has succeeded


def inputs_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """What decides a run's result, from its parameters with revisions pinned: the digest of what was asked, and what
    it reads."""
    asked = {name: value for name, value in given.items() if name not in (*DECIDES_NOTHING, *READ)}
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    return {"asked": digest, "read": {name: given[name] for name in READ}}


def unchanged_since(store: Store, given: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """The run that this one would repeat; empty when it is to train, and `say` is told what has changed."""
    if given["on_unchanged"] != "skip" or given["resume_run"]:
        return ""
    try:
        last = json.loads(store.read(_key(inputs)))
        status = json.loads(store.read(f"{folder_of(last['run_id'])}/{STATUS}"))
    except KeyError:
        say("check", "on_unchanged: no run with these parameters has succeeded yet, so this one trains")
        return ""
    changed = [name for name in READ if last["read"].get(name) != inputs["read"][name]]
    if changed or status["outcome"] != "succeeded":
        why = f"{', '.join(changed)} changed" if changed else "that run's record says otherwise by now"
        say("check", f"on_unchanged: {why} since run {last['run_id']}, so this one trains")
        return ""
    say("check", f"on_unchanged: nothing has changed since run {last['run_id']}, so nothing is trained")
    return str(last["run_id"])


def skip(run_id: str, resume_run: str, since: str, step: str = "unchanged") -> None:
    """Write down that a run ends early, for its last page. step: whose log line it is."""
    record(open_store(), run_id_of(run_id, resume_run), **{UNCHANGED_SINCE: since}, **done("unchanged"))
    say(step, f"nothing has changed since run {since}: its model and reports stand")


def credit(run_id: str, resume_run: str, evaluation: Path) -> None:
    """Write down whose results a run has that KFP's cache may have given it; nothing where they are its own.

    evaluation: the folder with evaluation.json, which names the run that was evaluated.
    """
    made_by = str(json.loads((evaluation / Path(EVALUATION).name).read_text())["run_id"])
    if made_by == run_id_of(run_id, resume_run):
        say("reused", "the results are this run's own")
        return
    skip(run_id, resume_run, made_by, "reused")


def remember(run_id: str, resume_run: str, status: Mapping[str, Any]) -> None:
    """Let later runs compare themselves with this one if it has succeeded and trained."""
    store, run = open_store(), run_id_of(run_id, resume_run)
    inputs = recorded(store, run).get(INPUTS)
    if inputs is None or status["outcome"] != "succeeded" or status[UNCHANGED_SINCE]:
        return
    store.write(_key(inputs), (json.dumps({"run_id": run, "read": inputs["read"]}, indent=1) + "\n").encode())


def remembered(store: Store) -> set[str]:
    """The runs that later ones are compared with."""
    return {str(json.loads(store.read(key))["run_id"]) for key in store.keys(f"{LAST}/")}


def _key(inputs: Mapping[str, Any]) -> str:
    return f"{LAST}/{inputs['asked'][:32]}.json"
