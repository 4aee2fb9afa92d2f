"""The verb `doctor`: its options, what it prints, and its exit code (0 nothing failed, 1 something did, 2 usage)."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from cli import parameters
from cli.cluster import Cluster
from cli.display import make_console, print_plain
from cli.doctor.diagnosis import diagnose
from cli.doctor.evidence import gather
from cli.doctor.examination import examine, started
from cli.doctor.finding import Finding, as_json, has_failed
from cli.doctor.installation import PROFILE_ACCOUNT, SINGLE_USER_ACCOUNT, Installation
from cli.endpoint import Endpoint, endpoint_options, take_endpoint
from cli.identifiers import RunId
from cli.images import settle_tag
from cli.running import signals_interrupt
from components.images import STEPS, image
from components.settings import check as check_parameters
from components.shared.errors import InfraError, UserError

SECONDS_FOR_KFP = 5.0


def doctor_command() -> click.Command:
    """The verb, whose options are the pipeline's parameters and those of the connection."""
    own: list[click.Parameter] = [
        click.Option(
            ["--run"],
            type=RunId(),
            help="Explain why this run is stuck or failed, instead of looking at the installation.",
        ),
        click.Option(["--probe/--no-probe"], default=True, help="Start probe pods; they are gone afterwards."),
        click.Option(["--json", "as_json_text"], is_flag=True, help="Print one JSON object instead of lines."),
        click.Option(["--context"], help="Context of the kubeconfig to use [the current one]."),
        click.Option(
            ["--service-account"], help=f"Account that runs use [{SINGLE_USER_ACCOUNT}, or {PROFILE_ACCOUNT}]."
        ),
        click.Option(["--pull-secret"], multiple=True, help="Secret for a private registry; may be repeated."),
        parameters.file_option(),
    ]
    options = [*own, *endpoint_options(), *parameters.options()]
    return click.Command("doctor", params=options, callback=_doctor, help=_doctor.__doc__)


def _doctor(
    run: str | None,
    probe: bool,
    as_json_text: bool,
    context: str | None,
    service_account: str | None,
    pull_secret: tuple[str, ...],
    params: Path | None,
    **options: Any,
) -> int:
    """Say what stands in a run's way and how to mend it; with --run, why a run is stuck or failed."""
    start = time.monotonic()
    namespace = options["namespace"]
    endpoint, no_endpoint = _endpoint(options)
    given = parameters.merged(parameters.asked(params, options))
    check_parameters(given)
    cluster = Cluster.connect(context, namespace)
    with signals_interrupt():
        if run:
            findings = [diagnose(gather(run, cluster, endpoint))]
            _show(findings, quiet=as_json_text)
        else:
            account = service_account or _account(endpoint)
            place = Installation(cluster, given, _images(), account, pull_secret, endpoint, no_endpoint)
            # closed at once when interrupted while it prints: what it has made is gone before the command ends
            with contextlib.closing(examine(place, probing=probe)) as groups:
                findings = _all_shown(groups, quiet=as_json_text)
    if as_json_text:
        click.echo(json.dumps(as_json(findings, time.monotonic() - start), indent=1, ensure_ascii=False))
    return 1 if has_failed(findings) else 0


def _all_shown(groups: Iterator[list[Finding]], *, quiet: bool) -> list[Finding]:
    """All findings, printed as they come."""
    findings: list[Finding] = []
    for group in groups:
        findings += group
        _show(group, quiet=quiet)
    return findings


def _show(findings: list[Finding], *, quiet: bool) -> None:
    if not quiet:
        console = make_console()
        for finding in findings:
            print_plain(console, finding.line)


def _endpoint(options: dict[str, Any]) -> tuple[Endpoint | None, str]:
    """The connection to KFP, or why there is none: for the doctor that is a finding, not the end."""
    try:
        return take_endpoint(options), ""
    except UserError as error:
        for option in endpoint_options():
            options.pop(str(option.name), None)
        return None, str(error)


def _images() -> dict[str, str]:
    """Each step's image by REGISTRY and TAG; whether it is there is for the probes to find."""
    settle_tag()
    return {step: image(step) for step in STEPS}


def _account(endpoint: Endpoint | None) -> str:
    """The account that KFP gives to a run that names none; a KFP that is slow to answer counts as a single user's."""
    if endpoint is None:
        return SINGLE_USER_ACCOUNT
    try:
        health = started(lambda: endpoint.health).result(timeout=SECONDS_FOR_KFP)
    except (InfraError, UserError, TimeoutError):
        return SINGLE_USER_ACCOUNT
    return PROFILE_ACCOUNT if health.multi_user else SINGLE_USER_ACCOUNT
