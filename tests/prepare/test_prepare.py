"""The whole step at a real sandbox: what it writes of a data set, and that a failure leaves nothing."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.shared.errors import UserError
from components.shared.problem import HELDOUT, PROBLEMS, read_problems
from tests.prepare.examples import full_row, write_jsonl
from tests.prepare.preparing import DEFAULTS, Written, ids, prepare
from tests.sandbox.test_mbpp import SLOWEST


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
    slow = [row["task_id"] for row in written.quarantined if row["kind"] == "slow"]
    assert set(slow) <= {str(SLOWEST)}  # on some machines and not on others
    assert {row["kind"] for row in written.quarantined} - {"slow"} == {"weak", "duplicate"}
    problems = {problem.task_id: problem for problem in written.problems + written.heldout}
    assert len(problems) + len(written.quarantined) == 974
    assert len(written.heldout) == 500 - len(slow)
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
