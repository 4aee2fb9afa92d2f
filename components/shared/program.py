"""From a problem to what the model reads, and from what it wrote to the program that is judged.

One stop rule for filter, train, evaluate and the pages. In completion mode a completion ends at the first line
at column 0 that is neither blank nor a comment, once the function's body has begun. In chat mode the program is
the first fenced block that defines the entry point, else the whole reply.
"""

import ast
import re
import string

from components.shared.problem import Problem

_NEW_TOP_LEVEL_LINE = re.compile(r"\n(?=[^\s#])")
_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
# The same rule for engines that only know literal strings: a newline and any printable character but space and "#".
STOP_STRINGS = [f"\n{character}" for character in string.printable if not character.isspace() and character != "#"]


def find_stop(completion: str) -> int | None:
    """Index at which the program's function ends within a completion, or None while it is still going on."""
    for match in _NEW_TOP_LEVEL_LINE.finditer(completion):
        if _has_code(completion[: match.start()]):
            return match.start()
    return None


def _has_code(text: str) -> bool:
    """Whether any line holds something other than blanks and a comment: the body has begun."""
    return any(line.strip() and not line.strip().startswith("#") for line in text.split("\n"))


def program_of(problem: Problem, completion: str, *, use_chat_template: bool) -> str:
    """The program that is judged: prelude, then signature and body (or the chat reply's code). No imports are added."""
    completion = completion.replace("\r\n", "\n")
    if use_chat_template:
        body = code_of_reply(completion, problem.entry_point)
    else:
        body = problem.signature + completion[: find_stop(completion)]
    parts = [problem.prelude, body] if problem.prelude else [body]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def code_of_reply(reply: str, entry_point: str) -> str:
    """The first fenced block of a chat reply that defines entry_point, else the whole reply."""
    for match in _FENCE.finditer(reply):
        if defines(match.group(1), entry_point):
            return match.group(1)
    return reply


def defines(source: str, name: str) -> bool:
    """Whether the source defines `name` at its top level; source that does not parse is searched as text."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return re.search(rf"^(async\s+)?(def|class)\s+{re.escape(name)}\b", source, re.MULTILINE) is not None
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return True
    return False
