"""Published Python text in one form: LF line ends, spaces for indentation, nothing trailing.

MBPP's code was written on many machines: 972 of its 974 references have CRLF, four end in a lone CR, 129 hold tabs.
A change is made only where the parsed program stays the same, so text inside string literals is never touched.
"""

import ast
import re
import textwrap
import warnings

TAB_WIDTHS = (4, 8)  # four reads better; eight is what Python itself takes a tab for
_LEADING_BLANKS = re.compile(r"^[ \t]+", re.MULTILINE)
_TRAILING_BLANKS = re.compile(r"[ \t\f]+$", re.MULTILINE)


def unix_lines(text: str) -> str:
    """CRLF and lone CR become LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse(source: str) -> ast.Module:
    """ast.parse with one kind of error: SyntaxError, also for NUL bytes and text nested too deep."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes of published code are not ours to report
            return ast.parse(source)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error) or type(error).__name__) from None


def normal_python(source: str) -> str:
    """The same program with LF, no tabs in its indentation, no trailing blanks and no outer blank lines.

    Raises SyntaxError when it is no Python.
    """
    text = textwrap.dedent(unix_lines(source)).strip()
    wanted = ast.dump(parse(text))
    for candidate in _tidied(text):
        if _dump(candidate) == wanted:
            return candidate
    return text


def _tidied(text: str) -> list[str]:
    bare = _TRAILING_BLANKS.sub("", text)
    return [
        _LEADING_BLANKS.sub(lambda blanks, width=width: blanks.group().expandtabs(width), version)  # type: ignore[misc]
        for version in (bare, text)
        for width in TAB_WIDTHS
    ]


def _dump(source: str) -> str | None:
    try:
        return ast.dump(parse(source))
    except SyntaxError:
        return None
