"""The verbs `runs list|pin|unpin|prune`: what the store keeps of past runs, and for how long.

A run is removed only if all of this holds: it is not among the newest, nothing of it was written for some days, no
published version comes from it, nobody has pinned it, and no scheduled run compares itself with it (on_unchanged). A
run that has not succeeded can be continued, and stays for a week after its last write whatever is asked for. Judged
samples (cache/) to which nothing was added for as long go as well: they only spare work, and come anew where needed.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

import click

from cli.display import print_table
from cli.identifiers import RunId
from cli.past_runs import PastRun, load
from components.shared import published
from components.shared.errors import UserError
from components.shared.pages import percent, points
from components.shared.run import folder_of, latest
from components.shared.store import Store, open_store
from components.unchanged import remembered

PINNED = "pinned"  # below a run's folder: a marker that keeps it
COLUMNS = ("run", "state", "last written", "base", "tuned", "tuned − base", "kept")
KEEP, DAYS = 20, 30.0
RESUMABLE_DAYS = 7.0
DONE = ("succeeded", "unchanged")
DAY = 86400.0
JUDGED = re.compile(r"[0-9a-f]{64}")  # a folder of judged samples among the other things in cache/ (see shared/kept.py)


@dataclass(frozen=True)
class Candidate:
    """A run that pruning looks at. reason: why it stays; empty when it may go."""

    run_id: str
    days: float
    reason: str


def runs_command() -> click.Group:
    """`runs` with its own verbs."""
    group = click.Group("runs", no_args_is_help=False, help="Past runs: list, pin, unpin, prune.")
    run = click.Argument(["run_id"], type=RunId(), metavar="RUN")
    prune = [
        click.Option(["--keep"], type=click.IntRange(0), default=KEEP, show_default=True, metavar="N",
                     help="The newest so many runs stay."),
        click.Option(["--older-than"], type=click.FloatRange(0), default=DAYS, show_default=True, metavar="DAYS",
                     help="Only runs and judged samples that nothing was written to for so long."),
        click.Option(["--delete"], is_flag=True, help="Really remove them; without it nothing is changed."),
    ]  # fmt: skip
    group.add_command(click.Command("list", callback=_list, help=_list.__doc__))
    group.add_command(click.Command("pin", params=[run], callback=_pin, help=_pin.__doc__))
    group.add_command(click.Command("unpin", params=[run], callback=_unpin, help=_unpin.__doc__))
    group.add_command(click.Command("prune", params=[*prune], callback=_prune, help=_prune.__doc__))
    return group


def _list() -> None:
    """List the runs in the store, the newest first."""
    store = open_store()
    rows = []
    for run_id, written in by_age(store):
        run = load(store, run_id)
        when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(written))
        kept = PINNED if is_pinned(store, run_id) else ""
        rows.append((run_id, run.state, when, *_figures(run), kept))
    if rows:
        print_table(COLUMNS, [rows])
    else:
        click.echo(f"There are no runs in {store.uri('runs')}.")


def _figures(run: PastRun) -> tuple[str, str, str]:
    told = run.evaluation or {}
    rates = [percent((told.get(which) or {}).get("pass_at_1")) for which in ("base", "tuned")]
    return rates[0], rates[1], points((told.get("difference") or {}).get("pass_at_1"))


def _pin(run_id: str) -> None:
    """Keep a run: prune never removes it."""
    store = open_store()
    load(store, run_id)  # refuses a run that is not there
    store.write(_pin_key(run_id), b"")
    click.echo(f"Run {run_id} is pinned.")


def _unpin(run_id: str) -> None:
    """Let prune remove a run again once it is old enough."""
    store = open_store()
    if not is_pinned(store, run_id):
        raise UserError(f"Run {run_id} is not pinned: `python pipeline.py runs list` shows which are.")
    store.delete(_pin_key(run_id))
    click.echo(f"Run {run_id} is not pinned any more.")


def _prune(keep: int, older_than: float, delete: bool) -> None:
    """Say which old runs could be removed, and remove them with --delete.

    Published, pinned and recent runs stay, those that could be continued, and the last one of each schedule.
    """
    store = open_store()
    found = candidates(store, keep=keep, older_than=older_than)
    going = [one for one in found if not one.reason]
    for one in found:
        click.echo(f"{one.run_id}  {one.days:5.1f} days  " + (f"stays: {one.reason}" if one.reason else "goes"))
    stale = stale_samples(store, older_than=older_than)
    if not going and not stale:
        click.echo(f"None of {len(found)} runs is to go.")
        return
    what = f"{len(going)} of {len(found)} runs" + (f" and {len(stale)} sets of judged samples" if stale else "")
    if not delete:
        click.echo(f"{what} would go; nothing was changed. `--delete` removes them.")
        return
    for one in going:
        remove(store, one.run_id)
    for folder in stale:
        store.delete_folder(f"{folder}/")
    click.echo(f"Removed {what}, with the runs' checkpoints.")


def stale_samples(store: Store, *, older_than: float) -> list[str]:
    """The folders of judged samples to which nothing was added for so many days, or a day: a run may be at work."""
    folders = [f"cache/{name}" for name in store.folders("cache/") if JUDGED.fullmatch(name)]
    return [one for one in folders if (time.time() - (store.changed(f"{one}/") or 0.0)) / DAY >= max(older_than, 1.0)]


def candidates(store: Store, *, keep: int, older_than: float) -> list[Candidate]:
    """All runs, the newest first, each with the first reason for which it stays."""
    protected = {
        **dict.fromkeys(remembered(store), "a scheduled run compares itself with it"),
        **({newest: "it is runs/latest"} if (newest := latest(store)) else {}),
        **published_from(store),
    }
    found = []
    for place, (run_id, written) in enumerate(by_age(store)):
        days = (time.time() - written) / DAY
        reason = f"among the newest {keep}" if place < keep else protected.get(run_id, "")
        reason = reason or (PINNED if is_pinned(store, run_id) else "")
        if not reason and days < older_than:
            reason = f"written to within {older_than:g} days"
        if not reason and days < RESUMABLE_DAYS and load(store, run_id).state not in DONE:
            reason = f"it can be continued, and was written to within {RESUMABLE_DAYS:g} days"
        found.append(Candidate(run_id, days, reason))
    return found


def by_age(store: Store) -> list[tuple[str, float]]:
    """(run, when it was last written to, in seconds since 1970), the newest first; its checkpoints count."""
    ages = {run_id: _written(store, run_id) for run_id in store.folders("runs/")}
    return sorted(ages.items(), key=lambda one: -one[1])


def _written(store: Store, run_id: str) -> float:
    return max(store.changed(f"{folder}/") or 0.0 for folder in _folders(run_id)[:2])


def published_from(store: Store) -> dict[str, str]:
    """run -> the published version that comes from it."""
    found: dict[str, str] = {}
    for name in published.names(store):
        found |= {str(one["run_id"]): f"published as {name}" for one in published.versions(store, name)}
    return found


def is_pinned(store: Store, run_id: str) -> bool:
    return store.exists(_pin_key(run_id))


def remove(store: Store, run_id: str) -> None:
    """Remove what a run has left: checkpoints first, so that a removal cut short leaves a run that is listed."""
    for folder in reversed(_folders(run_id)):
        store.delete_folder(f"{folder}/")


def _folders(run_id: str) -> Sequence[str]:
    """Where a run's files are; kfp's own are there for local runs only."""
    return folder_of(run_id), f"checkpoints/{run_id}", f"kfp/{run_id}"


def _pin_key(run_id: str) -> str:
    return f"{folder_of(run_id)}/{PINNED}"
