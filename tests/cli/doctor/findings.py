"""The failures and warnings that the doctor can utter, read from its sources, with `{}` for what is filled in."""

import ast
from collections.abc import Iterator
from pathlib import Path

import cli.doctor

SOURCES = Path(str(cli.doctor.__file__)).parent
MAKERS = ("fail", "warn", "Trouble")
RULES = ("troubles.py",)  # whose functions return (what, mend, whether the pod has ended)


def all_findings() -> set[str]:
    """Every text; where it is computed or says little, `module.function` in front of it."""
    return {text for file in sorted(SOURCES.glob("*.py")) for text in _of(file)}


def fragments(text: str) -> list[str]:
    """The parts of a text by which it can be told from others."""
    return [part.strip() for part in text.split("{}") if len(part.strip()) >= 8]


def _of(file: Path) -> Iterator[str]:
    for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                for value in _told(node, rules=file.name in RULES):
                    yield from _texts(value, function, f"{file.stem}.{function.name}")


def _told(node: ast.AST, *, rules: bool) -> Iterator[ast.expr]:
    """The expressions by which a node of the program tells a finding."""
    if isinstance(node, ast.Call) and len(node.args) > 1:
        names = [each.id for each in ast.walk(node.func) if isinstance(each, ast.Name)]
        if isinstance(node.func, ast.Name | ast.IfExp) and set(names) & set(MAKERS):
            yield node.args[1]
    if rules and isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 3:
        yield node.value.elts[0]


def _texts(value: ast.expr, function: ast.FunctionDef, where: str) -> Iterator[str]:
    assigned = _assigned(value.id, function) if isinstance(value, ast.Name) else []
    found = [text for each in [value, *assigned] for text in _literals(each)]
    if any("words" in ast.unparse(each) for each in [value, *assigned]):
        dicts = [each for each in _assigned("words", function) if isinstance(each, ast.Dict)]
        found += [text for each in dicts for item in each.values for text in _literals(item)]
    for text in found or [ast.unparse(value)]:
        yield text if found and fragments(text) else f"{where}: {text}"


def _assigned(name: str, function: ast.FunctionDef) -> list[ast.expr]:
    """What is assigned to a name in a function, alone or as one of several."""
    return [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and any(isinstance(each, ast.Name) and each.id == name for target in node.targets for each in ast.walk(target))
    ]


def _literals(value: ast.expr) -> Iterator[str]:
    """The text of an expression, or the texts of a choice; nothing where it is computed."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in value.values)
    elif isinstance(value, ast.IfExp):
        yield from _literals(value.body)
        yield from _literals(value.orelse)
    elif isinstance(value, ast.Tuple):
        yield from _literals(value.elts[0])
    elif isinstance(value, ast.Call) and ast.unparse(value.func).endswith("words.get"):
        yield from _literals(value.args[1])
