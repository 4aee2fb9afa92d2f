"""Recurring runs: created with typed parameters, without catch-up and one at a time; listed, switched off, deleted."""

from typing import Any

from cli.compiling import Fixed, compiled
from cli.cron import Cron, spoken
from cli.endpoint import Endpoint
from cli.submit import Place, experiment_id

PAGE = 50


def create(endpoint: Endpoint, fixed: Fixed, parameters: dict[str, Any], place: Place, *, name: str, cron: Cron) -> str:
    """Create a schedule of the pipeline as it is compiled now; returns its id.

    A time that was missed is not made up for, and a run that still works holds the next one back.
    """
    with compiled(fixed) as file, endpoint.spoken():
        made = endpoint.client.create_recurring_run(
            experiment_id=experiment_id(endpoint, place.experiment),
            job_name=name,
            description=f"grpo-code: {cron.words} (UTC)",
            cron_expression=cron.fields,
            max_concurrency=1,
            no_catchup=True,
            enabled=True,
            params=parameters,
            pipeline_package_path=str(file),
            **place.as_options(),
        )
    return str(made.recurring_run_id)


def lines(endpoint: Endpoint) -> list[str]:
    """One line a schedule: its id, whether it is on, its name, and when it fires in words."""
    found: list[Any] = []
    token = ""
    with endpoint.spoken():
        while True:
            page = endpoint.client.list_recurring_runs(
                page_token=token, page_size=PAGE, namespace=endpoint.namespace_of_runs
            )
            found += page.recurring_runs or []
            token = page.next_page_token or ""
            if not token:
                break
    return [f"{one.recurring_run_id}  {_state(one):8}  {one.display_name}  {_when(one)}" for one in found]


def disable(endpoint: Endpoint, schedule_id: str) -> None:
    """Switch a schedule off; a run that it has started goes on."""
    with endpoint.spoken():
        endpoint.client.disable_recurring_run(schedule_id)


def delete(endpoint: Endpoint, schedule_id: str) -> None:
    """Delete a schedule; KFP deletes the workflow of a run that is at work with it."""
    with endpoint.spoken():
        endpoint.client.delete_recurring_run(schedule_id)


def _state(one: Any) -> str:
    return str(one.status or one.mode or "unknown").lower()


def _when(one: Any) -> str:
    trigger = one.trigger
    if trigger is None:
        return "when it is started by hand"
    if trigger.cron_schedule is not None and trigger.cron_schedule.cron:
        return spoken(trigger.cron_schedule.cron)
    if trigger.periodic_schedule is not None:
        return f"every {trigger.periodic_schedule.interval_second} s"
    return "at no time"
