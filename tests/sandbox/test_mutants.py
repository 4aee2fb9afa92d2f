"""Mutants of right solutions get the verdict of plain execution."""

import collections
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox import plain
from tests.sandbox.conftest import make_item, post
from tests.sandbox.mutants import mutants, sample
from tests.sandbox.test_mbpp import item_of

PROBLEMS = Path(__file__).resolve().parents[2] / "demo/problems"
SECONDS = 0.5
BATCH = 128
NEAR = 0.02  # share of mutants that may end so near the limit that only one of the two sees a timeout


def demo_items() -> list[dict[str, Any]]:
    rows = [json.loads(line) for file in sorted(PROBLEMS.glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [item_of(row) for row in rows]


def mutated(items: list[dict[str, Any]], each: int) -> list[dict[str, Any]]:
    """`each` mutants of every item's program."""
    return [
        item | {"program": mutant, "id": f"{item['id']}-{number}", "timeout_s": SECONDS}
        for place, item in enumerate(items)
        for number, mutant in enumerate(sample(item["program"], each, seed=place))
    ]


def verdicts_on(url: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    verdicts: list[dict[str, Any]] = []
    for start in range(0, len(items), BATCH):
        status, answer, _ = post(url, {"items": items[start : start + BATCH]})
        assert status == 200, answer
        verdicts += answer["verdicts"]
    return verdicts


def compare(url: str, items: list[dict[str, Any]], folder: Path, *, least: int) -> None:
    """Judge, execute plainly, and hold one against the other, mutant by mutant."""
    verdicts, expected = verdicts_on(url, items), plain.outcomes(items, str(folder))
    assert len(verdicts) == len(expected) == len(items) >= least
    counts: collections.Counter[str] = collections.Counter()
    different = []
    for item, verdict, outcome in zip(items, verdicts, expected, strict=True):
        if "timeout" in (outcome, verdict["outcome"]) and outcome != verdict["outcome"]:
            counts["near the limit"] += 1
            continue
        counts[outcome] += 1
        if verdict["passed"] != (outcome == "passed"):
            different.append((item["program"], item["tests"], outcome, verdict["outcome"], verdict["detail"]))
    print(dict(counts))
    assert different == []
    assert counts["near the limit"] <= NEAR * len(items)
    assert min(counts["passed"], counts["failed"], counts["error"]) > 0.05 * len(items)


@pytest.mark.slow
def test_mutants_of_the_demo(sandbox_url: str, tmp_path: Path) -> None:
    compare(sandbox_url, mutated(demo_items(), 1), tmp_path, least=300)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_mutants_of_mbpp(sandbox_url: str, tmp_path: Path) -> None:
    if not os.environ.get("GRPO_MBPP_JSONL"):
        pytest.skip("GRPO_MBPP_JSONL does not name MBPP's 974 problems")
    rows = [json.loads(line) for line in Path(os.environ["GRPO_MBPP_JSONL"]).read_text().splitlines()]
    compare(sandbox_url, mutated([item_of(row) for row in rows], 4), tmp_path, least=3500)


def test_mutants_are_of_every_sort() -> None:
    source = "def f(a, b):\n    if a < 1 and b:\n        return [a + 2][0:1]\n    return max(a, b)\n"
    text = "\n".join(mutants(source))
    for sign in (r"a <= 1", r"a < 1 or b", r"a - 2", r"a \+ 3", r"not \(a < 1", r"pass", r"max\(b, a\)", r"\[:1\]",
                 r"return None", r"lambda: "):  # fmt: skip
        assert re.search(sign, text), sign


@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        ("def f(n):\n    return n * n", "passed"),
        ("def f(n):\n    return n", "failed"),
        ("def f(n):\n    assert n < 0", "error"),
        ("def f(n):\n    exit()", "error"),
        ("def f(n):\n    while True: pass", "timeout"),
        ("def f(n):\n    return bytearray(4 << 30)", "memory"),
        ("def f(n)", "syntax"),
        ("import os\nos.abort()", "error"),
    ],
)
def test_plain_execution_tells_outcomes_apart(program: str, outcome: str, tmp_path: Path) -> None:
    item = make_item(program, ["assert f(3) == 9"], timeout_s=0.2)
    assert plain.outcomes([item], str(tmp_path)) == [outcome]
