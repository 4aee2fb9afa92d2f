"""What a model was trained on: which problems count as the same, what is written, and what is not known."""

import json

import pytest

from components.shared.lineage import (
    UNKNOWN,
    UNTRAINED,
    marks_of,
    parted,
    read_trained_on,
    trained_on_at,
    write_trained_on,
)
from components.shared.store import open_store
from tests.builders import make_problem

OTHER = {"prompt": "Halve it.\n\ndef halve(x):", "tests": ["assert halve(2) == 1"]}


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ({}, True),
        ({"task_id": "900", "source": "other", "split": "test"}, True),
        ({"prompt": "Double  it.\n\n\ndef double(x):", "tests": ["assert double(7) == 14"]}, True),
        ({"prompt": "Multiply it by two.\n\ndef double(x):"}, True),
        ({"tests": ["assert double(0) == 0", "assert double( 2 )==4"], "prompt": "Twice.\n\ndef double(x):"}, True),
        (OTHER, False),
    ],
    ids=["itself", "another id", "same prompt", "same tests", "tests turned round", "another problem"],
)
def test_a_problem_is_known_by_its_prompt_or_its_tests(changes, known):
    assert UNTRAINED.and_also([make_problem("1")]).knows(make_problem(**{"task_id": "1", **changes})) is known


def test_a_series_adds_up_and_is_read_where_the_model_lies(tmp_path, store_root):
    first, second = make_problem("1"), make_problem("2", **OTHER)
    write_trained_on(tmp_path, UNTRAINED.and_also([first]))
    open_store().write("runs/one/train/trained_on.json", (tmp_path / "trained_on.json").read_bytes())
    told = trained_on_at("runs/one").and_also([second])
    assert told == read_trained_on(tmp_path).and_also([second])
    assert told.complete
    assert told.marks == {*marks_of(first), *marks_of(second)}
    third = make_problem("3", prompt="Add one.\n\ndef add(x):", tests=["assert add(1) == 2"])
    assert parted([third, second, first], UNTRAINED, told) == ([third], [second, first])


@pytest.mark.parametrize("content", [None, "", "[]", '{"marks": 3, "complete": true}', '{"marks": []}'])
def test_what_is_not_said_is_not_known(tmp_path, content):
    if content is not None:
        (tmp_path / "trained_on.json").write_text(content)
    assert read_trained_on(tmp_path) == UNKNOWN
    write_trained_on(tmp_path, read_trained_on(tmp_path).and_also([make_problem()]))
    assert json.loads((tmp_path / "trained_on.json").read_text())["complete"] is False, "nor is it for what follows"


def test_a_model_that_is_gone_is_not_known_and_the_base_is(store_root):
    assert trained_on_at("runs/gone") == trained_on_at("models/gone") == UNKNOWN
    assert trained_on_at("") == UNTRAINED
