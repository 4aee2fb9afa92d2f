"""What the store knows of runs, finished or not, and how two of them are compared problem by problem."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.shared.errors import UserError
from components.shared.run import folder_of, recorded
from components.shared.statistics import FEWEST_PROBLEMS, Interval, mean_interval, unpaired_interval
from components.shared.status import DECISION, EVALUATION, STATUS, UNCHANGED_SINCE
from components.shared.store import Store

HELDOUT = "prepare/heldout.jsonl"


@dataclass(frozen=True)
class PastRun:
    """A run as its files tell it; what a file does not say (yet) is empty or None."""

    run_id: str
    record: dict[str, Any]
    status: dict[str, Any]
    evaluation: dict[str, Any] | None
    decision: dict[str, Any] | None

    @property
    def state(self) -> str:
        """How it ended, in a word."""
        if self.status.get(UNCHANGED_SINCE):
            return "unchanged"
        # A run of a single step, or one from before its last step, has results and no last page.
        return str(self.status.get("outcome") or ("evaluated" if self.evaluation else "unfinished"))

    @property
    def missing(self) -> str:
        """A sentence on what there is not, and why; empty for a run with results."""
        if self.evaluation is not None:
            return ""
        if since := self.status.get(UNCHANGED_SINCE):
            return f"Run {self.run_id} trained nothing: it was unchanged since run {since}."
        if self.status.get("outcome"):
            step = self.status.get("failed_step")
            where = f" in {step}" if step else ""
            return f"Run {self.run_id} has no evaluation: it {self.state}{where}: {self.status['message']}"
        return f"Run {self.run_id} has no evaluation: it is not finished, or was ended without its last step."

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.record.get("parameters") or {})

    @property
    def seconds(self) -> float | None:
        """Seconds of all steps that told theirs; None without any."""
        told = self.record.get("seconds") or {}
        return sum(told.values()) if told else None

    def rates(self) -> dict[str, float]:
        """The tuned model's pass@1 by problem; empty without an evaluation that says it."""
        rows = (self.evaluation or {}).get("per_problem") or []
        return {row["task_id"]: row["tuned_passes"] / row["tuned_judged"] for row in rows if row.get("tuned_judged")}


@dataclass(frozen=True)
class Difference:
    """How a run's tuned model compares with the first run's. common: problems that both were judged on."""

    interval: Interval
    common: int

    @property
    def paired(self) -> bool:
        """Whether the interval is that of the problems in common; with few of them it would be no 95 % interval."""
        return self.common >= FEWEST_PROBLEMS


def load(store: Store, run_id: str) -> PastRun:
    """What the store has of a run; UserError when it has nothing."""
    folder = folder_of(run_id)
    record = recorded(store, run_id)
    found = {name: _file(store, f"{folder}/{name}") for name in (STATUS, EVALUATION, DECISION)}
    if not record and not any(found.values()) and not store.keys(f"{folder}/"):
        raise UserError(
            f"The store holds nothing of run {run_id} ({store.uri(folder)}): `python pipeline.py runs list` shows what "
            "there is; GRPO_STORE and S3_* say where to look."
        )
    return PastRun(run_id, record, found[STATUS] or {}, found[EVALUATION], found[DECISION])


def differing(runs: Sequence[PastRun]) -> list[str]:
    """The parameters that are not the same in all runs that tell them, sorted."""
    names = sorted({name for run in runs for name in run.parameters})
    told = {name: [run.parameters[name] for run in runs if name in run.parameters] for name in names}
    return [name for name in names if any(value != told[name][0] for value in told[name])]


def difference(run: PastRun, reference: PastRun) -> Difference | None:
    """Tuned against tuned: paired over the problems that both have where they are enough, else unpaired over all.

    Ids mean the same problem when the held-out files, or at least the data sets they were taken from, have one digest.
    None where one of the runs has no figures by problem.
    """
    rates, others = run.rates(), reference.rates()
    common = [problem for problem in rates if problem in others] if _same_problems(run, reference) else []
    if len(common) >= FEWEST_PROBLEMS:
        gains = [rates[problem] - others[problem] for problem in common]
        return Difference(mean_interval(gains, low=-1.0, high=1.0), len(common))
    if min(len(rates), len(others)) < 2:
        return None
    return Difference(unpaired_interval(list(rates.values()), list(others.values())), len(common))


def _same_problems(run: PastRun, reference: PastRun) -> bool:
    marks = [((one.record.get("datasets") or {}).get(HELDOUT), _dataset_digest(one.record)) for one in (run, reference)]
    return any(mine is not None and mine == other for mine, other in zip(*marks, strict=True))


def _dataset_digest(record: dict[str, Any]) -> str | None:
    digest = ((record.get("counts") or {}).get("prepare") or {}).get("dataset_digest")
    return str(digest) if digest else None


def _file(store: Store, key: str) -> dict[str, Any] | None:
    try:
        return dict(json.loads(store.read(key)))
    except KeyError:
        return None
    except ValueError:
        return None  # half a file of a killed run says as little as none
