"""The learnability filter with the demo's model and a real sandbox, and its cache."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from components.filter.learnable import advice, count, learnable
from components.filter.learnable import run as run_filter
from components.shared.errors import UserError
from components.shared.problem import FILTER_COUNTS, KEPT, PROBLEMS, read_problems, training_problems, write_problems
from tests.conftest import ROOT, demo_problems

Filter = Callable[..., Path]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    write_problems(folder / PROBLEMS, demo_problems(60))
    (folder / "prepare/card.html").write_text("<p>card</p>")
    return folder


@pytest.fixture
def filtered(source: Path, tmp_path: Path, local_sandbox: str, store_root: Path) -> Filter:
    """Run the filter step on the demo's parameters with changes; returns the folder that it wrote."""
    torch.set_num_threads(1)
    preset = tomllib.loads((ROOT / "demo/parameters.toml").read_text())
    settings = {
        "model_name": str(ROOT / "demo/model"), "model_revision": "", "precision": "auto", "use_chat_template": False,
        "temperature": 1.0, "top_p": 1.0, "max_completion_length": 48, "filter_samples": 4, "max_train_samples": 100,
        "seed": preset["seed"], "threads": 1, "sandbox_url": "http://127.0.0.1:9", "test_timeout_s": 2.0,
        "infra_limit": 0.02, "code_version": "v1",
    }  # fmt: skip

    def go(name: str = "target", **changes: Any) -> Path:
        run_filter(source, tmp_path / name, **{**settings, **changes})
        return tmp_path / name

    return go


def test_only_what_is_solved_sometimes_is_kept(filtered: Filter, source: Path, store_root: Path) -> None:
    target = filtered()
    counts = json.loads((target / FILTER_COUNTS).read_text())
    kept = read_problems(target / KEPT)
    assert 10 < len(kept) < 60
    assert counts["kept"] == counts["used"] == len(kept)
    assert counts["never_solved"] + counts["always_solved"] + counts["kept"] == counts["candidates"] == 60
    assert sum(counts["by_passes"].values()) == 60
    assert counts["by_passes"]["0"] == counts["never_solved"]
    assert training_problems(target) == kept
    assert read_problems(target / PROBLEMS) == read_problems(source / PROBLEMS)
    assert (target / "prepare/card.html").exists()
    rows = [json.loads(line) for file in sorted(store_root.rglob("*.jsonl")) for line in file.read_text().splitlines()]
    by_id = {row["task_id"]: row for row in rows}
    assert {problem.task_id for problem in kept} == {name for name, row in by_id.items() if 1 <= row["passes"] < 4}
    assert all(sum(one["outcome"] == "passed" for one in row["samples"]) == row["passes"] for row in rows)


def test_the_cap_takes_the_first(filtered: Filter) -> None:
    all_kept = read_problems(filtered("all") / KEPT)
    assert read_problems(filtered("few", max_train_samples=5) / KEPT) == all_kept[:5]


def test_samples_are_reused_as_long_as_nothing_they_depend_on_changes(
    filtered: Filter, source: Path, store_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = read_problems(filtered("first") / KEPT)
    capsys.readouterr()
    assert read_problems(filtered("second") / KEPT) == first
    assert "60 of 60 problems had been sampled before" in capsys.readouterr().out
    for change in ({"temperature": 0.9}, {"filter_samples": 3}, {"seed": 1}, {"code_version": "v2"}):
        filtered("other", **change)
        assert "sampled before" not in capsys.readouterr().out, change
    problems = read_problems(source / PROBLEMS)
    edited = [problems[0].model_copy(update={"tests": problems[0].tests[:2]}), *problems[1:]]
    write_problems(source / PROBLEMS, edited)
    filtered("edited")
    assert "sampled before" not in capsys.readouterr().out


def test_an_interrupted_pass_goes_on_where_it_stopped(
    filtered: Filter, store_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = read_problems(filtered("whole") / KEPT)
    last_part = sorted(store_root.rglob("*.jsonl"))[-1]
    last_part.unlink()
    capsys.readouterr()
    assert read_problems(filtered("again") / KEPT) == whole
    assert "50 of 60 problems had been sampled before" in capsys.readouterr().out


def test_nothing_kept_stops_with_advice_and_leaves_nothing_half_written(filtered: Filter, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"kept none of 60 problems.*raise max_completion_length"):
        filtered(max_completion_length=2)
    assert not (tmp_path / "target").exists()


def row(passes: int, judged: int = 4, truncated: int = 0) -> dict[str, Any]:
    return {"passes": passes, "judged": judged, "tokens": 10, "truncated": truncated}


def test_the_rule_counts_judged_samples_only() -> None:
    assert [learnable(row(passes)) for passes in range(5)] == [False, True, True, True, False]
    assert not learnable(row(2, judged=2))  # what could not be judged is no failure
    assert not learnable(row(0, judged=0))


@pytest.mark.parametrize(
    ("rows", "remedy"),
    [
        ([row(0), row(0), row(4)], "a stronger base model"),
        ([row(4), row(4), row(0)], "harder problems"),
        ([row(0, truncated=3), row(0, truncated=4)], "max_completion_length"),
    ],
)
def test_the_advice_fits_the_reason(rows: list[dict[str, Any]], remedy: str) -> None:
    assert remedy in advice(count(rows, kept=0, chosen=0, samples=4))
