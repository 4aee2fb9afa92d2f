"""Small real things that many tests need."""

from typing import Any

from components.shared.problem import Problem


def make_problem(task_id: str = "1", **changes: Any) -> Problem:
    """A problem `double`, with any field changed."""
    fields: dict[str, Any] = {
        "task_id": task_id,
        "source": "test",
        "split": "train",
        "prompt": "Double it.\n\ndef double(x):",
        "entry_point": "double",
        "prelude": "",
        "setup": "",
        "tests": ["assert double(2) == 4", "assert double(0) == 0"],
        "hidden_tests": [],
        "reference": "def double(x):\n    return 2 * x\n",
        "reference_cpu_ms": None,
    }
    return Problem.model_validate({**fields, **changes})
