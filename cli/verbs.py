"""The verbs for Kubeflow Pipelines: what each takes on the command line, what it does, and what it says."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from cli import parameters
from cli.compiling import check_fixed, check_name, fixed_options, take_fixed, write_pipeline
from cli.endpoint import Endpoint, endpoint_options, take_endpoint
from cli.identifiers import RunId, ScheduleId
from cli.kept import as_text, options_of_run
from cli.submit import EXPERIMENT, Place, continued, parameters_for_cluster, run_of, start_run
from components.shared.errors import InfraError, UserError

note = partial(click.echo, err=True)
DEFAULT = click.core.ParameterSource.DEFAULT


def compile_command() -> click.Command:
    own = [
        click.Option(["-o", "--output"], type=click.Path(path_type=Path), required=True, help="File to write (.yaml).")
    ]
    return click.Command("compile", params=[*own, *fixed_options()], callback=_compile, help=_compile.__doc__)


def _compile(output: Path, **options: Any) -> None:
    """Write the pipeline as a file that Kubeflow Pipelines accepts."""
    check_name(output)
    write_pipeline(output, take_fixed(options))
    click.echo(f"Wrote {output}.")


def upload_command() -> click.Command:
    options: list[click.Parameter] = [*fixed_options(), *endpoint_options()]
    return click.Command("upload", params=options, callback=_upload, help=_upload.__doc__)


def _upload(**options: Any) -> None:
    """Upload the pipeline to Kubeflow Pipelines, as a new version of the same pipeline."""
    from cli.uploading import upload

    endpoint, fixed = take_endpoint(options), take_fixed(options)
    pipeline, version, name, new = upload(endpoint, fixed)
    click.echo(f"{'Uploaded' if new else 'There already:'} {fixed.pipeline}, version {name}")
    click.echo(f"  page   {endpoint.ui}/#/pipelines/details/{pipeline}/version/{version}")
    click.echo("  run it from that page, or with: python pipeline.py run")


def upload_demo_command() -> click.Command:
    return click.Command("upload-demo", callback=_upload_demo, help=_upload_demo.__doc__)


def _upload_demo() -> None:
    """Put the demo's model and problems into the store, for a first run on the cluster."""
    from cli.uploading import upload_demo

    click.echo(f"The demo is in the store. Run it on the cluster with:\n  {upload_demo()}")


def run_command() -> click.Command:
    own = [
        *_submit_options("Name of the run in KFP's list."),
        click.Option(
            ["--resume"], type=RunId(), metavar="RUN", help="Id of a run that failed: go on from its newest checkpoint."
        ),
        click.Option(["--follow"], is_flag=True, help="Watch the run until its end."),
    ]
    return click.Command("run", params=[*own, *_shared_options()], callback=_run, help=_run.__doc__)


def _run(resume: str | None, follow: bool, name: str | None, **options: Any) -> int:
    """Run the pipeline on Kubeflow Pipelines; the parameters are those of `local`."""
    endpoint, fixed_given, place, given = _submitted(options)
    if resume is not None:
        given, place = continued(endpoint, resume, given, place)
        parameters.refuse_other_pipeline(resume, given, fixed_given["pipeline"])
        fixed_given |= _kept(endpoint, resume)
    wanted = parameters_for_cluster(given, note, pipeline=fixed_given["pipeline"])
    fixed = take_fixed(fixed_given)
    run_id = start_run(endpoint, fixed, wanted, place, name or f"{fixed.pipeline} {wanted['model_name']}")
    click.echo(f"Started run {run_id}" + (f", which continues {wanted['resume_run']}" if resume is not None else ""))
    click.echo(f"  page     {endpoint.run_link(run_id)}")
    click.echo(f"  watch    python pipeline.py watch {run_id}")
    click.echo(f"  report   python pipeline.py report {wanted['resume_run'] or run_id}")
    longest = "train" if fixed.pipeline == parameters.WHOLE else "evaluate"
    click.echo(f"  logs     python pipeline.py logs {run_id} {longest}")
    click.echo(f"  stuck?   python pipeline.py doctor --run {run_id}")
    if follow:
        from cli.following import watch

        return watch(endpoint, run_id, namespace=endpoint.namespace)
    return 0


def _kept(endpoint: Endpoint, resume: str) -> dict[str, Any]:
    """What was fixed for the run that is continued, but for the options that are given now; it is said."""
    context = click.get_current_context()
    kept = options_of_run(endpoint, run_of(endpoint, resume))
    kept = {name: value for name, value in kept.items() if context.get_parameter_source(name) is DEFAULT}
    note(
        f"Parameters, revisions, service account, pipeline root and what is fixed at compile are those of {resume}, "
        f"but for what is given now. {as_text(kept)}".rstrip()
    )
    return kept


def schedule_command() -> click.Group:
    """`schedule` with its own verbs."""
    group = click.Group("schedule", no_args_is_help=False, help="Recurring runs: create, list, disable, delete.")
    create = [
        *_submit_options("Name of the schedule."),
        click.Option(["--cron"], required=True, help="When, in UTC: cron's five fields, or six with seconds first."),
        click.Option(
            ["--follow-revisions"],
            is_flag=True,
            help="Each run takes the newest model and data set, instead of those of today.",
        ),
        *_shared_options(),
    ]
    group.add_command(click.Command("create", params=create, callback=_schedule_create, help=_schedule_create.__doc__))
    connection: list[click.Parameter] = [*endpoint_options()]
    group.add_command(click.Command("list", params=connection, callback=_schedule_list, help=_schedule_list.__doc__))
    named = [click.Argument(["schedule_id"], type=ScheduleId(), metavar="SCHEDULE"), *connection]
    for name, callback in (("disable", _schedule_disable), ("delete", _schedule_delete)):
        group.add_command(click.Command(name, params=named, callback=callback, help=callback.__doc__))
    return group


def _schedule_create(cron: str, follow_revisions: bool, name: str | None, **options: Any) -> None:
    """Create a recurring run of the pipeline as it is now."""
    from cli import schedule
    from cli.cron import parse_cron

    when = parse_cron(cron)
    endpoint, fixed_given, place, given = _submitted(options)
    wanted = parameters_for_cluster(given, note, follow=follow_revisions, pipeline=fixed_given["pipeline"])
    made = schedule.create(endpoint, take_fixed(fixed_given), wanted, place, name=name or "grpo-code", cron=when)
    click.echo(f"Created schedule {made}: {when.words} (UTC)")
    click.echo("  next     " + ", ".join(f"{moment:%a %Y-%m-%d %H:%M:%S}" for moment in when.times))
    pinned = "the newest at each run" if follow_revisions else "those of today"
    click.echo(f"  reads    model and data set {pinned}; the code is that of today")
    click.echo(f"  page     {endpoint.schedule_link(made)}")
    click.echo(f"  stop     python pipeline.py schedule disable {made}")


def _schedule_list(**options: Any) -> None:
    """List the schedules."""
    from cli import schedule

    found = schedule.lines(take_endpoint(options))
    click.echo("\n".join(found) or "There are no schedules.")


def _schedule_disable(schedule_id: str, **options: Any) -> None:
    """Switch a schedule off; its runs go on."""
    from cli import schedule

    schedule.disable(take_endpoint(options), schedule_id)
    click.echo(f"Schedule {schedule_id} starts nothing any more; its page in KFP can switch it on again.")


def _schedule_delete(schedule_id: str, **options: Any) -> None:
    """Delete a schedule; a run of it that is at work ends, the finished ones stay in KFP's list."""
    from cli import schedule

    schedule.delete(take_endpoint(options), schedule_id)
    click.echo(f"Deleted schedule {schedule_id}.")


def logs_command() -> click.Command:
    own = [
        click.Argument(["run_id"], type=RunId(), metavar="RUN"),
        click.Argument(["step"], required=False),
        click.Option(["--context"], help="Context of the kubeconfig [the current one]."),
        *endpoint_options(),
    ]
    return click.Command("logs", params=own, callback=_logs, help=_logs.__doc__)


def _logs(run_id: str, step: str | None, context: str | None, **options: Any) -> int:
    """Print what a run's steps printed: from their pods, or where those are gone, from KFP's bucket."""
    from cli.cluster import Cluster
    from cli.pods import archive_of, archived_logs, logs
    from components.pods import STEPS

    if step is not None and step not in STEPS:
        raise UserError(f"There is no step {step!r}: use one of {', '.join(STEPS)}.")
    namespace, found, cluster = options["namespace"], False, None
    try:
        cluster = Cluster.connect(context, namespace)
        for heading, text in logs(cluster, run_id, step):
            found = _print_log(heading, text)
    except (UserError, InfraError) as error:
        note(f"The pods cannot be asked: {error}")
    if not found:
        endpoint = take_endpoint(options)
        for heading, text in archived_logs(*archive_of(endpoint, run_id, cluster), run_id, step):
            found = _print_log(heading, text)
    if not found:
        raise UserError(
            f"There are no logs of run {run_id}{f', step {step},' if step else ''} here: its pods are gone or have not "
            "started, and KFP's bucket has none."
        )
    return 0


def _print_log(heading: str, text: str) -> bool:
    click.echo(f"==> {heading}")
    click.echo(text.rstrip("\n"))
    return True


def _submit_options(name_help: str) -> list[click.Parameter]:
    """What run and schedule create have in common beside the parameters."""
    return [
        parameters.file_option(),
        click.Option(["--name"], help=name_help),
        click.Option(["--experiment"], default=EXPERIMENT, show_default=True, help="KFP's experiment, made if needed."),
        click.Option(["--service-account"], default="", help="ServiceAccount of the pods [KFP's own choice]."),
        click.Option(["--pipeline-root"], default="", help="Where KFP keeps its artifacts [KFP's own choice]."),
    ]


def _shared_options() -> list[click.Option]:
    return [*fixed_options(), *endpoint_options(), *parameters.options(parameters.all_parameters())]


def _submitted(options: dict[str, Any]) -> tuple[Endpoint, dict[str, Any], Place, dict[str, Any]]:
    """The endpoint, the options of what is fixed, the place, and the parameters of file and options together.

    The images' registry is asked last (`take_fixed`): a wrong parameter should not wait for that.
    """
    endpoint = take_endpoint(options)
    fixed_given = {str(option.name): options.pop(option.name) for option in fixed_options()}
    check_fixed(fixed_given)
    place = Place(*(options.pop(name) for name in ("experiment", "service_account", "pipeline_root")))
    parameters.refuse_foreign(options, fixed_given["pipeline"])
    given = parameters.asked(options.pop("params"), options)
    if given.get("resume_run"):
        raise UserError(
            "resume_run is what `run --resume RUN` sets, which also takes that run's parameters and refuses what may "
            "not change: use that."
        )
    return endpoint, fixed_given, place, given
