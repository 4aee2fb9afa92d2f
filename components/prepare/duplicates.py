"""Near-duplicates: problems that ask for the same thing, by their text or by the program that answers it.

Text: the share of common word pairs (Jaccard of bigrams), with the same numbers and quoted words, since another number
asks for another function. Program: the same syntax tree once the names that it binds are numbered in order.
"""

import ast
import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from components.prepare.python_text import parse
from components.shared.problem import Problem

# On MBPP, pairs at 0.8 and above are rewordings; between 0.6 and 0.8 most share a phrase ("... using lambda function")
# and ask for different things.
TEXT_LIMIT = 0.8
_WORD = re.compile(r"[a-z]+|\d+")
_CONSTANT = re.compile(r"-?\d+(?:\.\d+)?|\b[a-z]\b|'[^']*'|\"[^\"]*\"")
_OPENING = re.compile(r"^\s*write a (?:python )?function (?:that |to |which )?", re.IGNORECASE)


@dataclass(frozen=True)
class Duplicate:
    """A problem and another that it repeats. why: in words; similarity: of the texts, 0 to 1."""

    problem: Problem
    other: Problem
    why: str
    similarity: float


@dataclass(frozen=True)
class Prints:
    """What problems are compared by."""

    pairs: frozenset[tuple[str, ...]]
    constants: frozenset[str]
    program: str


def prints_of(problem: Problem) -> Prints:
    """The fingerprints of a problem."""
    end = len(problem.prompt) - len(problem.signature)
    return _prints(problem.prompt[:end].removesuffix(f"{problem.prelude}\n\n"), problem.reference)


@functools.lru_cache(maxsize=10_000)
def _prints(text: str, reference: str) -> Prints:
    text = _OPENING.sub("", text)
    words = _WORD.findall(text.lower())
    pairs: frozenset[tuple[str, ...]] = frozenset(itertools.pairwise(words))
    pairs = pairs or frozenset((word,) for word in words)
    return Prints(pairs, frozenset(_CONSTANT.findall(text.lower())), renamed(reference))


def renamed(source: str) -> str:
    """The syntax tree as text, with the names that the source binds numbered in the order in which they occur.

    Docstrings and annotations are left out; built-in names, attributes, constants and imported names stay. "" for a
    source that is no Python.
    """
    try:
        tree = parse(source)
    except SyntaxError:
        return ""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    bound = {node.name for node in ast.walk(tree) if isinstance(node, (*functions, ast.ClassDef))}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    numbers: dict[str, str] = {}

    def number(name: str) -> str:
        return numbers.setdefault(name, f"name{len(numbers)}") if name in bound else name

    class Rename(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            if isinstance(node, (*functions, ast.ClassDef)):
                node.name = number(node.name)
                if ast.get_docstring(node) is not None and len(node.body) > 1:
                    del node.body[0]
            if isinstance(node, functions):
                node.returns = None
            if isinstance(node, ast.arg):
                node.arg, node.annotation = number(node.arg), None
            if isinstance(node, ast.Name):
                node.id = number(node.id)
            return self.generic_visit(node)

    return ast.dump(Rename().visit(tree))


class Index:
    """Problems by their fingerprints, to be asked for those that another one repeats."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        self.prints = [prints_of(problem) for problem in self.problems]
        self.by_pair: dict[tuple[str, ...], list[int]] = defaultdict(list)
        self.by_program: dict[str, list[int]] = defaultdict(list)
        for number, prints in enumerate(self.prints):
            self.by_program[prints.program].append(number)
            for pair in prints.pairs:
                self.by_pair[pair].append(number)

    def repeated_by(self, problem: Problem) -> list[Duplicate]:
        """The problems of the index that this one repeats, but for itself."""
        own = prints_of(problem)
        common = Counter(number for pair in own.pairs for number in self.by_pair.get(pair, ()))
        same_program = set(self.by_program.get(own.program, ())) if own.program else set()
        found = []
        for number in sorted({*common, *same_program}):
            other, prints = self.problems[number], self.prints[number]
            if other is problem:
                continue
            similarity = common[number] / len(own.pairs | prints.pairs) if common[number] else 0.0
            same_text = similarity >= TEXT_LIMIT and own.constants == prints.constants
            reasons = ["the text"] * (same_text and similarity == 1)
            reasons += [f"{100 * similarity:.0f} % of the text"] * (same_text and similarity < 1)
            reasons += ["the program but for its names"] * (number in same_program)
            if reasons:
                found.append(Duplicate(problem, other, " and ".join(reasons), similarity))
        return found


def repeats_within(problems: Sequence[Problem]) -> list[Duplicate]:
    """Pairs within one set, each once."""
    index = Index(problems)
    place = {id(problem): number for number, problem in enumerate(problems)}
    pairs = [found for problem in problems for found in index.repeated_by(problem)]
    return [pair for pair in pairs if place[id(pair.problem)] > place[id(pair.other)]]
