"""Rows in MBPP's two schemas that the tests of prepare share, and a way to write them."""

import json
from pathlib import Path
from typing import Any


def full_row(task_id: int, **fields: Any) -> dict[str, Any]:
    """A row of the full schema: a function `add_<task_id>` that adds its own number."""
    return {
        "task_id": task_id,
        "text": f"Write a function to add {task_id}.",
        "code": f"def add_{task_id}(x):\r\n\treturn x + {task_id}",
        "test_list": [f"assert add_{task_id}({x}) == {x + task_id}" for x in (0, 5, -3)],
        "test_setup_code": "",
        "challenge_test_list": [],
        **fields,
    }


def sanitized_row(task_id: int, **fields: Any) -> dict[str, Any]:
    """A row of the sanitized schema."""
    return {
        "source_file": "Benchmark Questions Verification V2.ipynb",
        "task_id": task_id,
        "prompt": f"Write a function to halve a number and add {task_id}.",
        "code": f"def half_{task_id}(x):\n    return x / 2 + {task_id}",
        "test_imports": ["import math"],
        "test_list": [f"assert math.isclose(half_{task_id}({x}), {x / 2 + task_id})" for x in (3, 8)],
        **fields,
    }


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    """One JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_hub_copy(folder: Path, config: str, splits: dict[str, list[dict[str, Any]]]) -> Path:
    """A directory laid out as the hub's MBPP: <config>/<split>-00000-of-00001.parquet and a README that says so."""
    import pyarrow
    import pyarrow.parquet

    (folder / config).mkdir(parents=True)
    header = ["---", "configs:", f"- config_name: {config}", "  data_files:"]
    for split, rows in splits.items():
        pyarrow.parquet.write_table(
            pyarrow.Table.from_pylist(rows), folder / config / f"{split}-00000-of-00001.parquet"
        )
        header += [f"  - split: {split}", f"    path: {config}/{split}-*"]
    (folder / "README.md").write_text("\n".join([*header, "---", ""]), encoding="utf-8")
    return folder
