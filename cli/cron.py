"""Cron expressions as Kubeflow Pipelines reads them: six fields, seconds first. Cron's own five are told apart.

KFP takes five fields, too, and reads them as second minute hour day month: "0 3 * * *" would start a run three minutes
past every hour. So five fields get their seconds here, and everything is echoed in words and times.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from components.shared.errors import UserError

EXAMPLES = '"0 3 * * *" is daily at 03:00, "30 6 * * 1-5" on workdays at 06:30'
TIMES_SHOWN = 3
# What KFP's parser (robfig/cron, version 1) knows: no L, W or #, and Sunday is 0 alone.
FIELD = re.compile(r"[0-9A-Za-z*/,?-]+")
NAMES = re.compile(r"(?:JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT)", re.IGNORECASE)


@dataclass(frozen=True)
class Cron:
    """A schedule. fields: six, as KFP wants them. times: when it will fire next, in UTC."""

    fields: str
    words: str
    times: tuple[datetime, ...]


def parse_cron(text: str, now: datetime | None = None) -> Cron:
    """A cron expression of five or six fields; UserError for what is none, never fires, or can be read in two ways."""
    given = text.split()
    if len(given) not in (5, 6):
        raise UserError(
            f"--cron {text!r} has {len(given)} fields: five are cron's own, six have seconds first; {EXAMPLES}."
        )
    fields = [field.replace("?", "*") for field in (given if len(given) == 6 else ["0", *given])]
    _check(text, fields, six=len(given) == 6)
    try:
        # cronsim knows times to the minute in five fields, to the second in six.
        moments = CronSim(" ".join(fields), now or datetime.now(UTC))
        words = moments.explain()
        times = tuple(next(moments) for _ in range(TIMES_SHOWN))
    except CronSimError as error:
        raise UserError(f"--cron {text!r} is no cron expression ({str(error).lower()}): {EXAMPLES}.") from None
    except StopIteration:
        raise UserError(f"--cron {text!r} never fires: there is no such day; {EXAMPLES}.") from None
    return Cron(" ".join(fields), words, times)


def spoken(fields: str) -> str:
    """What a schedule that KFP holds says in words; its own text where it is in a form that is not understood."""
    try:
        return parse_cron(fields if len(fields.split()) == 6 else f"{fields} *").words
    except UserError:
        return fields


def _check(text: str, fields: list[str], *, six: bool) -> None:
    second, _, _, day, _, weekday = fields
    for field in fields:
        if not FIELD.fullmatch(field) or re.search(r"[A-Za-z]", NAMES.sub("", field)):
            raise UserError(f"--cron {text!r}: KFP does not know {field!r}; {EXAMPLES}.")
    if six and not second.isdigit():
        raise UserError(
            f"--cron {text!r} would start more than one run a minute: in six fields the first is the second, so "
            "write 0 there, or five fields."
        )
    if re.search(r"\b7\b", weekday):
        raise UserError(f"--cron {text!r}: KFP does not know 7 as a day of the week: write 0 or SUN for Sunday.")
    if not day.startswith("*") and not weekday.startswith("*"):
        raise UserError(
            f"--cron {text!r} names days of the month and of the week, of which cron takes either: make a schedule for "
            "each."
        )
