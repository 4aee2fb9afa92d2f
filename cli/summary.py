"""The end of a local run in words: what changed, how sure that is, where the reports are, and what to do next."""

import json
from typing import Any

from components.shared.run import folder_of
from components.shared.status import DECISION, REPORTS
from components.shared.store import Store

HARDLY = 0.02  # pass@1 at which a group of 8 is mixed once in seven times


def points(fraction: float) -> str:
    """A difference of rates as signed percentage points: 0.327 -> `+32.7`."""
    return f"{fraction * 100:+.1f}"


def result_lines(evaluation: dict[str, Any]) -> list[str]:
    """The comparison of base and tuned model, or the base's own rate; `evaluation` is evaluation.json."""
    problems, samples = evaluation["problems"], evaluation["samples_per_problem"]
    base = evaluation["base"]
    first = [
        *(["Control run: a coin decided the rewards, not the tests."] if evaluation["reward"] == "random" else []),
        f"pass@1 on {problems} held-out problems, {samples} samples each",
        f"  base        {100 * base['pass_at_1']:6.1f} %",
    ]
    if "tuned" not in evaluation:
        low, high = base["ci95"]
        return [*first, f"              95 % interval {100 * low:.1f} to {100 * high:.1f} %", *_elsewhere(evaluation)]
    difference, smallest = evaluation["difference"], evaluation["minimum_detectable"]
    low, high = difference["ci95"]
    within_noise = low <= 0 <= high
    verdict = "within noise: 0 lies in the interval" if within_noise else "beyond noise: 0 lies outside the interval"
    buckets = ", ".join(f"{len(ids)} {name}" for name, ids in evaluation["buckets"].items())
    return [
        *first,
        f"  tuned       {100 * evaluation['tuned']['pass_at_1']:6.1f} %",
        f"  difference  {points(difference['pass_at_1'])} points, 95 % interval {points(low)} to {points(high)}",
        f"              {verdict} (this size of evaluation can show {smallest * 100:.1f} points)",
        f"  problems    {buckets}",
        *_elsewhere(evaluation),
    ]


def _elsewhere(evaluation: dict[str, Any]) -> list[str]:
    """What became of the regression problems, and what the hidden tests say; nothing where there are none."""
    lines = []
    regression, hidden = evaluation["regression"], evaluation["hidden_tests"]
    models = [model for model in ("base", "tuned") if model in evaluation]
    if regression:
        rates = " to ".join(f"{100 * regression[model]['pass_at_1']:.1f} %" for model in models)
        sure = ""
        if "difference" in regression:
            low, high = regression["difference"]["ci95"]
            sure = f", difference {points(low)} to {points(high)} points"
        lines.append(f"  regression  {rates} on {regression['problems']} problems of another kind{sure}")
    if hidden:
        counts = " and ".join(
            f"{hidden[model]['failed_hidden']} of {hidden[model]['passed_visible']} ({model})" for model in models
        )
        lines.append(f"  hidden      {counts} samples that pass the visible tests fail a hidden one")
    return lines


def publishing_lines(store: Store, run_id: str) -> list[str]:
    """Whether the model was published, and why or why not; nothing where that was not asked for."""
    try:
        decision = json.loads(store.read(f"{folder_of(run_id)}/{DECISION}"))
    except KeyError:
        return []
    outcome = "published" if decision["published"] else "not published"
    return [f"  {decision['name']}: {outcome}: {decision['reason']}"]


def report_lines(store: Store, run_id: str) -> list[str]:
    """Where a person finds the run's pages; only those that exist."""
    keys = [f"{folder_of(run_id)}/{name}" for name in REPORTS]
    found = [store.uri(key) for key in keys if store.exists(key)]
    return ["Reports:", *(f"  {uri}" for uri in found)] if found else []


def next_lines(evaluation: dict[str, Any], parameters: dict[str, Any], command: str) -> list[str]:
    """What is worth doing now; `command` repeats this run."""
    if "tuned" not in evaluation:
        return ["Next:", "  --tuned-model compares a trained model with this base", f"  again: {command}"]
    low, high = evaluation["difference"]["ci95"]
    lines = ["Next:", "  open the first report: the code that was gained, and the code that was lost"]
    if max(evaluation[model]["pass_at_1"] for model in ("base", "tuned")) < HARDLY:
        lines.append("  hardly a problem is solved, before or after: docs/base-model.md says which models can learn")
    elif low <= 0 <= high:
        lines.append("  more --max-eval-samples and --num-eval-examples can show a smaller difference")
    if not parameters.get("use_filter", True):
        lines.append("  --use-filter trains only on what is solved sometimes; --reuse repeats nothing")
    return [*lines, f"  again, with other options: {command}"]
