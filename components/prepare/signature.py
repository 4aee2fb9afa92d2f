"""Which function a problem asks for, and its signature as one line.

The function is the one that the tests call, not the first `def` of the reference: on 41 MBPP problems that is a
helper or a method, and a model that is asked for the wrong name can pass no test.
"""

import ast
import io
import tokenize
from collections.abc import Sequence

from components.prepare.python_text import parse


class UnusableRow(Exception):
    """A well-formed row that makes no problem; the text is the reason it is quarantined for."""


def find_entry_point(reference: str, tests: Sequence[str]) -> ast.FunctionDef:
    """The top-level function of the reference that the tests call.

    Where tests call several, as in `decode(encode(x)) == x`, it is one that most tests call, and of those the last
    that the reference defines. Raises UnusableRow when they call none.
    """
    functions = {node.name: node for node in parse(reference).body if isinstance(node, ast.FunctionDef)}
    called = [_called_names(test) for test in tests]
    counts = {name: sum(name in names for names in called) for name in functions}
    if not any(counts.values()):
        raise UnusableRow("the tests call no function that the reference defines at its top level")
    most = max(counts.values())
    return max((functions[name] for name, count in counts.items() if count == most), key=lambda node: node.lineno)


def _called_names(test: str) -> set[str]:
    calls = (node.func for node in ast.walk(parse(test)) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def signature_of(reference: str, function: ast.FunctionDef) -> str:
    """`def name(...):` as published when it stands on one line, else joined into one; nothing after the colon."""
    lines = reference.split("\n")[function.lineno - 1 :]
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
        depth += (token.string in ("(", "[", "{")) - (token.string in (")", "]", "}"))
        if token.type == tokenize.OP and token.string == ":" and depth == 0:
            if token.end[0] == 1:
                return lines[0][: token.end[1]]
            break
    bare = ast.FunctionDef(**{**vars(function), "body": [ast.Pass()], "decorator_list": []})
    return ast.unparse(bare).rsplit("\n", 1)[0]
