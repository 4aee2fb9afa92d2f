"""The verbs that show a run to a person: `watch` on a terminal, `report` in a browser."""

import threading
import webbrowser
from typing import Any

import click

from cli.endpoint import Endpoint, endpoint_options, take_endpoint
from cli.identifiers import RunId, RunIdOrLatest
from components.shared.errors import UserError
from components.shared.run import latest
from components.shared.store import open_store


def watch_command() -> click.Command:
    own = [click.Argument(["run_id"], type=RunId(), metavar="RUN"), *endpoint_options()]
    return click.Command("watch", params=own, callback=_watch, help=_watch.__doc__)


def _watch(run_id: str, **options: Any) -> int:
    """Show a run's steps until it ends; exits 0 if it succeeded, 1 if not.

    With KFP_ENDPOINT or --endpoint they are those that Kubeflow Pipelines reports; without, those that the store at
    $GRPO_STORE shows, of a run on this machine or in a bucket.
    """
    from cli.following import watch
    from cli.store_following import watch_store

    if not Endpoint.is_named(options["endpoint"]):
        return watch_store(open_store(), run_id)
    endpoint = take_endpoint(options)
    return watch(endpoint, run_id, namespace=endpoint.namespace)


def report_command() -> click.Command:
    own = [
        click.Argument(["run_id"], type=RunIdOrLatest(), metavar="RUN", default="latest"),
        click.Option(["--port"], type=click.IntRange(0, 65535), default=0, help="Port on this machine; any free one."),
        click.Option(["--open/--no-open", "browser"], default=False, help="Open the page in a browser."),
    ]
    return click.Command("report", params=own, callback=_report, help=_report.__doc__)


def _report(run_id: str, port: int, browser: bool) -> int:
    """Show a run's pages, from the store at $GRPO_STORE, in this machine's browser; RUN is an id or `latest`."""
    from cli.serving import serving

    store = open_store()
    run = latest(store) if run_id == "latest" else run_id
    if not run:
        raise UserError(f"The store {store.uri('')} holds no finished run: name the run's id.")
    with serving(store, run, port) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        try:  # from before the line on, for whoever reads it may be quick
            click.echo(f"Run {run}: {address} (Ctrl-C ends it)")
            if browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            click.echo()
    return 0
