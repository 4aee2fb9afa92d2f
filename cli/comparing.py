"""The verb `compare`: past runs side by side, on the terminal and as a page of their own."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from cli.display import print_table
from cli.identifiers import RunId
from cli.past_runs import Difference, PastRun, difference, differing, load
from components.shared.charts import interval_chart
from components.shared.errors import UserError
from components.shared.grading import missed_share
from components.shared.pages import clip, percent, points, render
from components.shared.progress import duration
from components.shared.statistics import FEWEST_PROBLEMS
from components.shared.store import Store, open_store

DEFAULT_PAGE = "build/comparison.html"
NOTHING = "–"
MOST = 20  # runs on one page
NAME_LENGTH = 20  # of a run's id in a chart
LONGEST = 120  # characters of a value that are shown
BETTER, WORSE, NOISE = VERDICTS = ("better beyond noise", "worse beyond noise", "within noise")
MANY = 4  # comparisons from which on it is said that some differ by chance

Row = tuple[str, list[str]]


def compare_command() -> click.Command:
    own: list[click.Parameter] = [
        click.Argument(["run_ids"], type=RunId(), metavar="RUN...", nargs=-1, required=True),
        click.Option(
            ["-o", "--output"], type=click.Path(path_type=Path), default=DEFAULT_PAGE, show_default=True,
            help="File for the page (.html).",
        ),
    ]  # fmt: skip
    return click.Command("compare", params=own, callback=_compare, help=_compare.__doc__)


def _compare(run_ids: tuple[str, ...], output: Path) -> None:
    """Compare runs, from the store at $GRPO_STORE: parameters that differ, results, and each against the first."""
    if not 2 <= len(set(run_ids)) == len(run_ids) <= MOST:
        raise UserError(f"compare takes 2 to {MOST} different runs: `python pipeline.py runs list` shows their ids.")
    store = open_store()
    runs = [load(store, run_id) for run_id in run_ids]
    _print_table(runs)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page_of(store, runs), encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"-o {output} cannot be written ({error.strerror}): name a file in a writable folder."
        ) from None
    click.echo(f"Page: {output}")


def result_rows(runs: Sequence[PastRun]) -> list[Row]:
    """(name, a value a run) of what came out; a dash where a run does not say."""
    rows: list[Row] = [("state", [run.state for run in runs])]
    figures: dict[str, Any] = {
        "base pass@1": lambda told: percent(told["base"]["pass_at_1"]),
        "tuned pass@1": lambda told: percent(told["tuned"]["pass_at_1"]),
        "tuned − base": lambda told: _interval(told["difference"]["pass_at_1"], *told["difference"]["ci95"]),
        "could have shown": lambda told: points(told["minimum_detectable"]).removeprefix("+"),
        "held-out problems": lambda told: f"{told['problems']}, {told['samples_per_problem']} samples each",
        "fail hidden tests": _missed_share,
    }
    if any((run.evaluation or {}).get("regression") for run in runs):
        figures["regression"] = _regression
    for name, figure in figures.items():
        rows.append((name, [_told(figure, run) for run in runs]))
    rows.append(("time", [_seconds(run) for run in runs]))
    if any(run.decision for run in runs):
        rows.append(("published", [_published(run) for run in runs]))
    return rows


def against_rows(runs: Sequence[PastRun], found: Sequence[Difference | None]) -> list[Row]:
    """How the tuned models of all runs compare with that of the first."""
    first = "the reference"
    gains = [
        NOTHING if one is None else _interval(one.interval.mean, one.interval.low, one.interval.high) for one in found
    ]
    sure = [NOTHING if one is None else _sure(one) for one in found]
    how = [NOTHING if one is None else _how(one) for one in found]
    return [
        ("tuned − the first run's", [first, *gains]),
        ("how sure", ["", *sure]),
        ("interval", ["", *how]),
    ]


def parameter_rows(runs: Sequence[PastRun]) -> list[Row]:
    """(parameter, its value in each run) where the runs differ."""
    return [(name, [_value(run.parameters, name) for run in runs]) for name in differing(runs)]


def notes(runs: Sequence[PastRun], found: Sequence[Difference | None]) -> list[str]:
    """What the reader must know first: what is missing, and which intervals are not paired."""
    said = [run.missing for run in runs if run.missing]
    judged = [(run.run_id, one) for run, one in zip(runs[1:], found, strict=True) if one is not None]
    elsewhere = [run_id for run_id, one in judged if not one.common]
    if elsewhere:
        said.append(
            f"Not judged on the same problems as run {runs[0].run_id}: {', '.join(elsewhere)}. Their intervals are "
            "unpaired and wider, and a difference may be that of the problems."
        )
    few = [f"{run_id} {one.common}" for run_id, one in judged if one.common and not one.paired]
    if few:
        said.append(
            f"Judged on few of the problems of run {runs[0].run_id}: {', '.join(few)}. A paired interval needs "
            f"{FEWEST_PROBLEMS}: with fewer it would not be a 95 % interval, so these are unpaired, over all problems "
            "of both, and a difference may be that of the problems."
        )
    if (compared := sum(one is not None for one in found)) >= MANY:
        said.append(f"These are {compared} comparisons: of those without a difference one in twenty is beyond noise.")
    unknown = [run.run_id for run in runs if not run.parameters]
    if unknown:
        said.append(f"Nothing is known of the parameters of {', '.join(unknown)}.")
    return said


def headline(runs: Sequence[PastRun], found: Sequence[Difference | None]) -> str:
    """How the others did against the first run, in one sentence."""
    sure = Counter(_sure(one) for one in found if one is not None)
    if not sure:
        return f"{len(runs)} runs side by side"
    counts = ", ".join(f"{sure[verdict] or 'none'} {verdict}" for verdict in VERDICTS)
    return f"Against {runs[0].run_id}: {counts}"


def page_of(store: Store, runs: Sequence[PastRun]) -> str:
    """The comparison as one page."""
    found = [difference(run, runs[0]) for run in runs[1:]]
    evaluated = [run for run in runs if run.evaluation is not None and run.evaluation.get("difference")]
    own = [(clip(run.run_id, NAME_LENGTH), *_own_difference(run)) for run in evaluated]
    others = [
        (clip(run.run_id, NAME_LENGTH), one.interval.mean, one.interval.low, one.interval.high)
        for run, one in zip(runs[1:], found, strict=True)
        if one is not None
    ]
    charts = []
    if own:
        chart = interval_chart(own, x_label="tuned minus base", reference=0.0, points=True)
        charts.append(("What each run gained", chart, "Tuned minus base of the same run, with its 95 % interval."))
    if others:
        chart = interval_chart(others, x_label="tuned minus the first run's", reference=0.0, points=True)
        how = "Right of the dashed line is better than the first run; a bar across it is within noise."
        charts.append(("Against the first run", chart, how))
    return render(
        "comparison.html",
        title=f"Comparison of {len(runs)} runs",
        headline=headline(runs, found),
        refresh_seconds=None,
        runs=[run.run_id for run in runs],
        notes=notes(runs, found),
        charts=charts,
        results=_cells(result_rows(runs)),
        against=_cells(against_rows(runs, found)) if others else [],
        parameters=_cells(parameter_rows(runs)),
        store=store.uri("runs"),
    )


def _print_table(runs: Sequence[PastRun]) -> None:
    found = [difference(run, runs[0]) for run in runs[1:]]
    groups = [result_rows(runs), against_rows(runs, found) if any(found) else [], parameter_rows(runs)]
    told = [[(name, *values) for name, values in group] for group in groups]
    print_table(["", *(run.run_id for run in runs)], told, foldable=True)
    for note in notes(runs, found):
        click.echo(note)


def _told(figure: Callable[[Any], str], run: PastRun) -> str:
    """A figure of a run's evaluation; a dash where there is none, or none of this kind, as of a base alone."""
    try:
        return figure(run.evaluation)
    except (KeyError, TypeError):
        return NOTHING


def _own_difference(run: PastRun) -> tuple[float, float, float]:
    told = (run.evaluation or {})["difference"]
    low, high = told["ci95"]
    return told["pass_at_1"], low, high


def _interval(mean: float, low: float, high: float) -> str:
    return f"{points(mean)} ({points(low).removesuffix(' points')} to {points(high).removesuffix(' points')})"


def _how(one: Difference) -> str:
    """How the interval was taken, with the number of problems that both runs were judged on."""
    return f"{'paired' if one.paired else 'unpaired'}, {one.common} problems shared"


def _sure(one: Difference) -> str:
    if one.interval.holds_zero:
        return NOISE
    return BETTER if one.interval.mean > 0 else WORSE


def _missed_share(evaluation: dict[str, Any]) -> str:
    """Of what passes the visible tests, what fails a hidden one, before and after."""
    hidden = evaluation["hidden_tests"]
    if hidden is None:
        return NOTHING
    counts = [(hidden[model]["passed_visible"], hidden[model]["failed_hidden"]) for model in ("base", "tuned")]
    shares = [f"{percent(missed_share(*pair))} of {pair[0]}" for pair in counts]
    return f"{' → '.join(shares)} passing samples, {hidden['problems']} problems"


def _regression(evaluation: dict[str, Any]) -> str:
    told = evaluation["regression"]
    return f"{_interval(told['difference']['pass_at_1'], *told['difference']['ci95'])}, {told['problems']} problems"


def _seconds(run: PastRun) -> str:
    return NOTHING if run.seconds is None else duration(run.seconds)


def _published(run: PastRun) -> str:
    if run.decision is None:
        return NOTHING
    return f"as {run.decision['name']}" if run.decision["published"] else f"not as {run.decision['name']}"


def _value(parameters: dict[str, Any], name: str) -> str:
    if name not in parameters:
        return NOTHING
    value = parameters[name]
    text = value if isinstance(value, str) else json.dumps(value)
    return clip(text, LONGEST) if text else "empty"


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    return [[name, *values] for name, values in rows]
