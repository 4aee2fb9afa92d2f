"""Reference solutions of MBPP, full and sanitized, get plain execution's verdict, which is: they pass."""

import ast
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox import plain
from tests.sandbox.conftest import make_item, post

SLOWEST = 123  # its reference takes 2 to 5 s of CPU time, by machine and load
SANITIZED = "sanitized-mbpp.json"  # beside the full file


def mbpp_file() -> Path:
    """The full MBPP; skips where there is none."""
    if not os.environ.get("GRPO_MBPP_JSONL"):
        pytest.skip("GRPO_MBPP_JSONL does not name MBPP's 974 problems")
    return Path(os.environ["GRPO_MBPP_JSONL"])


def item_of(row: dict[str, Any]) -> dict[str, Any]:
    """A row of either as an item: the entry point is the function of the program that the tests call."""
    program = row["code"].replace("\r\n", "\n").replace("\r", "\n")
    defined = {node.name for node in ast.parse(program).body if isinstance(node, ast.FunctionDef)}
    called = [
        node.func.id
        for test in row["test_list"]
        for node in ast.walk(ast.parse(test))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in defined
    ]
    setup = row.get("test_setup_code", "").replace("\r\n", "\n") + "\n".join(row.get("test_imports", []))
    return make_item(
        program,
        row["test_list"],
        id=str(row["task_id"]),
        entry_point=called[0],
        setup="import sys" if row["task_id"] == 596 else setup,  # its test relies on what the solution imports
        timeout_s=30.0 if row["task_id"] == SLOWEST else 5.0,
    )


def verdicts_on(url: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    verdicts: list[dict[str, Any]] = []
    for start in range(0, len(items), 256):
        status, answer, _ = post(url, {"items": items[start : start + 256]})
        assert status == 200, answer
        verdicts += answer["verdicts"]
    return verdicts


def test_all_references_pass(sandbox_url: str) -> None:
    items = [item_of(json.loads(line)) for line in mbpp_file().read_text().splitlines()]
    verdicts = verdicts_on(sandbox_url, items)
    assert len(verdicts) == len(items) == 974
    assert [verdict for verdict in verdicts if verdict["passed"] is not True] == []


@pytest.mark.slow
def test_sanitized_references_are_judged_as_plain_execution_does(sandbox_url: str, tmp_path: Path) -> None:
    """Its tests use set(f()), math.isclose, bare assertions and `not f()`, which the full file's do not."""
    file = mbpp_file().with_name(SANITIZED)
    if not file.exists():
        pytest.skip(f"there is no {SANITIZED} beside the full file")
    items = [item_of(row) for row in json.loads(file.read_text())]
    verdicts, expected = verdicts_on(sandbox_url, items), plain.outcomes(items, str(tmp_path))
    assert len(verdicts) == len(items) == 427
    judged = {verdict["id"]: verdict["outcome"] for verdict in verdicts}
    assert judged == dict(zip(judged, expected, strict=True))
    assert list(judged.values()).count("passed") > 420
