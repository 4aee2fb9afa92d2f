"""Problems with real code for the page: what was gained, what was lost, and what only the visible tests accept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.evaluate.comparison import Pair, Scores, Tally, Trial
from components.evaluate.wording import NAMES
from components.shared.pages import clip
from components.shared.problem import Problem
from components.shared.sandbox import Verdict

CARDS, HIDDEN_CARDS = 6, 4  # shown of each bucket, and of what fails hidden tests
BUCKET_TEXTS = {
    "improved": ("Improved", "The tuned model passes more often than the base. Largest gain first."),
    "regressed": ("Regressed", "The tuned model passes less often than the base. Largest loss first."),
    "both": ("Solved as often as before", "Both models pass, equally often."),
    "neither": ("Solved by neither", "No sample of either model passes."),
}
ALONE_TEXTS = {
    "sometimes": ("Solved sometimes", "Some samples pass and some fail: what GRPO can learn from."),
    "never": ("Never solved", "No sample passes."),
    "always": ("Always solved", "Every sample passes."),
}


@dataclass(frozen=True)
class ShownSample:
    """One program on a card; passed decides its colour."""

    label: str
    passed: bool
    code: str
    note: str


def buckets_of_pairs(found: Mapping[str, Sequence[Pair]]) -> list[dict[str, Any]]:
    """The four sections of a comparison."""
    shown = {
        name: [(pair.problem, {"base": pair.base, "tuned": pair.tuned}, samples_of(pair)) for pair in pairs[:CARDS]]
        for name, pairs in found.items()
    }
    tasks = {name: [pair.problem.task_id for pair in pairs] for name, pairs in found.items()}
    return [_bucket(text, shown[name], tasks[name]) for name, text in BUCKET_TEXTS.items()]


def buckets_alone(scores: Scores) -> list[dict[str, Any]]:
    """The three sections of a base alone."""
    found: dict[str, list[tuple[Problem, Tally]]] = {name: [] for name in ALONE_TEXTS}
    for problem, tally in zip(scores.problems, scores.tallies, strict=True):
        name = "never" if not tally.passes else "always" if tally.passes == tally.judged else "sometimes"
        found[name].append((problem, tally))
    shown = {
        name: [(problem, {"base": tally}, samples_alone(problem, tally)) for problem, tally in rows[:CARDS]]
        for name, rows in found.items()
    }
    tasks = {name: [problem.task_id for problem, _ in rows] for name, rows in found.items()}
    return [_bucket(text, shown[name], tasks[name]) for name, text in ALONE_TEXTS.items()]


def _bucket(
    texts: tuple[str, str],
    shown: Sequence[tuple[Problem, Mapping[str, Tally], list[ShownSample]]],
    tasks: Sequence[str],
) -> dict[str, Any]:
    """One section of cards, and the ids of the problems that have no card."""
    title, text = texts
    rest = tasks[CARDS:]
    return {
        "title": title,
        "count": len(tasks),
        "text": text,
        "cards": [card(problem, tallies, samples) for problem, tallies, samples in shown],
        "more": f"{len(rest)} more: {clip(', '.join(rest), 600)}" if rest else "",
    }


def card(problem: Problem, tallies: Mapping[str, Tally], samples: list[ShownSample]) -> dict[str, Any]:
    """A problem, each model's counts, and samples."""
    return {
        "name": f"Problem {problem.task_id}",
        "text": clip(task_of(problem), 400),
        "facts": [f"{name} {tally.passes} of {tally.judged}" for name, tally in tallies.items()],
        "samples": samples,
    }


def hidden_cards(scores: Mapping[str, Scores]) -> list[dict[str, Any]]:
    """Programs that pass the visible tests and fail a hidden one, the tuned model's first, one a problem."""
    cards: list[dict[str, Any]] = []
    seen: set[str] = set()
    for model in reversed(list(scores)):
        for problem, tally in zip(scores[model].problems, scores[model].tallies, strict=True):
            wrong = next((trial for trial in tally.trials if trial.misses_hidden), None)
            if wrong is None or wrong.hidden is None or problem.task_id in seen or len(cards) == HIDDEN_CARDS:
                continue
            seen.add(problem.task_id)
            label = f"Sample of the {NAMES[model]}: passes the visible tests, fails a hidden one"
            sample = ShownSample(label, False, wrong.attempt.program, failure_of(problem.hidden_tests, wrong.hidden))
            cards.append(card(problem, {model: tally}, [sample]))
    return cards


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


def samples_alone(problem: Problem, tally: Tally) -> list[ShownSample]:
    """A passing and a failing sample, as far as there are such."""
    found = [one for passed in (True, False) if (one := find(tally, passed=passed))]
    return [shown_sample(problem, "base", trial) for trial in found]


def find(tally: Tally, *, passed: bool) -> Trial | None:
    """The first trial that passed (rather one that passes the hidden tests too), or the first that failed."""
    fitting = [trial for trial in tally.trials if trial.verdict.passed is passed]
    fitting.sort(key=lambda trial: trial.misses_hidden)
    return fitting[0] if fitting else None


def shown_sample(problem: Problem, model: str, trial: Trial) -> ShownSample:
    """A sample with a label that says whose it is and whether it passes, and the test that it fails."""
    verdict = trial.verdict
    if verdict.passed:
        note = "It passes the visible tests but not the hidden ones." if trial.misses_hidden else ""
        return ShownSample(f"Passing sample of the {NAMES[model]}", True, trial.attempt.program, note)
    cut = ", truncated" if trial.truncated else ""
    label = f"Failing sample of the {NAMES[model]}: {verdict.outcome}{cut}"
    return ShownSample(label, False, trial.attempt.program, failure_of(problem.tests, verdict))


def failure_of(tests: Sequence[str], verdict: Verdict) -> str:
    """The test that a program fails, and what the sandbox said of it."""
    place = verdict.failing_test
    detail = verdict.detail or (verdict.tests[place].detail if place is not None else "")
    test = f"Fails {tests[place]}" if place is not None else ""
    return clip(" · ".join(part for part in (test, detail) if part))
