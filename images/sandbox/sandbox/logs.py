"""The service's log on standard error: lines of text for people, or one JSON object a line for machines.

No line holds the text of a program or a test unless --log-programs asks for it.
"""

import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Literal

Format = Literal["text", "json"]
FORMATS: tuple[Format, ...] = ("text", "json")

log = logging.getLogger("sandbox")


def configure(form: Format) -> None:
    """Write everything from INFO up, uvicorn's own lines included."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def event(level: int, name: str, fields: Mapping[str, Any]) -> None:
    """Log something that happened, with its particulars (anything that JSON can hold)."""
    log.log(level, name, extra={"fields": fields})


class TextLines(logging.Formatter):
    """2026-01-31 12:00:00,000 INFO sandbox: message name=value ..."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """One line, whatever the values hold."""
        fields: dict[str, Any] = getattr(record, "fields", {})
        return super().formatMessage(record) + "".join(f" {name}={json.dumps(fields[name])}" for name in fields)


class JsonLines(logging.Formatter):
    """{"time": ISO 8601 in UTC, "level", "event", ...}, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)
