"""Prompt to program: the stop rule and the chat rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.shared.problem import Problem
from components.shared.program import STOP_STRINGS, find_stop, program_of
from tests.builders import make_problem


def problem(prelude: str = "") -> Problem:
    head = f"Double it.\n\n{prelude}\n\n" if prelude else "Double it.\n\n"
    return make_problem(prompt=head + "def double(x):", prelude=prelude)


@pytest.mark.parametrize(
    ("completion", "kept"),
    [
        ("\n    return x * 2\nprint(double(3))", "\n    return x * 2"),
        ("\n    return x * 2\n\n\ndef other():\n    pass", "\n    return x * 2\n\n"),
        ("\n    return x * 2\n# a comment at column 0\n    # and more\nassert True", None),
        ("\n    return x * 2", "\n    return x * 2"),
        (" return x * 2\nx = 1", " return x * 2"),
        ("\n# first a comment\n    return x\ny", "\n# first a comment\n    return x"),
        ("\n\n\n    return x\n", "\n\n\n    return x\n"),
        ("\n\tif x:\n\t\treturn x\n)", "\n\tif x:\n\t\treturn x"),
        ('\n    """Doc."""\n    return x\n"""', '\n    """Doc."""\n    return x'),
    ],
)
def test_completion_ends_at_the_first_line_at_column_0(completion: str, kept: str | None) -> None:
    if kept is None:
        kept = completion[: completion.index("\nassert")]
    assert completion[: find_stop(completion)] == kept


def test_a_body_that_never_began_is_not_cut() -> None:
    assert find_stop("\nprint(1)") is None
    assert find_stop("\n# only a comment\nprint(1)") is None


@given(st.text(alphabet=" \nab#:\t", max_size=60))
def test_cutting_twice_changes_nothing_and_growing_text_stops_at_the_same_place(text: str) -> None:
    stop = find_stop(text)
    if stop is None:
        return
    assert find_stop(text[:stop]) is None
    assert find_stop(text + "\nmore") == stop
    assert text[stop] == "\n"
    assert text[stop + 1] not in " \t\n#"
    assert any(text[stop:].startswith(string) for string in STOP_STRINGS)


def test_the_program_is_prelude_signature_and_body() -> None:
    prelude = "class Node:\n    pass"
    program = program_of(problem(prelude), "\n    return 2 * x\nprint(1)", use_chat_template=False)
    assert program == "class Node:\n    pass\n\ndef double(x):\n    return 2 * x\n"


def test_windows_newlines_are_one_kind_of_newline() -> None:
    program = program_of(problem(), "\r\n    return 2 * x\r\nprint(1)", use_chat_template=False)
    assert program == "def double(x):\n    return 2 * x\n"


@pytest.mark.parametrize(
    ("reply", "program"),
    [
        ("Sure:\n```python\ndef double(x):\n    return 2 * x\n```\nDone.", "def double(x):\n    return 2 * x\n"),
        ("```\n1\n```\n```py\nx = 1\ndef double(x):\n    return 2\n```", "x = 1\ndef double(x):\n    return 2\n"),
        ("```python\ndouble = lambda x: 2 * x\n```", "double = lambda x: 2 * x\n"),
        ("```python\ndef double(x):\n    return 2 *", "def double(x):\n    return 2 *\n"),
        ("def double(x):\n    return 2 * x", "def double(x):\n    return 2 * x\n"),
        ("```python\ndef other(x):\n    return 1\n```", "```python\ndef other(x):\n    return 1\n```\n"),
    ],
)  # fmt: skip
def test_a_chat_reply_gives_the_first_fence_that_defines_the_function(reply: str, program: str) -> None:
    assert program_of(problem(), reply, use_chat_template=True) == program
