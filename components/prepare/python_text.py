"""Published Python text in one form: LF line ends, spaces for indentation, nothing trailing.

MBPP's code was written on many machines: 972 of its 974 references have CRLF, four end in a lone CR, 129 hold tabs.
A change is made only where the parsed program stays the same, so text inside string literals is never touched.
"""

import ast
import io
import re
import textwrap
import tokenize
import warnings

TAB_WIDTHS = (4, 8)  # four reads better; eight is what Python itself takes a tab for
_INDENTATION = re.compile(r"[ \t]*")


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
    """The same program with LF, no tabs outside its strings, no trailing blanks and no outer blank lines.

    Raises SyntaxError when it is no Python.
    """
    text = unix_lines(source)
    try:
        tree = parse(text.strip())
        text = text.strip()
    except SyntaxError:
        text = textwrap.dedent(text).strip()
        tree = parse(text)
    wanted = ast.dump(tree)
    return next((tidy for width in TAB_WIDTHS if _dump(tidy := _tidied(text, width)) == wanted), text)


def _tidied(text: str, tab_width: int) -> str:
    """The text without tabs and trailing blanks, lines within strings aside; it may mean something else."""
    strings = _rows_of_strings(text)
    lines = []
    for row, line in enumerate(text.split("\n"), start=1):
        indentation = _INDENTATION.match(line)[0]  # type: ignore[index]  # it matches every line
        rest = line[len(indentation) :]
        if not any(first < row <= last for first, last in strings):
            indentation = indentation.expandtabs(tab_width)
        if not any(first <= row <= last for first, last in strings):
            rest = rest.replace("\t", " ").rstrip()
            indentation = indentation if rest else ""
        lines.append(indentation + rest)
    return "\n".join(lines)


def _rows_of_strings(text: str) -> list[tuple[int, int]]:
    """First and last line of every string that goes over several lines or holds a tab."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [
        (token.start[0], token.end[0])
        for token in tokens
        if token.type not in (tokenize.INDENT, tokenize.COMMENT)
        and ("\t" in token.string or token.start[0] < token.end[0])
    ]


def _dump(source: str) -> str | None:
    try:
        return ast.dump(parse(source))
    except SyntaxError:
        return None
