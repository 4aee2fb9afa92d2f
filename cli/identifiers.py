"""Ids on the command line: of runs and schedules, which become parts of addresses, keys and labels."""

from typing import Any

import click

from components.shared.errors import UserError
from components.shared.run import RUN_ID, check_run_id


class RunId(click.ParamType[str]):
    """A run's id."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return check_run_id(str(value), _named(param))


class RunIdOrLatest(RunId):
    """A run's id, or `latest`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value if value == "latest" else super().convert(value, param, ctx)


class ScheduleId(click.ParamType[str]):
    """A schedule's id."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not RUN_ID.fullmatch(str(value)):
            raise UserError(f"SCHEDULE {value!r} is no schedule's id: `python pipeline.py schedule list` shows them.")
        return str(value)


def _named(param: click.Parameter | None) -> str:
    """What the user called it: the option, or the argument as the help writes it."""
    if isinstance(param, click.Option):
        return param.opts[0]
    return param.human_readable_name if param else "RUN"
