"""The learnability filter with the demo's model and a real sandbox, and what it leaves for later runs."""

import json
import math
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from components.filter import cache, policy
from components.filter.cache import Sample
from components.filter.learnable import advice, count, learnable, outlook, shortage
from components.filter.learnable import run as run_filter
from components.shared import kept
from components.shared.batches import sample
from components.shared.errors import UserError
from components.shared.models import load_adapter, load_model, load_tokenizer
from components.shared.problem import FILTER_COUNTS, KEPT, PROBLEMS, read_problems, training_problems, write_problems
from components.shared.sampling import Sampling
from components.shared.sandbox import SandboxClient
from components.shared.store import open_store, upload_folder
from components.shared.trained import pinned
from tests.conftest import ROOT, demo_problems
from tests.evaluate.trained import with_adapter

Filter = Callable[..., Path]
DRAWN_BEFORE = "of them drawn by runs before"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    write_problems(folder / PROBLEMS, demo_problems(60))
    (folder / "prepare/card.html").write_text("<p>card</p>")
    return folder


@pytest.fixture
def settings() -> dict[str, Any]:
    """The step's parameters for the demo."""
    preset = tomllib.loads((ROOT / "demo/parameters.toml").read_text())
    return {
        "model_name": str(ROOT / "demo/model"), "model_revision": "", "init_adapter": "", "method": "lora",
        "precision": "auto", "use_chat_template": False,
        "temperature": 1.0, "top_p": 1.0, "max_completion_length": 48, "filter_samples": 4, "filter_all_samples": False,
        "max_train_samples": 100, "num_generations": 8, "batch_size": 32, "seed": preset["seed"], "threads": 1,
        "sandbox_url": "http://127.0.0.1:9", "test_timeout_s": 2.0, "infra_limit": 0.02, "code_version": "v1",
    }  # fmt: skip


@pytest.fixture
def filtered(source: Path, settings: dict[str, Any], tmp_path: Path, local_sandbox: str, store_root: Path) -> Filter:
    """Run the filter step on the demo's parameters with changes; returns the folder that it wrote."""
    torch.set_num_threads(1)

    def go(name: str = "target", **changes: Any) -> Path:
        run_filter(source, tmp_path / name, **{**settings, **changes})
        return tmp_path / name

    return go


def counts_of(target: Path) -> dict[str, Any]:
    return dict(json.loads((target / FILTER_COUNTS).read_text()))


def stored(store_root: Path) -> list[dict[str, Any]]:
    """The rows of the cache."""
    files = sorted((store_root / "cache").rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_only_what_is_solved_sometimes_is_kept(
    filtered: Filter, source: Path, store_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = filtered()
    counts, kept = counts_of(target), read_problems(target / KEPT)
    assert 10 < len(kept) < 60
    assert counts["kept"] == counts["used"] == len(kept)
    assert counts["never_solved"] + counts["always_solved"] + counts["kept"] == counts["candidates"] == 60
    assert counts["by_passes"]["0"] == counts["never_solved"]
    table = counts["drawn_and_passed"]
    assert sum(row["problems"] for row in table) == sum(counts["by_passes"].values()) == 60
    assert sum(row["problems"] for row in table if 0 < row["passes"] < row["samples"]) == len(kept)
    assert training_problems(target) == kept
    assert read_problems(target / PROBLEMS) == read_problems(source / PROBLEMS)
    assert (target / "prepare/card.html").exists()
    rows = stored(store_root)
    assert counts["samples"] == len(rows) == sum(row["problems"] * row["samples"] for row in table)
    assert counts["tokens"] == sum(row["sample"]["tokens"] for row in rows)
    assert all(row["sample"]["passed"] == (row["sample"]["outcome"] == "passed") for row in rows)
    said = capsys.readouterr().out
    assert f"filter: kept {len(kept)} of 60 problems; " in said
    assert f"{counts['samples']} samples of {counts['tokens']} tokens in all" in said
    assert "of 240 were not needed" in said
    assert f"filter: problems by passes/samples: 0/4 {counts['never_solved']}" not in said  # fewer samples come first
    assert f"0/4 {counts['never_solved']}" in said
    assert "estimated pass rate" in said


@pytest.mark.slow
def test_stopping_early_keeps_what_all_samples_keep_and_draws_next_to_nothing_in_vain(
    filtered: Filter, store_root: Path
) -> None:
    """The same seeds drawn in full, and 16 samples a problem as the measure of its pass rate."""
    stopped = counts_of(filtered("stopped"))
    kept = read_problems(filtered("stopped again") / KEPT)
    whole = filtered("whole", filter_all_samples=True)
    assert read_problems(whole / KEPT) == kept
    assert counts_of(whole)["samples"] == 240
    assert counts_of(whole)["reused"] == stopped["samples"]
    measured = counts_of(filtered("measured", filter_all_samples=True, filter_samples=16))
    # The chance that n samples do not decide, without bias from s passes of 16: (C(s, n) + C(16 - s, n)) / C(16, n).
    best = sum(
        row["problems"]
        * sum(
            (math.comb(row["passes"], n) + math.comb(16 - row["passes"], n)) / math.comb(16, n) if n else 1.0
            for n in range(4)
        )
        for row in measured["drawn_and_passed"]
    )
    assert stopped["samples"] <= 1.05 * best
    assert stopped["saved"] == pytest.approx(1 - stopped["samples"] / 240)
    low, high = stopped["pass_rate"]["ci95"]
    assert low < sum(row["problems"] * row["passes"] for row in measured["drawn_and_passed"]) / (60 * 16) < high
    assert stopped["expected_samples"] * 60 == pytest.approx(stopped["samples"], rel=0.05)


@pytest.mark.slow
def test_where_rounding_follows_the_batch_size_its_effect_is_measured(
    filtered: Filter, capsys: pytest.CaptureFixture[str]
) -> None:
    effect = counts_of(filtered(precision="bf16"))["batch_effect"]
    assert (effect["completions"], effect["batch_sizes"]) == (16, [120, 16])
    assert effect["share"] == effect["changed"] / 16
    assert f"filter: {effect['changed']} of 16 completions change between batches of 120 and of 16" in (
        capsys.readouterr().out
    )
    assert counts_of(filtered("exact"))["batch_effect"] is None


def test_the_cap_takes_the_first(filtered: Filter) -> None:
    all_kept = read_problems(filtered("all") / KEPT)
    assert read_problems(filtered("few", max_train_samples=5) / KEPT) == all_kept[:5]


def test_samples_are_reused_as_long_as_nothing_they_depend_on_changes(
    filtered: Filter, source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = counts_of(filtered("first"))
    assert first["reused"] == 0
    capsys.readouterr()
    monkeypatch.setattr(policy, "load_base", None)  # nothing is drawn, so no model is loaded
    again = counts_of(filtered("again", code_version="v2", num_generations=4, max_train_samples=3, infra_limit=0.5))
    assert again["reused"] == again["samples"] == first["samples"]
    assert f"{first['samples']} {DRAWN_BEFORE}" in capsys.readouterr().out
    unlike = ("seconds", "reused", "used", "usable_groups")
    assert {k: v for k, v in again.items() if k not in unlike} == {k: v for k, v in first.items() if k not in unlike}
    write_problems(source / PROBLEMS, read_problems(source / PROBLEMS)[20:50][::-1])
    assert counts_of(filtered("some"))["reused"] > 60
    assert counts_of(filtered("fewer", filter_samples=3))["reused"] > 60


def test_what_overlaps_is_reused_and_the_rest_is_drawn(filtered: Filter, source: Path, store_root: Path) -> None:
    first = counts_of(filtered("first"))
    by_problem = Counter(row["problem"] for row in stored(store_root))
    more = counts_of(filtered("more", filter_samples=6))
    assert more["reused"] == first["samples"] < more["samples"]
    problems = read_problems(source / PROBLEMS)
    edited = problems[0].model_copy(update={"tests": problems[0].tests[:2]})
    noted = problems[1].model_copy(update={"reference_cpu_ms": 3.0, "hidden_tests": ["assert True"]})
    write_problems(source / PROBLEMS, [edited, noted, *problems[2:], *demo_problems(70)[60:]])
    assert counts_of(filtered("grown"))["reused"] == first["samples"] - by_problem[cache.digest_of_problem(problems[0])]


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.9}, {"top_p": 0.9}, {"max_completion_length": 47}, {"use_chat_template": True}, {"seed": 1},
        {"model_name": "other"}, {"model_revision": "abc"}, {"precision": "bf16"}, {"test_timeout_s": 3.0},
        {"method": "qlora"},
    ],
)  # fmt: skip
def test_what_samples_depend_on_is_in_the_key(settings: dict[str, Any], change: dict[str, Any]) -> None:
    assert cache.context_key({**settings, **change}, "judge", None) != cache.context_key(settings, "judge", None)


def test_the_judge_and_the_code_are_in_the_key(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.context_key(settings, "judge", None)
    assert cache.context_key(settings, "another judge", None) != before
    assert cache.context_key({**settings, "precision": "fp32"}, "judge", None) == before  # what auto is on a CPU
    monkeypatch.setattr(kept, "CODE", kept.CODE[:-1])
    assert cache.context_key(settings, "judge", None) != before


def test_with_an_adapter_samples_are_those_of_the_policy_that_training_starts_from(
    filtered: Filter, source: Path, settings: dict[str, Any], tmp_path: Path, store_root: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """An adapter that moves the demo's model a little, found in the store as on a cluster; drawn without merging."""
    torch.manual_seed(0)  # of the half of the adapter that is drawn
    upload_folder(open_store(), "runs/before/train", with_adapter(tmp_path / "moved", scale=0.05))
    weights = store_root / "runs/before/train/adapter"
    problems = read_problems(source / PROBLEMS)[:24]
    write_problems(source / PROBLEMS, problems)
    of_base = read_problems(filtered("base") / KEPT)
    of_policy = filtered("policy", init_adapter="runs/before")
    assert "filter: draws from what training starts from: the base with the adapter runs/before" in (
        capsys.readouterr().out
    )
    assert counts_of(of_policy)["init_adapter"] == "runs/before"
    assert counts_of(of_policy)["reused"] == 0, "no sample of the base is taken for one of the policy"
    assert read_problems(of_policy / KEPT) != of_base
    tokenizer = load_tokenizer(settings["model_name"], "", use_chat_template=False)
    moved = load_adapter(load_model(settings["model_name"], "", torch.float32), weights)
    expected = sample(moved, tokenizer, problems, Sampling.from_parameters(settings), samples=2, seed=settings["seed"])
    key = cache.context_key(settings, SandboxClient.from_setting("").version(), weights)
    samples = cache.Cache(open_store(), key).read(problems)
    for problem, drawn in zip(problems, expected, strict=True):
        found = samples[cache.digest_of_problem(problem)]
        assert [found[number].completion for number in range(2)] == [one.text for one in drawn]
    again = counts_of(filtered("again", init_adapter=pinned(str(weights.parent))))
    assert again["reused"] == again["samples"], "the same weights, wherever they lie"
    with (weights / "adapter_model.safetensors").open("ab") as file:
        file.write(b" ")
    assert cache.context_key(settings, SandboxClient.from_setting("").version(), weights) != key
    with pytest.raises(UserError, match=r"was trained on '.*model', not on model_name 'other'"):
        filtered("other", init_adapter="runs/before", model_name="other")


def test_a_damaged_object_of_the_cache_is_left_out(
    filtered: Filter, store_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = read_problems(filtered("first") / KEPT)
    part = max((store_root / "cache").rglob("*.jsonl"), key=lambda file: file.stat().st_size)
    lines = part.read_text().splitlines(keepends=True)
    part.write_text("".join(lines[:50]) + lines[50][:20])
    capsys.readouterr()
    target = filtered("again")
    assert read_problems(target / KEPT) == first
    assert counts_of(target)["reused"] > 30
    assert f"warning: {part} cannot be read" in capsys.readouterr().out


KILLED = """
import json, os, signal, sys
from pathlib import Path
from components.filter import cache
from components.filter.learnable import run
from components.shared import batches

batches.rows_at_once = lambda model: 16
write, written = cache.Cache.write, []

def write_or_die(self, rows):
    if len(written) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    written.append(0)
    write(self, rows)

cache.Cache.write = write_or_die
run(Path(sys.argv[1]), Path(sys.argv[2]), **json.loads(sys.argv[3]))
"""


@pytest.mark.slow
def test_a_filter_that_is_killed_loses_one_batch(
    filtered: Filter, source: Path, settings: dict[str, Any], tmp_path: Path, store_root: Path
) -> None:
    """Killed by SIGKILL when its fifth batch of 16 has been judged and is about to be stored."""
    command = [sys.executable, "-c", KILLED, str(source), str(tmp_path / "killed"), json.dumps(settings)]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "killed").exists()
    assert len(stored(store_root)) == 4 * 16
    resumed = filtered("resumed")
    assert counts_of(resumed)["reused"] == 4 * 16
    for file in (store_root / "cache").rglob("*.jsonl"):
        file.unlink()
    unbroken = filtered("unbroken")
    assert counts_of(unbroken)["reused"] == 0
    assert read_problems(resumed / KEPT) == read_problems(unbroken / KEPT)
    assert counts_of(resumed)["drawn_and_passed"] == counts_of(unbroken)["drawn_and_passed"]


def test_nothing_kept_stops_with_advice_and_leaves_nothing_half_written(filtered: Filter, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"kept none of 60 problems.*raise max_completion_length"):
        filtered(max_completion_length=2)
    assert not (tmp_path / "target").exists()


def test_too_few_for_a_step_are_warned_of(filtered: Filter, capsys: pytest.CaptureFixture[str]) -> None:
    filtered(max_train_samples=3)
    assert (
        "filter: warning: 3 problems do not fill an optimiser step of 4 prompts (batch_size 32 / num_generations 8): "
        "raise max_train_samples, or lower batch_size to 24" in capsys.readouterr().out
    )
    given = {"batch_size": 32, "num_generations": 8}
    assert shortage({"used": 4, "kept": 4}, given) == []
    (said,) = shortage({"used": 2, "kept": 2}, given)
    assert "raise max_candidate_samples or filter_samples, or lower batch_size to 16" in said


def samples(passes: int, judged: int = 4, *, lost: int = 0, truncated: int = 0) -> list[Sample]:
    passed: Iterable[bool | None] = [True] * passes + [False] * (judged - passes) + [None] * lost
    return [Sample("", "", one, tokens=10, truncated=place < truncated) for place, one in enumerate(passed)]


def test_the_rule_counts_judged_samples_only() -> None:
    assert [learnable(samples(passes)) for passes in range(5)] == [False, True, True, True, False]
    assert not learnable(samples(2, judged=2, lost=2))  # what could not be judged is no failure
    assert not learnable(samples(0, judged=0, lost=4))
    counts = count([samples(0, 0, lost=4), samples(2, 2, lost=2), samples(1, 2)], kept=1, chosen=1, most=4)
    assert (counts["unjudged"], counts["always_solved"], counts["never_solved"]) == (1, 1, 1)
    assert counts["samples"] == 10
    nothing = {"pass_rate": None, "usable_groups": {"num_generations": 8, "candidates": None, "kept": None}}
    assert "no sample could be judged" in outlook(nothing)


@pytest.mark.parametrize(
    ("drawn", "remedy"),
    [
        ([samples(0), samples(0), samples(4)], "a stronger base model"),
        ([samples(4), samples(4), samples(0)], "harder problems"),
        ([samples(0, truncated=3), samples(0, truncated=4)], "max_completion_length"),
    ],
)
def test_the_advice_fits_the_reason(drawn: list[list[Sample]], remedy: str) -> None:
    assert remedy in advice(count(drawn, kept=0, chosen=0, most=4))
