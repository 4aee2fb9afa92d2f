"""The verbs `models list|publish|rollback`: what is published in the store, and what people change of it by hand."""

import json
import tempfile
from pathlib import Path
from typing import Any

import click

from cli.display import print_table
from cli.identifiers import RunId
from components.shared import published
from components.shared.errors import InfraError, UserError
from components.shared.pages import percent
from components.shared.run import folder_of, recorded
from components.shared.status import DECISION, EVALUATION
from components.shared.store import Store, open_store
from components.shared.trained import KINDS, fetch_trained, read_trained

COLUMNS = ("model", "version", "", "published", "decided by", "method", "held-out pass@1")


class ModelName(click.ParamType[str]):
    """The name of a published model."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return published.check_model_name(str(value), "NAME")


def models_command() -> click.Group:
    """`models` with its own verbs."""
    group = click.Group("models", no_args_is_help=False, help="Published models: list, publish, rollback.")
    name = click.Argument(["name"], type=ModelName(), metavar="NAME")
    optional = click.Argument(["name"], type=ModelName(), metavar="[NAME]", required=False)
    run = click.Argument(["run_id"], type=RunId(), metavar="RUN")
    version = click.Argument(["version"], metavar="[VERSION]", required=False)
    group.add_command(click.Command("list", params=[optional], callback=_list, help=_list.__doc__))
    group.add_command(click.Command("publish", params=[run, name], callback=_publish, help=_publish.__doc__))
    group.add_command(click.Command("rollback", params=[name, version], callback=_rollback, help=_rollback.__doc__))
    return group


def _list(name: str | None) -> None:
    """List the published models and their versions; the one marked `current` is what the name means."""
    store = open_store()
    rows = [row for one in ([name] if name else published.names(store)) for row in version_rows(store, one)]
    if not rows:
        click.echo(f"Nothing is published{f' as {name}' if name else ''} in {store.uri(published.MODELS)}.")
        return
    print_table(COLUMNS, [rows])


def version_rows(store: Store, name: str) -> list[tuple[str, ...]]:
    """One row a version of a model, as COLUMNS names it."""
    current = published.current_version(store, name)
    return [
        (
            name,
            one["version"],
            "current" if one["version"] == current else "",
            one["published"][:10],  # the day
            one["decided_by"],
            one["method"],
            _heldout(one.get("heldout")),
        )
        for one in published.versions(store, name)
    ]


def _heldout(told: dict[str, Any] | None) -> str:
    if told is None:
        return "not evaluated"
    return f"{percent(told['base'])} → {percent(told['tuned'])}, {told['problems']} problems"


def _publish(run_id: str, name: str) -> None:
    """Publish what a run has trained as NAME, by hand: no comparison is made."""
    store = open_store()
    record = recorded(store, run_id)
    if (record.get("parameters") or {}).get("reward") == "random":
        raise UserError(f"Run {run_id} is a control: what coin flips have taught is not to be published.")
    seen, decision = published.read_pointer(store, name), _file(store, run_id, DECISION)
    with tempfile.TemporaryDirectory(prefix="grpo-publish-") as scratch:
        folder, source = Path(scratch), f"{folder_of(run_id)}/train"
        if not fetch_trained(store, source, folder, (*KINDS, published.MERGED)):
            raise UserError(
                f"Run {run_id} has no trained model in {store.uri(source)}: name a run whose training has finished."
            )
        trained = read_trained(folder)
        chat = bool((record.get("parameters") or {}).get("use_chat_template"))
        about = decision if decision and decision["name"] == name else None
        facts = published.facts(
            trained, run=run_id, heldout=_file(store, run_id, EVALUATION), decision=about, use_chat_template=chat
        )
        done = published.publish(
            store, name, run_id, folder, seen=seen, decided_by=published.BY_HAND, facts=facts, evaluation=None,
            provenance=record,
        )  # fmt: skip
    if not done:
        raise InfraError(
            f"Somebody else changed which version of {name} is current at the same time: look, and repeat."
        )
    before = f"; it was {seen.version}" if seen.version not in (None, run_id) else ""
    click.echo(f"{name} is now version {run_id}{before}.")
    if about is None:
        click.echo("This was not decided on validation problems; publish_as does that.")
    else:
        outcome = "publish" if about["published"] else "not to publish"
        click.echo(f"Its run had decided {outcome}: {about['reason']}")


def _rollback(name: str, version: str | None) -> None:
    """Make an earlier version of NAME current: VERSION, or the one that the current version had replaced."""
    store = open_store()
    seen = published.read_pointer(store, name)
    known = [str(one["version"]) for one in published.versions(store, name)]
    if not known:
        raise UserError(
            f"Nothing is published as {name} in {store.uri(published.MODELS)}: `models list` shows what is."
        )
    wanted = version or _replaced(store, name, seen.version)
    if wanted not in known:
        there = f"its versions are {', '.join(known)}"
        raise UserError(
            f"{name} has no version {version!r}: {there}." if version
            else f"Version {seen.version} of {name} replaced none that is still there: name one; {there}."
        )  # fmt: skip
    if wanted == seen.version:
        click.echo(f"{name} is at version {wanted} already.")
        return
    if not published.move_pointer(store, name, wanted, seen):
        raise InfraError(
            f"Somebody else changed which version of {name} is current at the same time: look, and repeat."
        )
    click.echo(f"{name} is now version {wanted}; it was {seen.version}.")


def _replaced(store: Store, name: str, current: str | None) -> str | None:
    told = published.publication(store, name, current) if current else None
    return told["replaces"] if told else None


def _file(store: Store, run_id: str, name: str) -> dict[str, Any] | None:
    try:
        return dict(json.loads(store.read(f"{folder_of(run_id)}/{name}")))
    except KeyError:
        return None
