"""The whole step at a real sandbox: what it draws, quarantines and writes, and that a failure leaves nothing."""

import json
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.prepare.prepare import run
from components.prepare.splits import drawn
from components.shared.errors import UserError
from components.shared.problem import (
    CARD,
    HELDOUT,
    PROBLEMS,
    QUARANTINED,
    REGRESSION,
    VALIDATION,
    Problem,
    read_problems,
)
from tests.conftest import ROOT
from tests.prepare.examples import full_row, sanitized_row, write_jsonl

DEFAULTS: dict[str, Any] = {
    "dataset_revision": "",
    "candidate_splits": "train,validation,prompt",
    "max_candidate_samples": 6,
    "max_eval_samples": 4,
    "hidden_tests": 4,
    "regression_dataset": "",
    "regression_revision": "",
    "seed": 42,
    "test_timeout_s": 5.0,
    "infra_limit": 0.0,
}


@pytest.fixture
def own_data(tmp_path: Path) -> Path:
    """A directory of 10 training, 4 validation and 6 test rows, of both schemas."""
    write_jsonl(tmp_path / "own/train.jsonl", [full_row(n) for n in range(1, 11)])
    write_jsonl(tmp_path / "own/validation.jsonl", [full_row(n) for n in range(11, 15)])
    write_jsonl(tmp_path / "own/test.jsonl", [sanitized_row(n) for n in range(21, 27)])
    return tmp_path / "own"


class Written:
    """What a run of the step left in a folder."""

    def __init__(self, folder: Path) -> None:
        self.problems, self.heldout = read_problems(folder / PROBLEMS), read_problems(folder / HELDOUT)
        self.validation = read_problems(folder / VALIDATION)
        self.quarantined = [json.loads(line) for line in (folder / QUARANTINED).read_text().splitlines()]
        self.counts = json.loads((folder / "prepare/counts.json").read_text())
        self.card = (folder / CARD).read_text()


def prepare(folder: Path, data: Path, sandbox_url: str, **given: Any) -> Written:
    run(folder, folder.with_suffix(".html"), dataset=str(data), sandbox_url=sandbox_url, **{**DEFAULTS, **given})
    written = Written(folder)
    assert folder.with_suffix(".html").read_text() == written.card
    return written


def ids(problems: list[Problem]) -> list[str]:
    return [problem.task_id for problem in problems]


def test_problems_are_drawn_by_split_and_timed(tmp_path: Path, own_data: Path, sandbox_url: str) -> None:
    written = prepare(tmp_path / "out", own_data, sandbox_url)
    assert (len(written.problems), len(written.heldout)) == (6, 4)
    assert {problem.split for problem in written.heldout} == {"test"}
    assert {problem.split for problem in written.problems} <= {"train", "validation"}
    unused = {"11", "12", "13", "14"} - set(ids(written.problems))
    assert set(ids(written.validation)) == unused
    assert not set(ids(written.problems)) & set(ids(written.heldout))
    for problem in written.problems + written.heldout + written.validation:
        assert problem.source == "own"
        assert problem.reference_cpu_ms is not None
        assert 0 < problem.reference_cpu_ms < 5000
    assert written.quarantined == []
    assert written.counts["splits"] == {"train": 10, "validation": 4, "test": 6}
    assert written.counts["warnings"] == []
    assert written.counts["dataset_digest"].startswith("sha256:")


def test_where_nothing_is_trained_on_all_rows_without_a_split_are_held_out(tmp_path: Path, sandbox_url: str) -> None:
    data = tmp_path / "unsorted.jsonl"
    write_jsonl(data, [sanitized_row(n) for n in range(21, 27)])
    written = prepare(tmp_path / "out", data, sandbox_url, max_candidate_samples=0, max_eval_samples=6)
    assert (len(written.heldout), written.problems, written.validation) == (6, [], [])
    assert written.counts["warnings"] == []
    assert "0 problems to train on, 6 held out" in written.card


def test_where_nothing_is_trained_on_a_split_that_is_named_still_holds(
    tmp_path: Path, own_data: Path, sandbox_url: str
) -> None:
    written = prepare(tmp_path / "out", own_data, sandbox_url, max_candidate_samples=0, max_eval_samples=10)
    assert {problem.split for problem in written.heldout} == {"test"}
    assert len(written.heldout) == 6
    assert any("max_eval_samples asks for 10" in warning for warning in written.counts["warnings"])


def test_a_seed_draws_the_same_again_and_fewer_are_the_first_of_more(
    tmp_path: Path, own_data: Path, sandbox_url: str
) -> None:
    first, again, fewer, other = (
        prepare(tmp_path / name, own_data, sandbox_url, **given)
        for name, given in (
            ("first", {}),
            ("again", {}),
            ("fewer", {"max_candidate_samples": 3, "max_eval_samples": 2}),
            ("other", {"seed": 7}),
        )
    )
    assert (ids(first.problems), ids(first.heldout)) == (ids(again.problems), ids(again.heldout))
    assert (ids(fewer.problems), ids(fewer.heldout)) == (ids(first.problems)[:3], ids(first.heldout)[:2])
    assert (ids(other.problems), ids(other.heldout)) != (ids(first.problems), ids(first.heldout))


def test_asking_for_more_than_there_is_is_a_recorded_warning(
    tmp_path: Path, own_data: Path, sandbox_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    written = prepare(tmp_path / "out", own_data, sandbox_url, max_candidate_samples=300, max_eval_samples=50)
    assert (len(written.problems), len(written.heldout), len(written.validation)) == (14, 6, 0)
    eval_warning, candidate_warning = written.counts["warnings"]
    assert eval_warning == "max_eval_samples asks for 50 problems, split test could give 6: all 6 are used."
    assert "max_candidate_samples asks for 300 problems" in candidate_warning
    assert "could give 14: all 14 are used" in candidate_warning
    assert f"prepare: warning: {eval_warning}" in capsys.readouterr().out
    assert eval_warning in written.card


def test_all_adds_the_rest_of_test_and_says_so(tmp_path: Path, own_data: Path, sandbox_url: str) -> None:
    written = prepare(tmp_path / "out", own_data, sandbox_url, candidate_splits="all", max_candidate_samples=16)
    assert Counter(problem.split for problem in written.problems) == {"train": 10, "validation": 4, "test": 2}
    assert not set(ids(written.problems)) & set(ids(written.heldout))
    assert any("not comparable with published MBPP figures" in warning for warning in written.counts["warnings"])


SEED_THAT_DRAWS_2_FIRST = next(
    seed
    for seed in range(100)
    if drawn([SimpleNamespace(task_id=str(n)) for n in range(1, 5)], seed, purpose="candidates")[0].task_id == "2"
)
BROKEN: dict[str, dict[str, Any]] = {
    "failed in test 2": {"test_list": ["assert add_2(0) == 2", "assert add_2(1) == 4", "assert add_2(2) == 4"]},
    "error in test 1": {"code": "def add_2(x):\n    return y"},
    "failed in challenge test 1": {"challenge_test_list": ["assert add_2(7) == 8"]},
    "timeout in test 1": {"code": "def add_2(x):\n    while True:\n        pass"},
    "is no Python": {"code": "def add_2(x) return x + 2"},
    "call no function": {"code": "def add_two(x):\n    return x + 2"},
}


@pytest.mark.parametrize("reason", BROKEN)
def test_a_row_whose_reference_fails_is_quarantined_with_the_reason_and_replaced(
    tmp_path: Path, sandbox_url: str, reason: str
) -> None:
    rows = [full_row(n, **(BROKEN[reason] if n == 2 else {})) for n in range(1, 5)]
    write_jsonl(tmp_path / "own/train.jsonl", rows)
    write_jsonl(tmp_path / "own/test.jsonl", [full_row(9)])
    given = {"max_candidate_samples": 3, "max_eval_samples": 1, "test_timeout_s": 0.5, "seed": SEED_THAT_DRAWS_2_FIRST}
    written = prepare(tmp_path / "out", tmp_path / "own", sandbox_url, **given)
    assert sorted(ids(written.problems)) == ["1", "3", "4"]
    (row,) = written.quarantined
    assert row["task_id"] == "2"
    assert reason in row["reason"]
    assert written.counts["quarantined"] == 1
    assert reason in written.card
    assert written.counts["warnings"] == []


def test_a_failure_leaves_nothing_and_an_earlier_result_as_it_was(
    tmp_path: Path, own_data: Path, sandbox_url: str
) -> None:
    kept = prepare(tmp_path / "kept", own_data, sandbox_url)
    with (own_data / "test.jsonl").open("a") as file:
        file.write("{}\n")
    for name in ("new", "kept"):
        with pytest.raises(UserError, match="line 7: the row has no field code"):
            prepare(tmp_path / name, own_data, sandbox_url)
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "new.html").exists()
    assert vars(Written(tmp_path / "kept")) == vars(kept)


def test_the_pipelines_face_of_the_step_writes_the_same(tmp_path: Path, own_data: Path, sandbox_url: str) -> None:
    from components.prepare.component import prepare as component

    outputs = {
        "prepared": SimpleNamespace(path=str(tmp_path / "out")),
        "card": SimpleNamespace(path=str(tmp_path / "c")),
    }
    given = {**DEFAULTS, "dataset": str(own_data), "sandbox_url": sandbox_url, "code_version": "any"}
    component.python_func(**given, **outputs)
    written, direct = Written(tmp_path / "out"), prepare(tmp_path / "direct", own_data, sandbox_url)
    assert (tmp_path / "c").read_text() == written.card
    assert (ids(written.problems), ids(written.heldout)) == (ids(direct.problems), ids(direct.heldout))


def test_a_second_run_replaces_the_first(tmp_path: Path, own_data: Path, sandbox_url: str) -> None:
    prepare(tmp_path / "out", own_data, sandbox_url)
    prepare(tmp_path / "out", own_data, sandbox_url, max_candidate_samples=2)
    assert len(read_problems(tmp_path / "out" / PROBLEMS)) == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["prepare"]


def test_prepares_own_output_is_a_data_set(tmp_path: Path, own_data: Path, sandbox_url: str) -> None:
    first = prepare(tmp_path / "out", own_data, sandbox_url, max_candidate_samples=14, max_eval_samples=6)
    both = tmp_path / "both.jsonl"
    both.write_text((tmp_path / "out" / PROBLEMS).read_text() + (tmp_path / "out" / HELDOUT).read_text())
    again = prepare(tmp_path / "again", both, sandbox_url, max_candidate_samples=14, max_eval_samples=6)
    untimed = {"reference_cpu_ms": None}
    assert [problem.model_copy(update=untimed) for problem in again.problems] == [
        problem.model_copy(update=untimed) for problem in first.problems
    ]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "has no rows"),
        ([{"question": "?", "answer": "!"}], "line 1: the row has no field code and no field test_list"),
        ([full_row(n, test_list=[]) for n in (1, 2)], "No row of the data set .* makes a problem; .*it has no tests"),
        ([full_row(n, split="train") for n in (1, 2)], r"no problem left for test, which held-out .*: it has 2 train"),
        ([full_row(n, split="test") for n in (1, 2)], r"no problem left for train or validation or prompt, .* 2 test"),
        (
            [full_row(1, split="train"), full_row(2, split="test", code="def add_2(x):\n    return 0")],
            "No held-out problem of the data set .* is left, .*: task 2, its reference does not pass: failed in test 1",
        ),
    ],
)
def test_data_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, sandbox_url: str, rows: list[dict[str, Any]], said: str
) -> None:
    with pytest.raises(UserError, match=said) as refused:
        prepare(tmp_path / "out", write_jsonl(tmp_path / "own.jsonl", rows), sandbox_url)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_weak_problems_are_not_trained_on_and_named_where_they_are_measured_on(
    tmp_path: Path, own_data: Path, sandbox_url: str
) -> None:
    write_jsonl(
        own_data / "train.jsonl", [full_row(1, test_list=["assert add_1(1) == 2"]), *map(full_row, range(2, 9))]
    )
    write_jsonl(own_data / "test.jsonl", [full_row(21, test_list=["assert add_21(1) == 22"]), *map(full_row, (22, 23))])
    written = prepare(tmp_path / "out", own_data, sandbox_url, max_candidate_samples=20, max_eval_samples=3)
    assert "1" not in ids(written.problems)
    assert "21" in ids(written.heldout)
    assert written.counts["weak"] == {"21": "always returns 22"}
    (row,) = written.quarantined
    assert (row["task_id"], row["kind"]) == ("1", "weak")
    assert "a program that always returns 2 passes its tests" in row["reason"]
    (warning,) = [warning for warning in written.counts["warnings"] if "weak" in warning]
    assert warning.endswith("passes their tests: 21.")
    assert "always returns 22" in written.card


def test_what_repeats_a_heldout_or_regression_problem_is_not_trained_on(
    tmp_path: Path, own_data: Path, sandbox_url: str
) -> None:
    repeated = [full_row(n, text=f"Write a function to add {m}.") for n, m in ((1, 21), (2, 31))]
    same_program = full_row(3, code="def add_3(y):\n    return y + 22", test_list=["assert add_3(0) == 22"])
    same_program["test_list"].append("assert add_3(1) == 23")
    write_jsonl(own_data / "train.jsonl", [*repeated, same_program, *map(full_row, range(4, 9))])
    write_jsonl(own_data / "validation.jsonl", [full_row(11, text="Write a function to add 5.")])
    write_jsonl(own_data / "test.jsonl", [full_row(n) for n in (21, 22)])
    elsewhere = write_jsonl(tmp_path / "elsewhere.jsonl", [full_row(31)])
    given = {"max_candidate_samples": 20, "candidate_splits": "train", "regression_dataset": str(elsewhere)}
    written = prepare(tmp_path / "out", own_data, sandbox_url, max_eval_samples=2, **given)
    assert sorted(ids(written.heldout)) == ["21", "22"]
    assert sorted(ids(written.problems)) == ["4", "5", "6", "7", "8"]
    assert written.validation == []
    assert {row["task_id"]: row["reason"] for row in written.quarantined} == {
        "1": "it shares the text with held-out problem 21",
        "2": "it shares the text with regression problem 31",
        "3": "it shares the program but for its names with held-out problem 22",
        "11": "it shares the text with training problem 5",
    }
    assert written.counts["quarantined_by"] == {"duplicate": 4}
    assert written.counts["duplicates"]["dropped"] == 4


def test_the_regression_set_is_checked_and_written_apart(tmp_path: Path, own_data: Path, sandbox_url: str) -> None:
    rows = [full_row(31), full_row(32, code="def add_32(x):\n    return 0"), full_row(33, code="def add_33(x) return")]
    elsewhere = write_jsonl(tmp_path / "elsewhere.jsonl", rows)
    written = prepare(tmp_path / "out", own_data, sandbox_url, regression_dataset=str(elsewhere))
    (problem,) = read_problems(tmp_path / "out" / REGRESSION)
    assert (problem.task_id, problem.split, problem.source) == ("31", "regression", "elsewhere")
    assert problem.hidden_tests == []
    assert {(row["task_id"], row["split"], row["kind"]) for row in written.quarantined} == {
        ("32", "regression", "reference"),
        ("33", "regression", "unusable"),
    }
    assert written.counts["regression"] == 1
    assert "Regression problems" in written.card
    without = prepare(tmp_path / "without", own_data, sandbox_url)
    assert not (tmp_path / "without" / REGRESSION).exists()
    assert without.counts["regression"] == 0


def test_a_regression_set_without_a_sound_problem_is_the_users_mistake(
    tmp_path: Path, own_data: Path, sandbox_url: str
) -> None:
    elsewhere = write_jsonl(tmp_path / "elsewhere.jsonl", [full_row(2, code="def add_2(x):\n    return 0")])
    with pytest.raises(UserError, match="gives no problem whose reference passes its tests: its reference does not"):
        prepare(tmp_path / "out", own_data, sandbox_url, regression_dataset=str(elsewhere))


def test_the_demos_regression_set_is_sound_and_costs_the_demo_few_training_problems(
    tmp_path: Path, sandbox_url: str
) -> None:
    given = {"candidate_splits": "train", "max_candidate_samples": 240, "max_eval_samples": 100, "hidden_tests": 0}
    regression = {"regression_dataset": str(ROOT / "demo/regression.jsonl")}
    written = prepare(tmp_path / "out", ROOT / "demo/problems", sandbox_url, **given, **regression)
    assert len(read_problems(tmp_path / "out" / REGRESSION)) == 20
    assert not [name for name in written.counts["weak"] if name.startswith("regression")]
    assert (len(written.problems), len(written.heldout)) == (240, 100)
    assert len(written.card.encode()) < 500_000


def test_a_data_set_in_evalplus_format(tmp_path: Path, sandbox_url: str) -> None:
    rows = [
        {
            "task_id": f"Mbpp/{n}",
            "prompt": f'"""\nWrite a function to add {n} to each.\nassert add((1,)) == [{n + 1}]\n"""',
            "entry_point": "add",
            "canonical_solution": f"def add(xs):\n    return [x + {n} for x in xs]\n",
            "base_input": [[[1]], [[2, 3]]],
            "plus_input": [[[k, k]] for k in range(30)],
            "assertion": f"assert add((1,)) == [{n + 1}]",
            "split": "test" if n > 5 else "train",
        }
        for n in range(1, 9)
    ]
    given = {"max_candidate_samples": 5, "max_eval_samples": 3, "hidden_tests": 5}
    written = prepare(tmp_path / "out", write_jsonl(tmp_path / "plus.jsonl", rows), sandbox_url, **given)
    assert (len(written.problems), len(written.heldout)) == (5, 3)
    for problem in written.problems + written.heldout:
        assert len(problem.tests) == 2
        assert problem.hidden_tests_from == ["dataset"] * 30 + ["generated"] * 5
        assert "add((0, 0))" in problem.hidden_tests[0]


def test_the_card_is_one_page_that_asks_the_network_for_nothing(
    tmp_path: Path, own_data: Path, sandbox_url: str
) -> None:
    write_jsonl(own_data / "train.jsonl", [full_row(n, text="Compare <b>a</b> & b.") for n in range(1, 11)])
    card = prepare(tmp_path / "out", own_data, sandbox_url).card
    assert "6 problems to train on, 4 held out" in card
    assert "Compare &lt;b&gt;a&lt;/b&gt; &amp; b." in card
    for outside in ("http://", "https://", "src=", "<script", "@import"):
        assert outside not in card


@pytest.fixture
def full_mbpp() -> Path:
    """The full MBPP file."""
    path = os.environ.get("GRPO_MBPP_JSONL")
    if not path:
        pytest.skip("$GRPO_MBPP_JSONL does not name the full MBPP file")
    return Path(path)


@pytest.mark.slow
def test_all_of_mbpp(tmp_path: Path, full_mbpp: Path, sandbox_url: str) -> None:
    given = {"max_candidate_samples": 1000, "max_eval_samples": 1000, "hidden_tests": 24}
    written = prepare(tmp_path / "out", full_mbpp, sandbox_url, **given)
    assert {row["kind"] for row in written.quarantined} == {"weak", "duplicate"}
    problems = {problem.task_id: problem for problem in written.problems + written.heldout}
    assert len(problems) + len(written.quarantined) == 974
    assert len(written.heldout) == 500
    assert written.counts["hidden_tests"]["training"]["share_with_enough"] >= 0.9
    assert written.counts["hidden_tests"]["held-out"]["share_with_enough"] >= 0.9
    assert {problem.split for problem in written.heldout} == {"test"}
    assert {problem.source for problem in problems.values()} == {"mbpp"}
    assert {"37", "203", "339", "404"} <= written.counts["weak"].keys()
    weak = {row["task_id"] for row in written.quarantined if row["kind"] == "weak"}
    assert {"667", "674", "816", "847", "899"} <= weak
    assert len(weak) < 12
    for problem in problems.values():
        assert problem.signature.startswith(f"def {problem.entry_point}")
        assert any(problem.entry_point in test for test in problem.tests)
        assert "\r" not in problem.prompt + problem.reference + "".join(problem.tests)
    extras = {task_id for task_id, problem in problems.items() if problem.prelude or problem.setup}
    assert extras == {"367", "596", "601", "927"}
    assert problems["596"].setup == "import sys"
    for task_id, name in (("367", "Node"), ("601", "Pair"), ("927", "Node")):
        assert problems[task_id].prelude.startswith(f"class {name}")
        assert problems[task_id].prompt.endswith(f"{problems[task_id].prelude}\n\n{problems[task_id].signature}")
