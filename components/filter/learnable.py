"""The learnability filter: keep what the policy that training starts from solves sometimes, but not always.

A group of completions that all fail or all pass has no advantage, so such problems only cost time. A problem is drawn
only until it is known to be one of these or not (see drawing), and what was drawn is kept for later runs (see cache).
"""

import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.filter.cache import Sample
from components.filter.forecast import forecast
from components.filter.policy import Policy
from components.shared.attempts import judged, passes
from components.shared.errors import UserError
from components.shared.initial import starting_adapter
from components.shared.pages import percent
from components.shared.problem import FILTER_COUNTS, KEPT, PROBLEMS, Problem, read_problems, write_problems
from components.shared.progress import duration, say
from components.shared.store import open_store

MOST_KINDS_SAID = 20  # combinations of samples and passes in the log; counts.json holds all of them


def run(source: Path, target: Path, **given: Any) -> None:
    """Copy the problem set in `source` to `target` and add filter/kept.jsonl and filter/counts.json.

    given: the step's parameters, by the pipeline's names. UserError when nothing is kept.
    """
    start = time.monotonic()
    candidates = read_problems(source / PROBLEMS)
    drawn, facts = draw_all(candidates, given)
    kept = [problem for problem, samples in zip(candidates, drawn, strict=True) if learnable(samples)]
    chosen = kept[: given["max_train_samples"]]
    counts = count(drawn, kept=len(kept), chosen=len(chosen), most=given["filter_samples"])
    counts |= {
        "all_samples": given["filter_all_samples"],
        **facts,
        **forecast(
            [(passes(samples), judged(samples)) for samples in drawn],
            most=given["filter_samples"],
            group=given["num_generations"],
        ),
        "seconds": round(time.monotonic() - start, 1),
    }
    for line in (headline(counts), cost(counts), kinds(counts), outlook(counts), *shortage(counts, given)):
        say("filter", line)
    if not chosen:
        raise UserError(advice(counts))
    shutil.copytree(source, target, dirs_exist_ok=True)
    write_problems(target / KEPT, chosen)
    (target / FILTER_COUNTS).write_text(json.dumps(counts, indent=2) + "\n")


def draw_all(candidates: Sequence[Problem], given: Mapping[str, Any]) -> tuple[list[list[Sample]], dict[str, Any]]:
    """The samples of each candidate, and what counts.json says of how they were drawn: from which adapter (empty: the
    base alone), how many were reused, what the batch size changed."""
    address = given["init_adapter"]
    with tempfile.TemporaryDirectory(prefix="grpo-adapter-") as scratch:
        adapter = starting_adapter(address, Path(scratch), given) if address else None
        if address:
            say("filter", f"draws from what training starts from: the base with the adapter {address}")
        policy = Policy(candidates, given, open_store(), adapter)
        drawn = policy.samples()
        facts = {"init_adapter": address, "reused": policy.reused, "batch_effect": policy.batch_effect()}
    return drawn, facts


def learnable(samples: Sequence[Sample]) -> bool:
    """Whether 1 <= passes < n, with n the samples that could be judged."""
    return 1 <= passes(samples) < judged(samples)


def count(drawn: Sequence[Sequence[Sample]], *, kept: int, chosen: int, most: int) -> dict[str, Any]:
    """The numbers of counts.json that are counted. most: samples that a problem may take.

    drawn_and_passed is the table of how many problems had how many passes in how many judged samples; by_passes sums it
    up by passes.
    """
    table = Counter((judged(samples), passes(samples)) for samples in drawn)
    samples_in_all = sum(map(len, drawn))
    return {
        "candidates": len(drawn),
        "kept": kept,
        "used": chosen,
        "never_solved": sum(number for (_, passed), number in table.items() if passed == 0),
        "always_solved": sum(number for (all_, passed), number in table.items() if 0 < all_ == passed),
        "unjudged": sum(number for (all_, _), number in table.items() if all_ == 0),
        "samples_per_problem": most,
        "by_passes": {
            str(passed): sum(number for (_, some), number in table.items() if some == passed)
            for passed in range(most + 1)
        },
        "drawn_and_passed": [
            {"samples": all_, "passes": passed, "problems": number} for (all_, passed), number in sorted(table.items())
        ],
        "samples": samples_in_all,
        "saved": 1 - samples_in_all / (most * len(drawn)) if drawn else 0.0,
        "tokens": sum(sample.tokens for samples in drawn for sample in samples),
        "truncated": sum(sample.truncated for samples in drawn for sample in samples),
    }


def headline(counts: Mapping[str, Any]) -> str:
    cut = f", the first {counts['used']} are used" if counts["used"] < counts["kept"] else ""
    upto = "" if counts["all_samples"] else "up to "
    return (
        f"kept {counts['kept']} of {counts['candidates']} problems{cut}; {counts['never_solved']} never solved, "
        f"{counts['always_solved']} always, in {upto}{counts['samples_per_problem']} samples each"
    )


def cost(counts: Mapping[str, Any]) -> str:
    """What was drawn, and what stopping early has saved."""
    whole = counts["samples_per_problem"] * counts["candidates"]
    reused = f", {counts['reused']} of them drawn by runs before" if counts["reused"] else ""
    saved = "" if counts["all_samples"] else f"; {percent(counts['saved'], 0)} of {whole} were not needed"
    seconds = duration(counts["seconds"])
    return f"{counts['samples']} samples of {counts['tokens']} tokens in all{reused}, {seconds}{saved}"


def kinds(counts: Mapping[str, Any]) -> str:
    """The table of passes and samples, in one line."""
    rows = counts["drawn_and_passed"]
    said = [f"{row['passes']}/{row['samples']} {row['problems']}" for row in rows[:MOST_KINDS_SAID]]
    more = f" and {len(rows) - MOST_KINDS_SAID} kinds more" if len(rows) > MOST_KINDS_SAID else ""
    return f"problems by passes/samples: {', '.join(said)}{more}"


def outlook(counts: Mapping[str, Any]) -> str:
    """The estimated pass rate, and how many groups will be of use in training."""
    groups = counts["usable_groups"]
    if groups["candidates"] is None:
        return "no sample could be judged, so nothing can be said of pass rates"
    return (
        f"estimated pass rate {_with_interval(counts['pass_rate'])}; groups of {groups['num_generations']} that are "
        f"mixed: {_with_interval(groups['kept'])} on problems that are kept, "
        f"{_with_interval(groups['candidates'])} on all"
    )


def _with_interval(estimate: Mapping[str, Any]) -> str:
    low, high = estimate["ci95"]
    return f"{percent(estimate['estimate'], 0)} ({percent(low, 0)} to {percent(high, 0)})"


def shortage(counts: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """A warning when the problems that are used do not fill one optimiser step."""
    prompts = given["batch_size"] // given["num_generations"]
    if not 0 < counts["used"] < prompts:
        return []
    more = "max_train_samples" if counts["used"] < counts["kept"] else "max_candidate_samples or filter_samples"
    warning = (
        f"warning: {counts['used']} problems do not fill an optimiser step of {prompts} prompts (batch_size "
        f"{given['batch_size']} / num_generations {given['num_generations']}): raise {more}, or lower batch_size to "
        f"{counts['used'] * given['num_generations']}"
    )
    return [warning]


def advice(counts: Mapping[str, Any]) -> str:
    """Why nothing was kept and what to change, in one sentence."""
    if counts["truncated"] > counts["samples"] / 2:
        remedy = "most completions were truncated, so raise max_completion_length"
    elif counts["never_solved"] >= counts["always_solved"]:
        remedy = "the model solves almost nothing, so use a stronger base model or raise filter_samples"
    else:
        remedy = "the model solves almost everything, so use harder problems"
    return f"The filter kept none of {counts['candidates']} problems: {remedy}."
