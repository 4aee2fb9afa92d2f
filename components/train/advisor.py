"""What goes wrong in a run, why it most likely does, and which parameter to change: for the log and the report."""

from collections.abc import Iterator, Mapping
from typing import Any

from components.train.symptoms import RULES, WINDOW, Advice, Rows


def advise(metrics: Rows, given: Mapping[str, Any]) -> list[Advice]:
    """What to say after these steps, the gravest first; nothing before half a window has been seen.

    metrics: rows of metrics.jsonl; given: the step's parameters.
    """
    window = metrics[-WINDOW:]
    if len(window) < WINDOW // 2:
        return []
    found = (check(metrics, window, given) for check in RULES)
    return [advice for advice in found if advice is not None]


class Advisor:
    """Tells each piece of advice once, and again when its symptom had gone away for a whole window."""

    def __init__(self) -> None:
        self.told: dict[str, int] = {}

    def news(self, metrics: Rows, given: Mapping[str, Any]) -> Iterator[Advice]:
        """What has not been told lately."""
        step = len(metrics)
        for advice in advise(metrics, given):
            last = self.told.get(advice.name)
            self.told[advice.name] = step
            if last is None or step - last > WINDOW:
                yield advice
