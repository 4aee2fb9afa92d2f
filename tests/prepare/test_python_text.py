"""Published code in one form: line ends, tabs, trailing blanks; and never a different program."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.prepare.python_text import normal_python


def test_crlf_lone_cr_and_trailing_blanks_go() -> None:
    assert normal_python("def f(x): \r\n  return x \r") == "def f(x):\n  return x"


def test_tabs_become_four_spaces() -> None:
    assert normal_python("def f(x):\n\tif x:\n\t\treturn\t1\n\treturn 2") == (
        "def f(x):\n    if x:\n        return 1\n    return 2"
    )


def test_tabs_mixed_with_spaces_keep_the_block_structure() -> None:
    mixed = "def f(x):\n    if x:\n    \treturn 1\n    return 2\ndef g(x):\n\treturn x"
    tidy = normal_python(mixed)
    assert "\t" not in tidy
    assert ast.dump(ast.parse(tidy)) == ast.dump(ast.parse(mixed))


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n\treturn 'a\tb'",
        "def f():\n\treturn '''a \n\t\tb\t\n  '''",
        "X = '''\n\tkept  \n'''\ndef f():\n\treturn X",
    ],
)
def test_strings_keep_their_tabs_and_blanks(source: str) -> None:
    tidy = normal_python(source)
    assert ast.dump(ast.parse(tidy)) == ast.dump(ast.parse(source))
    assert "    return" in tidy


def test_a_block_that_is_indented_as_a_whole_is_moved_to_the_margin() -> None:
    assert normal_python("    assert f(1) == 1\n    assert f(2) == 2\n") == "assert f(1) == 1\nassert f(2) == 2"


@pytest.mark.parametrize("source", ["def f(:", "x = '\0'", "(" * 500 + ")" * 500])
def test_what_is_no_python_is_a_syntax_error(source: str) -> None:
    with pytest.raises(SyntaxError):
        normal_python(source)


BLANK = st.sampled_from(["", " ", "\t", "  ", " \t"])
INDENT = st.sampled_from(["\t", " ", "    ", "        "])
TEXT = st.text(st.sampled_from("ab\t \\{}#"), max_size=6)
LINE_END = st.sampled_from(["\n", "\r\n", "\r"])


@given(INDENT, TEXT, TEXT, BLANK, LINE_END)
def test_the_program_stays_the_same(indent: str, inner: str, comment: str, blank: str, end: str) -> None:
    lines = [
        f"def f(x):{blank}",
        f"{indent}y = {inner!r}{blank}# {comment}",
        f"{indent}return '''a{blank}",
        f"{blank}b'''",
    ]
    source = end.join([*lines, ""]) + end
    tidy = normal_python(source)
    as_python_reads_it = source.replace("\r\n", "\n").replace("\r", "\n")
    assert ast.dump(ast.parse(tidy)) == ast.dump(ast.parse(as_python_reads_it))
    assert "\r" not in tidy
    assert not tidy.endswith(("\n", " "))
    assert normal_python(tidy) == tidy
