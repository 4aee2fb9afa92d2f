"""Runs in a store, as the pipeline leaves them, without the minutes that it takes to run it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from components.shared.statistics import mean_interval, minimum_detectable
from components.shared.store import Store

SAMPLES = 4
ID_OF_KFP = "f4aeecb1-eb19-4138-93f4-27932812654d"  # as long as KFP makes them


def evaluation_of(base: Sequence[int], tuned: Sequence[int], *, first_id: int = 0) -> dict[str, Any]:
    """evaluation.json of two models with these numbers of passes, of 4, at problems first_id, first_id + 1, …"""
    gains = [(after - before) / SAMPLES for before, after in zip(base, tuned, strict=True)]
    difference = mean_interval(gains, low=-1.0, high=1.0)
    rates = [sum(counts) / SAMPLES / len(counts) for counts in (base, tuned)]
    return {
        "base": {"pass_at_1": rates[0]},
        "tuned": {"pass_at_1": rates[1]},
        "difference": {"pass_at_1": difference.mean, "ci95": [difference.low, difference.high]},
        "minimum_detectable": minimum_detectable(difference.standard_error),
        "problems": len(base),
        "samples_per_problem": SAMPLES,
        "hidden_tests": {
            "problems": 5,
            "base": {"passed_visible": 40, "failed_hidden": 4},
            "tuned": {"passed_visible": 80, "failed_hidden": 20},
        },
        "per_problem": [
            {
                "task_id": str(first_id + number),
                "base_passes": before,
                "base_judged": SAMPLES,
                "tuned_passes": after,
                "tuned_judged": SAMPLES,
            }
            for number, (before, after) in enumerate(zip(base, tuned, strict=True))
        ],
    }


def past_run(
    store: Store,
    run_id: str,
    *,
    evaluation: Mapping[str, Any] | None = None,
    outcome: str = "succeeded",
    heldout: str = "sha256:one",
    **parameters: Any,
) -> None:
    """A run's files; outcome empty: it has not ended."""
    folder = f"runs/{run_id}"
    record: dict[str, Any] = {"run_id": run_id, "parameters": {"lr": 1e-4, "use_chat_template": False, **parameters}}
    if evaluation is not None:
        record |= {"datasets": {"prepare/heldout.jsonl": heldout}, "seconds": {"train": 100.0, "evaluate": 25.0}}
        store.write(f"{folder}/evaluate/evaluation.json", json.dumps(evaluation).encode())
    if outcome:
        failed = {"failed_step": "train", "message": "The sandbox was away."} if outcome == "failed" else {}
        status = {"run_id": run_id, "outcome": outcome, "failed_step": None, "message": "", **failed}
        store.write(f"{folder}/status.json", json.dumps({**status, "unchanged_since": ""}).encode())
    store.write(f"{folder}/run.json", json.dumps(record).encode())
