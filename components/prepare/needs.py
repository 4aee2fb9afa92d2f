"""What a problem's tests and signature need besides the function: its prelude and its setup.

Classes and helpers become the `prelude`: the model sees them before the signature, and they are part of every program.
Imports that the tests use become the `setup`, which runs in the judge only. Without this, a problem whose test says
`max_chain_length([Pair(5, 24), ...])` could not be solved: nothing tells the model of a class Pair.
"""

import ast
import builtins
import symtable
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from components.prepare.python_text import parse

BUILTIN_NAMES = frozenset(dir(builtins))
IMPORTS = (ast.Import, ast.ImportFrom)
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Needs:
    """prelude and setup as source (or ""), and the tests with the data that published set-up code builds for them.

    published_prelude is the part of the prelude that the reference does not hold itself.
    """

    prelude: str
    published_prelude: str
    setup: str
    tests: list[str]
    hidden_tests: list[str]


def find_needs(
    *,
    reference: str,
    entry_point: str,
    signature: str,
    setup_code: str,
    tests: Sequence[str],
    hidden_tests: Sequence[str],
) -> Needs:
    """Split published set-up code, and look up in the reference what tests and signature use and nobody defines.

    Of the set-up code, imports go to the setup, classes and functions to the prelude, and all other statements
    (`root = Node(1)`) before every test, since each test is judged as a block of its own.
    """
    published = parse(setup_code).body
    imports = [node for node in published if isinstance(node, IMPORTS)]
    definitions = [node for node in published if isinstance(node, DEFINITIONS)]
    preparation = [node for node in published if not isinstance(node, IMPORTS + DEFINITIONS)]
    prepared = [_block([_source(preparation), test]) for test in tests]
    hidden = [_block([_source(preparation), test]) for test in hidden_tests]

    known = TopLevel([*imports, *definitions, *parse(reference).body], entry_point)
    setup: list[ast.stmt] = list(imports)
    wanted = free_names(signature + " pass") | {name for node in definitions for name in bound_names(node)}
    for name in sorted(free_names(_block([*prepared, *hidden])) - _bound_by(imports) - {entry_point}):
        imports_of_name = [_only(node, name) for node in known.binding(name) if isinstance(node, IMPORTS)]
        setup += imports_of_name
        if not imports_of_name:
            wanted.add(name)
    prelude = known.closure(wanted)
    from_setup_code = [node for node in prelude if node in published]
    return Needs(_source(prelude), _source(from_setup_code), _source(_unique(setup)), prepared, hidden)


class TopLevel:
    """The statements of a module by the names they bind; what binds the entry point is left out."""

    def __init__(self, statements: Sequence[ast.stmt], entry_point: str) -> None:
        self.statements = [node for node in statements if entry_point not in bound_names(node)]
        self.bound = [bound_names(node) for node in self.statements]
        self.star_imports = [
            node for node in self.statements if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        ]

    def binding(self, name: str) -> list[ast.stmt]:
        """The last statement that binds the name, else the star imports that may, unless it is a builtin's."""
        for node, bound in zip(reversed(self.statements), reversed(self.bound), strict=True):
            if name in bound:
                return [node]
        return [] if name in BUILTIN_NAMES else list(self.star_imports)

    def closure(self, names: Iterable[str]) -> list[ast.stmt]:
        """The statements that bind these names and all that those use in turn, in the module's order."""
        found: list[ast.stmt] = []
        waiting = sorted(names)
        while waiting:
            for node in self.binding(waiting.pop()):
                if node not in found:
                    found.append(node)
                    waiting += sorted(used_names(node))
        return [node for node in self.statements if node in found]


def free_names(source: str) -> set[str]:
    """Names that a block reads, in any scope, and neither binds at its top level nor finds among the builtins."""
    table = symtable.symtable(source, "block", "exec")
    bound = {symbol.get_name() for symbol in table.get_symbols() if _is_bound(symbol)}
    return _global_reads(table) - bound - BUILTIN_NAMES


def used_names(node: ast.stmt) -> set[str]:
    """Names that one statement reads from the module, its own among them when it calls itself."""
    return _global_reads(symtable.symtable(ast.unparse(node), "statement", "exec"))


def bound_names(node: ast.stmt) -> set[str]:
    """Names that one top-level statement binds: by def, class, import, assignment, or within an if or try."""
    if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
        return set()
    table = symtable.symtable(ast.unparse(node), "statement", "exec")
    return {symbol.get_name() for symbol in table.get_symbols() if _is_bound(symbol)}


def _is_bound(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _global_reads(table: symtable.SymbolTable) -> set[str]:
    """Names read at module level, and in inner scopes those that resolve to the module."""
    at_top = table.get_type() == "module"
    names = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and (at_top or symbol.is_global())
    }
    return names.union(*(_global_reads(child) for child in table.get_children()))


def _bound_by(nodes: Iterable[ast.stmt]) -> set[str]:
    return {name for node in nodes for name in bound_names(node)}


def _only(node: ast.Import | ast.ImportFrom, name: str) -> ast.stmt:
    """An import reduced to the part that binds one name; a star import stays whole."""
    kept = [alias for alias in node.names if (alias.asname or alias.name.split(".")[0]) == name]
    if isinstance(node, ast.Import):
        return ast.Import(names=kept)
    return ast.ImportFrom(module=node.module, names=kept or node.names, level=node.level)


def _unique(nodes: Iterable[ast.stmt]) -> list[ast.stmt]:
    return list({ast.dump(node): node for node in nodes}.values())


def _source(nodes: Sequence[ast.stmt]) -> str:
    return ast.unparse(ast.Module(body=list(nodes), type_ignores=[])).strip()


def _block(parts: Sequence[str]) -> str:
    return "\n".join(part for part in parts if part)
