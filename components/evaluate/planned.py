"""What an evaluation of this size can show, said before anything is sampled: too small a one is known at once."""

import json
import math
from pathlib import Path
from typing import Any

from components.shared.pages import points
from components.shared.problem import FILTER_COUNTS
from components.shared.statistics import (
    LARGEST_VARIANCE,
    TYPICAL_SPREAD,
    TYPICAL_VARIANCE,
    minimum_detectable,
    planned_standard_error,
    t_quantile,
)

FILTER, ASSUMED = "filter", "assumed"


def planned(problems: Path, count: int, samples: int) -> dict[str, Any]:
    """The content of `planned` in evaluation.json: the difference that `count` problems can show, a fraction.

    problems: the problem set's folder; where the filter ran, its estimate of a sample's variance is taken, for the
    candidates and these problems are of one kind. `at_most` is for the pass rate at which samples vary most, one half.
    `half_width_alone` is the widest half of an interval that one model's pass@1 can have.
    """
    known = _filters_variance(problems)
    variance = TYPICAL_VARIANCE if known is None else known
    typical = planned_standard_error(count, samples, variance=variance, spread=TYPICAL_SPREAD)
    largest = planned_standard_error(count, samples, variance=LARGEST_VARIANCE, spread=TYPICAL_SPREAD)
    return {
        "minimum_detectable": minimum_detectable(typical),
        "at_most": minimum_detectable(largest),
        "sample_variance": variance,
        "from": ASSUMED if known is None else FILTER,
        "half_width_alone": _widest_half(count),
    }


def sentence(plan: dict[str, Any], *, count: int, samples: int, alone: bool) -> str:
    """The plan as a line of the log."""
    if alone:
        width = points(plan["half_width_alone"]).removeprefix("+")
        return f"{count} problems with {samples} samples each: pass@1 will be known to within {width} or better"
    size, most = (points(plan[name]).removeprefix("+") for name in ("minimum_detectable", "at_most"))
    source = "the filter's pass rates" if plan["from"] == FILTER else "pass rates as usual"
    return (
        f"{count} problems with {samples} samples of each model can show a difference of {size}, given {source} "
        f"(80 % power at the 5 % level; {most} at pass rates of one half)"
    )


def _widest_half(count: int) -> float:
    """Half of the 95 % interval where one half of the problems always passes and the other never."""
    if count < 2:
        return 1.0
    return min(1.0, t_quantile(0.975, count - 1) * math.sqrt(LARGEST_VARIANCE / (count - 1)))


def _filters_variance(problems: Path) -> float | None:
    try:
        value = json.loads((problems / FILTER_COUNTS).read_text())["sample_variance"]
    except (OSError, ValueError, KeyError):  # no filter, or none that could estimate it
        return None
    return None if value is None else float(value)
