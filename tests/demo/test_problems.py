"""The committed problem set: MBPP's format, right references, tests that expose mistakes, splits that share nothing."""

import json
import random
from pathlib import Path

import pytest

from components.prepare.duplicates import Index
from components.prepare.prepare import make_problems
from components.prepare.sources import read_dataset
from demo.build import CORPUS_SEED, CORPUS_SIZE, SPLIT_SIZES, differing_problem_files
from demo.corpus import CHAT_SHARE, make_corpus
from demo.exercises import draw_exercise
from demo.families import FAMILIES
from demo.mistakes import mistakes
from demo.problem_set import function_code, make_problem_set, run_function, split_of
from tests.conftest import ROOT

PROBLEMS = ROOT / "demo/problems"
Row = dict[str, object]


def read_rows(split: str) -> list[Row]:
    return [json.loads(line) for line in (PROBLEMS / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()]


ROWS = {split: read_rows(split) for split in SPLIT_SIZES}
ALL_ROWS = [row for rows in ROWS.values() for row in rows]


def passes(code: str, tests: list[str]) -> bool:
    """Whether the code, which is this project's own, passes every assert by plain execution."""
    namespace: dict[str, object] = {}
    try:
        exec("\n".join([code, *tests]), namespace)
    except Exception:
        return False
    return True


def test_every_split_has_its_size_and_every_row_has_mbpps_fields() -> None:
    types = {
        "task_id": int, "text": str, "code": str, "test_list": list, "test_setup_code": str,
        "challenge_test_list": list, "split": str,
    }  # fmt: skip
    assert {split: len(rows) for split, rows in ROWS.items()} == SPLIT_SIZES
    for split, rows in ROWS.items():
        for row in rows:
            assert {field: type(value) for field, value in row.items()} == types
            assert row["split"] == split
            assert len(row["test_list"]) == 3
            assert len(set(row["test_list"])) == 3
    assert len({row["task_id"] for row in ALL_ROWS}) == len(ALL_ROWS)


@pytest.mark.parametrize("split", SPLIT_SIZES)
def test_references_pass_their_tests(split: str) -> None:
    failing = [row["task_id"] for row in ROWS[split] if not passes(row["code"], row["test_list"])]
    assert failing == []


@pytest.mark.slow
def test_committed_files_are_what_the_generator_makes() -> None:
    assert differing_problem_files(PROBLEMS) == []


def test_a_changed_or_missing_file_is_noticed(tmp_path: Path) -> None:
    for name in ("train.jsonl", "validation.jsonl"):
        (tmp_path / name).write_bytes((PROBLEMS / name).read_bytes())
    (tmp_path / "train.jsonl").write_text((tmp_path / "train.jsonl").read_text().replace("greater", "bigger", 1))
    assert differing_problem_files(tmp_path) == ["train.jsonl", "test.jsonl"]


@pytest.fixture(scope="module")
def corpus_prompts() -> set[str]:
    """Every prompt that the base was pretrained on, conversations included."""
    corpus = make_corpus(FAMILIES, size=CORPUS_SIZE, seed=CORPUS_SEED, chat_share=CHAT_SHARE)
    assert any("<|im_start|>" in document.context for document in corpus)
    return {document.context.split("user\n")[-1].split("<|im_end|>")[0] for document in corpus}


@pytest.fixture(scope="module")
def prompts() -> dict[str, set[str]]:
    """Each split's prompts, in the form that prepare gives to the committed rows."""
    problems, unusable = make_problems(read_dataset(str(PROBLEMS), ""), dataset="demo", seed=0)
    assert unusable == []
    return {split: {problem.prompt for problem in problems if problem.split == split} for split in SPLIT_SIZES}


@pytest.mark.slow
def test_no_training_problem_asks_under_other_names_for_what_another_split_asks_for() -> None:
    problems, _ = make_problems(read_dataset(str(PROBLEMS), ""), dataset="demo", seed=0)
    measured = Index(problem for problem in problems if problem.split != "train")
    pairs = [pair for problem in problems if problem.split == "train" for pair in measured.repeated_by(problem)]
    assert [pair for pair in pairs if pair.similarity == 1 and "program" in pair.why] == []


@pytest.mark.slow
def test_prepare_gives_problems_the_form_that_the_base_was_pretrained_on(
    corpus_prompts: set[str], prompts: dict[str, set[str]]
) -> None:
    assert {split: len(found) for split, found in prompts.items()} == SPLIT_SIZES
    assert len(prompts["train"] & corpus_prompts) > 0.4 * SPLIT_SIZES["train"]


@pytest.mark.slow
def test_no_held_out_problem_is_in_the_corpus_or_in_another_split(
    corpus_prompts: set[str], prompts: dict[str, set[str]]
) -> None:
    assert not prompts["test"] & (corpus_prompts | prompts["train"] | prompts["validation"])
    assert not prompts["validation"] & (corpus_prompts | prompts["train"])


@pytest.mark.slow
def test_identities_decide_the_split_so_that_wording_cannot_leak() -> None:
    rng = random.Random(0)
    splits: dict[str, set[str]] = {}
    for _ in range(20_000):
        exercise = draw_exercise(rng, FAMILIES)
        splits.setdefault(exercise.identity, set()).add(split_of(exercise))
    assert all(len(found) == 1 for found in splits.values())
    share = sum(found == {"test"} for found in splits.values()) / len(splits)
    assert 0.15 < share < 0.23


def test_the_tests_expose_wrong_bodies() -> None:
    """Of all the mistakes that the base was taught, those in test problems are told from the reference."""
    wrong = surviving = 0
    for row in ROWS["test"]:
        signature, *lines = str(row["code"]).splitlines()
        body = "\n".join(line[4:] for line in lines)
        parameter = signature.split("(")[1].split(",")[0].split(")")[0]
        for mistake in mistakes(body, parameter):
            code = "\n".join([signature, *("    " + line for line in mistake.body.splitlines())])
            wrong += 1
            surviving += passes(code, row["test_list"])
    assert wrong > 1000
    assert surviving / wrong < 0.015  # those left give the same answers, such as pop for get


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_all_right_bodies_of_a_family_agree(family: object) -> None:
    rng = random.Random(1)
    for _ in range(40):
        exercise = draw_exercise(rng, (family,))
        for arguments in exercise.inputs:
            answers = [
                run_function(function_code(exercise, body), exercise.name, arguments) for body in exercise.bodies
            ]
            assert all(answer == answers[0] for answer in answers)


def test_a_problem_set_repeats_for_its_seed_and_differs_for_another() -> None:
    sizes = {"train": 6, "validation": 2, "test": 3}
    first, again, other = (make_problem_set(FAMILIES, sizes=sizes, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert first != other
    assert {split: len(rows) for split, rows in first.items()} == sizes
