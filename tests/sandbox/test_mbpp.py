"""Every reference solution of MBPP gets plain execution's verdict, which is: it passes."""

import ast
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.conftest import make_item, post


def item_of(row: dict[str, Any]) -> dict[str, Any]:
    """MBPP's row as an item: the entry point is the function of the program that the tests call."""
    program = row["code"].replace("\r\n", "\n").replace("\r", "\n")
    defined = {node.name for node in ast.parse(program).body if isinstance(node, ast.FunctionDef)}
    called = [
        node.func.id
        for test in row["test_list"]
        for node in ast.walk(ast.parse(test))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in defined
    ]
    setup = row["test_setup_code"].replace("\r\n", "\n")
    return make_item(
        program,
        row["test_list"],
        id=str(row["task_id"]),
        entry_point=called[0],
        setup="import sys" if row["task_id"] == 596 else setup,  # its test relies on what the solution imports
        timeout_s=30.0 if row["task_id"] == 123 else 5.0,  # 3 s of CPU time on an idle machine
    )


def test_all_references_pass(sandbox_url: str) -> None:
    if not os.environ.get("GRPO_MBPP_JSONL"):
        pytest.skip("GRPO_MBPP_JSONL does not name MBPP's 974 problems")
    rows = [json.loads(line) for line in Path(os.environ["GRPO_MBPP_JSONL"]).read_text().splitlines()]
    items = [item_of(row) for row in rows]
    verdicts = []
    for start in range(0, len(items), 256):
        status, answer, _ = post(sandbox_url, {"items": items[start : start + 256]})
        assert status == 200, answer
        verdicts += answer["verdicts"]
    assert len(verdicts) == len(rows) == 974
    assert [verdict for verdict in verdicts if verdict["passed"] is not True] == []
