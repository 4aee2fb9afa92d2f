"""The evaluation page: did it learn, by how much, how sure; then the figures; then real code from all buckets."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from components.evaluate.cards import buckets_alone, buckets_of_pairs, hidden_cards
from components.evaluate.comparison import Comparison, Scores
from components.evaluate.wording import (
    NAMES,
    bare,
    explanation,
    headline,
    hidden_sentence,
    hidden_source,
    models_in,
    regression_sentence,
    size,
    warnings,
)
from components.shared.charts import BEFORE_AND_AFTER, bar_chart, count_chart, interval_chart
from components.shared.pages import number, percent, points, render
from components.shared.progress import duration

OUTCOMES = ("passed", "failed", "error", "timeout", "memory", "syntax", "rejected", "infra")
MOST_ROWS = 1000  # of the table of problems; evaluation.json has them all


def make_report(result: Comparison | Scores, content: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """The page as HTML. result: the trials. content: what evaluation.json holds. given: the step's parameters."""
    hidden = content["hidden_tests"]
    control = content["reward"] == "random"
    return render(
        "evaluation.html",
        title=f"{'Control with random rewards: e' if control else 'E'}valuation {content['run_id']}",
        refresh_seconds=None,
        run=content["run_id"],
        control=control,
        headline=headline(content),
        explanation=explanation(content),
        warnings=warnings(content),
        stats=stats(content),
        charts=charts(result, content),
        models=models_in(content),
        outcomes=outcome_rows(content),
        pass_at_k=pass_at_k_rows(content),
        hidden=hidden_rows(content),
        hidden_text=[hidden_source(hidden), hidden_sentence(hidden)] if hidden else [],
        hidden_cards=hidden_cards(scores_by_model(result)) if hidden else [],
        regression=regression_rows(content),
        regression_text=regression_sentence(content) if content["regression"] else "",
        problems=problem_rows(content),
        problems_left_out=max(0, len(content["per_problem"]) - MOST_ROWS),
        buckets=buckets_of_pairs(result.buckets()) if isinstance(result, Comparison) else buckets_alone(result),
        settings=settings(content, given),
    )


def scores_by_model(result: Comparison | Scores) -> dict[str, Scores]:
    """Each model's scores, in the order of models_in."""
    if isinstance(result, Scores):
        return {"base": result}
    return {model: result.scores(model) for model in ("base", "tuned")}


def stats(content: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(label, value, note) of the tiles."""
    tiles = [
        (NAMES[model].capitalize(), percent(content[model]["pass_at_1"]), f"pass@1, interval {_range(content[model])}")
        for model in models_in(content)
    ]
    each = "samples of each model" if "tuned" in content else "samples each"
    if "tuned" in content:
        low, high = content["difference"]["ci95"]
        found, planned = size(content["minimum_detectable"]), size(content["planned"]["minimum_detectable"])
        tiles += [
            ("Difference", points(content["difference"]["pass_at_1"]), f"95 % interval {bare(low)} to {bare(high)}"),
            ("Could have shown", found, f"smallest difference found with 80 % power; {planned} were planned"),
        ]
    return [*tiles, ("Problems", number(content["problems"]), f"{content['samples_per_problem']} {each}")]


def _range(model: Mapping[str, Any]) -> str:
    return f"{percent(model['ci95'][0])} to {percent(model['ci95'][1])}"


def charts(result: Comparison | Scores, content: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """(name, chart, how to read it)."""
    models, samples = models_in(content), content["samples_per_problem"]
    outcomes = [name for name in OUTCOMES if any(content[model]["outcomes"].get(name) for model in models)]
    counts = {model: [content[model]["outcomes"].get(name, 0) for name in outcomes] for model in models}
    rates = [(model, content[model]["pass_at_1"], *content[model]["ci95"]) for model in models]
    own = "Each model's own interval. The two share their problems, so only the difference says whether it learned."
    found = [
        (
            "pass@1 of each model" if len(models) == 2 else "pass@1",
            interval_chart(rates, x_label="pass@1", percent=True, colours=BEFORE_AND_AFTER),
            own if len(models) == 2 else "The dot is what was measured, the bar its 95 % interval.",
        ),
        _problems_chart(result, samples),
        (
            "What became of the samples",
            bar_chart(outcomes, counts, x_label="samples", colours=BEFORE_AND_AFTER),
            "All samples by the first test that did not pass: failed is a wrong answer, error an exception.",
        ),
    ]
    if "tuned" not in content:
        return found
    gain = [("tuned − base", content["difference"]["pass_at_1"], *content["difference"]["ci95"])]
    return [
        (
            "Difference in pass@1",
            interval_chart(gain, x_label="tuned minus base", reference=0.0, points=True),
            "The dot is what was measured, the bar its 95 % interval; a bar across the dashed line is within noise.",
        ),
        *found,
    ]


def _problems_chart(result: Comparison | Scores, samples: int) -> tuple[str, Any, str]:
    if isinstance(result, Scores):
        counts = Counter(tally.passes for tally in result.tallies)
        sizes = [counts[passes] for passes in range(samples + 1)]
        groups = [f"{passes} of {samples}" for passes in range(samples + 1)]
        chart = bar_chart(groups, {"problems": sizes}, x_label="problems")
        return "Problem by problem", chart, "How many problems had so many passing samples."
    places = Counter((float(pair.base.passes), float(pair.tuned.passes)) for pair in result.pairs)
    chart = count_chart(
        places, x_label=f"passes of base, of {samples}", y_label=f"passes of tuned, of {samples}",
        largest=float(samples),
    )  # fmt: skip
    text = "Each disc is the number of problems with these passes; above the dashed line the tuned model is better."
    return "Problem by problem", chart, text


def outcome_rows(content: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """What the samples were, a column a model: pass rates, kinds of outcome, truncation, length in tokens."""
    models = models_in(content)
    names = [name for name in OUTCOMES if any(content[model]["outcomes"].get(name) for model in models)]
    drawn = {model: sum(content[model]["outcomes"].values()) for model in models}
    rows = [
        ("pass@1, sampled", [percent(content[model]["pass_at_1"]) for model in models]),
        ("pass@1, greedy", [percent(content["greedy"][model]["pass_at_1"]) for model in models]),
        *[
            (f"outcome {name}", [percent(content[model]["outcomes"].get(name, 0) / drawn[model]) for model in models])
            for name in names
        ],
        ("truncated", [percent(content[model]["truncated"]) for model in models]),
        ("tokens, mean", [number(content[model]["lengths"]["mean"]) for model in models]),
        ("tokens, longest", [number(content[model]["lengths"]["longest"]) for model in models]),
    ]
    return [(name, *cells) for name, cells in rows]


def pass_at_k_rows(content: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """(k, base, tuned, difference) for k = 1, 2, 4, … and the largest k there is; (k, base) for a base alone."""
    models = models_in(content)
    rates = [content[model]["pass_at_k"] for model in models]
    known = [int(k) for k in rates[0] if all(k in of_model for of_model in rates)]
    shown = [k for k in known if k & (k - 1) == 0 or k == max(known) or len(known) <= 8]
    rows = []
    for k in shown:
        cells = [of_model[str(k)] for of_model in rates]
        change = [points(cells[1] - cells[0])] if len(cells) == 2 else []
        rows.append((f"pass@{k}", *map(percent, cells), *change))
    return rows


def hidden_rows(content: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """(model, passes visible tests, passes hidden ones too, gap, missed share); none without hidden tests."""
    hidden = content["hidden_tests"]
    rows: list[tuple[str, ...]] = []
    for model in models_in(content) if hidden else ():
        found = hidden[model]
        low, high = found["gap_ci95"]
        rows.append(
            (
                NAMES[model],
                percent(found["visible"]),
                percent(found["visible_and_hidden"]),
                f"{size(found['gap'])} ({100 * low:.1f} to {100 * high:.1f})",
                f"{percent(found['missed_share'])} ({found['failed_hidden']} of {found['passed_visible']})",
            )
        )
    return rows


def regression_rows(content: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """(model, pass@1, interval, truncated) on the regression problems; none without them."""
    found = content["regression"]
    return [
        (NAMES[model], percent(found[model]["pass_at_1"]), _range(found[model]), percent(found[model]["truncated"]))
        for model in (models_in(found) if found else ())
    ]


def problem_rows(content: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """(problem, passes by model, greedy by model): every problem in one line."""
    models = models_in(content)
    greedy = {model: set(content["greedy"][model]["passed"]) for model in models}
    return [
        (
            row["task_id"],
            *[f"{row[f'{model}_passes']} of {row[f'{model}_judged']}" for model in models],
            *["passes" if row["task_id"] in greedy[model] else "–" for model in models],
        )
        for row in content["per_problem"][:MOST_ROWS]
    ]


def settings(content: Mapping[str, Any], given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, value) of what the result depends on."""
    names = ("model_name", "model_revision", "precision", "use_chat_template", "temperature", "top_p")
    rows = [(name, str(given[name])) for name in (*names, "max_completion_length", "num_eval_examples", "eval_k")]
    seeds = ", ".join(f"{model} {seed}" for model, seed in content["seeds"].items())
    return [
        ("run", content["run_id"]),
        ("method", content["method"] or ""),
        ("tuned_model", content["tuned_model"]),
        ("trained by run", content["tuned_run"]),
        *rows,
        ("reward", content["reward"]),
        ("seed", f"{given['seed']} (sampling: {seeds})"),
        ("interval", content["interval_method"]),
        ("time", duration(content["seconds"])),
    ]
