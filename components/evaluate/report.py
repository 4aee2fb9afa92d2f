"""The evaluation page: did it learn, by how much, how sure; then the figures; then real code from all four buckets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.evaluate.comparison import MODELS, Comparison, Pair, Tally, Trial
from components.shared.charts import BEFORE_AND_AFTER, bar_chart, count_chart, interval_chart
from components.shared.pages import clip, number, percent, points, render
from components.shared.problem import Problem
from components.shared.progress import duration

CARDS = 8  # shown of each bucket
OUTCOMES = ("passed", "failed", "error", "timeout", "memory", "syntax", "rejected", "infra")
NAMES = {"base": "base model", "tuned": "tuned model"}
BUCKET_TEXTS = {
    "improved": ("Improved", "The tuned model passes more often than the base. Largest gain first."),
    "regressed": ("Regressed", "The tuned model passes less often than the base. Largest loss first."),
    "both": ("Solved as often as before", "Both models pass, equally often."),
    "neither": ("Solved by neither", "No sample of either model passes."),
}


@dataclass(frozen=True)
class ShownSample:
    """One program on a card; passed decides its colour."""

    label: str
    passed: bool
    code: str
    note: str


def make_report(comparison: Comparison, content: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """The page as HTML. content: what evaluation.json holds. given: the step's parameters."""
    return render(
        "evaluation.html",
        title=f"Evaluation {content['run_id']}",
        refresh_seconds=None,
        run=content["run_id"],
        control=content["reward"] == "random",
        headline=headline(content),
        explanation=explanation(content),
        warnings=warnings(content),
        stats=stats(content),
        charts=charts(comparison, content),
        pass_at_k=pass_at_k_rows(content),
        hidden=hidden_rows(content),
        hidden_problems=(content["hidden_tests"] or {}).get("problems"),
        buckets=[bucket(name, comparison.buckets()[name]) for name in BUCKET_TEXTS],
        settings=settings(content, given),
    )


def headline(content: Mapping[str, Any]) -> str:
    """The result in one sentence."""
    change = f"from {percent(content['base']['pass_at_1'])} to {percent(content['tuned']['pass_at_1'])}"
    gained = content["difference"]["pass_at_1"] > 0
    if content["reward"] == "random":
        sure = (
            "within noise, as it should be" if content["within_noise"] else "beyond noise, although no test taught it"
        )
        return f"Control run with random rewards: pass@1 went {change}, {sure}."
    if content["within_noise"]:
        return f"Within noise: pass@1 went {change}, which cannot be told from no change."
    if gained:
        return f"It learned: pass@1 rose {change}."
    return f"It got worse: pass@1 fell {change}."


def explanation(content: Mapping[str, Any]) -> str:
    """By how much, how sure, and how much evaluation would settle it."""
    difference = content["difference"]
    low, high = difference["ci95"]
    size = f"{content['problems']} held-out problems with {content['samples_per_problem']} samples of each model"
    text = (
        f"The difference is {points(difference['pass_at_1'])}; the 95\N{NO-BREAK SPACE}% interval goes from "
        f"{_bare(low)} to {points(high)}, over {size}. "
    )
    if not content["within_noise"]:
        return text + "Zero is outside the interval, so the change is more than luck of the samples and problems."
    text += f"Zero is inside: an evaluation of this size finds only differences of {_size(content)} or more. "
    needed = content["problems_to_settle"]
    if needed is None:
        return text + "The measured difference is exactly zero, so no size of evaluation is sure to settle it."
    return text + f"About {number(needed)} problems would settle whether a difference as large as this one is real."


def _bare(difference: float) -> str:
    return points(difference).removesuffix(" points")


def _size(content: Mapping[str, Any]) -> str:
    return points(content["minimum_detectable"]).removeprefix("+")


def warnings(content: Mapping[str, Any]) -> list[str]:
    """What limits the result, one sentence each."""
    found = []
    if content["interval_too_narrow"]:
        found.append("Fewer than five problems changed, so the interval is narrower than a 95 % interval should be.")
    if content["dropped"]:
        found.append(f"{len(content['dropped'])} problems were left out: the sandbox could not judge them.")
    missing = content["requested_problems"] - content["problems"] - len(content["dropped"])
    if missing > 0:
        found.append(f"{content['requested_problems']} problems were asked for; the held-out pool has {missing} fewer.")
    for model in MODELS:
        if content[model]["truncated"] > 0.2:
            share = percent(content[model]["truncated"], 0)
            found.append(f"{share} of the {NAMES[model]}'s completions were truncated: raise max_completion_length.")
    return found


def stats(content: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(label, value, note) of the tiles."""
    low, high = content["difference"]["ci95"]
    tiles = [
        (NAMES[model].capitalize(), percent(content[model]["pass_at_1"]), f"pass@1, interval {_range(content[model])}")
        for model in MODELS
    ]
    return [
        *tiles,
        ("Difference", points(content["difference"]["pass_at_1"]), f"95 % interval {_bare(low)} to {_bare(high)}"),
        ("Could have shown", _size(content), "smallest difference found with 80 % power"),
        ("Problems", number(content["problems"]), f"{content['samples_per_problem']} samples of each model"),
    ]


def _range(model: Mapping[str, Any]) -> str:
    return f"{percent(model['ci95'][0])} to {percent(model['ci95'][1])}"


def charts(comparison: Comparison, content: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """(name, chart, how to read it)."""
    difference = content["difference"]
    rates = [(model, content[model]["pass_at_1"], *content[model]["ci95"]) for model in MODELS]
    gain = [("tuned − base", difference["pass_at_1"], *difference["ci95"])]
    outcomes = [name for name in OUTCOMES if any(content[model]["outcomes"].get(name) for model in MODELS)]
    counts = {model: [content[model]["outcomes"].get(name, 0) for name in outcomes] for model in MODELS}
    samples = comparison.samples
    places = Counter((float(pair.base.passes), float(pair.tuned.passes)) for pair in comparison.pairs)
    return [
        (
            "Difference in pass@1",
            interval_chart(gain, x_label="tuned minus base", reference=0.0, percent=True),
            "The dot is what was measured, the bar its 95 % interval; a bar across the dashed line is within noise.",
        ),
        (
            "pass@1 of each model",
            interval_chart(rates, x_label="pass@1", percent=True, colours=BEFORE_AND_AFTER),
            "Each model's own interval. The two share their problems, so only the difference says whether it learned.",
        ),
        (
            "Problem by problem",
            count_chart(
                places, x_label=f"passes of base, of {samples}", y_label=f"passes of tuned, of {samples}",
                largest=float(samples),
            ),
            "Each disc is the number of problems with these passes; above the dashed line the tuned model is better.",
        ),
        (
            "What became of the samples",
            bar_chart(outcomes, counts, x_label="samples", colours=BEFORE_AND_AFTER),
            "All samples by the first test that did not pass: failed is a wrong answer, error an exception.",
        ),
    ]  # fmt: skip


def pass_at_k_rows(content: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """(k, base, tuned, difference) for k = 1, 2, 4, … and the largest k there is."""
    base, tuned = content["base"]["pass_at_k"], content["tuned"]["pass_at_k"]
    known = [int(k) for k in base if k in tuned]
    shown = [k for k in known if k & (k - 1) == 0 or k == max(known) or len(known) <= 8]
    return [
        (f"pass@{k}", percent(base[str(k)]), percent(tuned[str(k)]), points(tuned[str(k)] - base[str(k)]))
        for k in shown
    ]


def hidden_rows(content: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """(model, passes visible tests, passes hidden ones too, gap); none without hidden tests."""
    hidden = content["hidden_tests"]
    if hidden is None:
        return []
    return [
        (
            NAMES[model],
            percent(hidden[model]["visible"]),
            percent(hidden[model]["visible_and_hidden"]),
            points(hidden[model]["gap"]).removeprefix("+"),
        )
        for model in MODELS
    ]


def bucket(name: str, pairs: Sequence[Pair]) -> dict[str, Any]:
    """One section of cards, and the ids of the problems that have no card."""
    title, text = BUCKET_TEXTS[name]
    rest = [pair.problem.task_id for pair in pairs[CARDS:]]
    return {
        "title": title,
        "count": len(pairs),
        "text": text,
        "cards": [card(pair) for pair in pairs[:CARDS]],
        "more": f"{len(rest)} more: {clip(', '.join(rest), 600)}" if rest else "",
    }


def card(pair: Pair) -> dict[str, Any]:
    """A problem, both models' counts, and the samples that show the change."""
    facts = [
        f"{name} {tally.passes} of {tally.judged}" for name, tally in zip(MODELS, (pair.base, pair.tuned), strict=True)
    ]
    return {
        "name": f"Problem {pair.problem.task_id}",
        "text": clip(task_of(pair.problem), 400),
        "facts": facts,
        "samples": samples_of(pair),
    }


def task_of(problem: Problem) -> str:
    """What the problem asks for: the prompt without prelude and signature."""
    text = problem.prompt.removesuffix(problem.signature).rstrip()
    return text.removesuffix(problem.prelude.rstrip()).rstrip()


def samples_of(pair: Pair) -> list[ShownSample]:
    """A passing sample where there is one, the tuned model's first, and where the models differ a failing one of the
    other kind: the base's before an improvement, the tuned model's after a regression."""
    tallies = {"tuned": pair.tuned, "base": pair.base}
    passing = next(((model, one) for model, tally in tallies.items() if (one := find(tally, passed=True))), None)
    failing_model = "base" if pair.bucket == "improved" else "tuned"
    failing = find(tallies[failing_model], passed=False)
    shown = [shown_sample(pair.problem, *passing)] if passing else []
    if failing is not None and (passing is None or pair.bucket in ("improved", "regressed")):
        shown.append(shown_sample(pair.problem, failing_model, failing))
    return shown


def find(tally: Tally, *, passed: bool) -> Trial | None:
    """The first trial that passed (rather one that passes the hidden tests too), or the first that failed."""
    fitting = [trial for trial in tally.trials if trial.verdict.passed is passed]
    fitting.sort(key=lambda trial: trial.hidden is not None and trial.hidden.passed is not True)
    return fitting[0] if fitting else None


def shown_sample(problem: Problem, model: str, trial: Trial) -> ShownSample:
    """A sample with a label that says whose it is and whether it passes, and the test that it fails."""
    verdict = trial.verdict
    if verdict.passed:
        misses = trial.hidden is not None and trial.hidden.passed is False
        note = "It passes the visible tests but not the hidden ones." if misses else ""
        return ShownSample(f"Passing sample of the {NAMES[model]}", True, trial.attempt.program, note)
    cut = ", truncated" if trial.truncated else ""
    label = f"Failing sample of the {NAMES[model]}: {verdict.outcome}{cut}"
    place = verdict.failing_test
    detail = verdict.detail or (verdict.tests[place].detail if place is not None else "")
    test = f"Fails {problem.tests[place]}" if place is not None else ""
    return ShownSample(label, False, trial.attempt.program, clip(" · ".join(part for part in (test, detail) if part)))


def settings(content: Mapping[str, Any], given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, value) of what the result depends on."""
    names = ("model_name", "model_revision", "precision", "use_chat_template", "temperature", "top_p")
    rows = [(name, str(given[name])) for name in (*names, "max_completion_length", "num_eval_examples", "eval_k")]
    seeds = ", ".join(f"{model} {seed}" for model, seed in content["seeds"].items())
    return [
        ("run", content["run_id"]),
        ("method", content["method"]),
        *[(name, value) for name, value in rows if value],
        ("seed", f"{given['seed']} (sampling: {seeds})"),
        ("interval", content["interval_method"]),
        ("time", duration(content["seconds"])),
    ]
