"""What the sandbox's benchmark has judged: references, a mix with failing and looping programs, and the attacks.

The problems are all of MBPP when $GRPO_MBPP_JSONL names its file, else the demo's; read as the pipeline reads them.
"""

import ast
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.prepare.rows import check_row, to_problem
from components.prepare.signature import UnusableRow
from components.prepare.sources import read_dataset
from components.shared.grading import timeout_of
from components.shared.problem import Problem
from tests.sandbox.attacks import ATTACKS
from tests.sandbox.exhaustion import EXHAUSTION

ROOT = Path(__file__).resolve().parent.parent
FULL_TIMEOUT_S = 5.0
FAILING_SHARE, LOOPING_SHARE = 0.30, 0.03
SEED = 7


@dataclass(frozen=True)
class Sample:
    """One program: the item as the service takes it, and its tests as EvalPlus takes them, None where it cannot.

    calls: for each test the source of the tuple of arguments, and of the value expected.
    """

    item: dict[str, Any]
    calls: list[tuple[str, str]] | None


def read_problems() -> list[Problem]:
    """All problems of the data set at hand."""
    path = os.environ.get("GRPO_MBPP_JSONL") or str(ROOT / "demo/problems")
    problems = []
    for raw in read_dataset(path, "").rows:
        row = check_row(raw)
        try:
            problems.append(to_problem(row, split=row.split, source="benchmark"))
        except UnusableRow:
            continue
    return problems


def calls_of(tests: Sequence[str], entry_point: str) -> list[tuple[str, str]] | None:
    """The tests as calls and expected values, None unless each is `assert entry_point(values) == value`."""
    calls = []
    for test in tests:
        match ast.parse(test).body:
            case [ast.Assert(test=ast.Compare(left=ast.Call(func=ast.Name(id=name)) as call, ops=[ast.Eq()]) as whole)]:
                if name != entry_point or call.keywords:
                    return None
                arguments = ast.unparse(ast.Tuple(call.args, ast.Load()))
                expected = ast.unparse(whole.comparators[0])
            case _:
                return None
        try:
            eval(f"({arguments}, {expected})", {})  # a trusted data set's: only built-ins may be used
        except NameError:
            return None
        calls.append((arguments, expected))
    return calls


def sample_of(problem: Problem, program: str, timeout_s: float) -> Sample:
    """One program for a problem."""
    item = {
        "id": problem.task_id,
        "program": program,
        "entry_point": problem.entry_point,
        "setup": problem.setup,
        "tests": problem.tests,
        "timeout_s": timeout_s,
    }
    return Sample(item, None if problem.setup else calls_of(problem.tests, problem.entry_point))


def references(problems: Sequence[Problem]) -> list[Sample]:
    """Every problem's own solution, at the full deadline."""
    return [sample_of(problem, problem.reference, FULL_TIMEOUT_S) for problem in problems]


def mix(problems: Sequence[Problem], *, scaled: bool) -> list[Sample]:
    """References of which three in ten are broken and three in a hundred loop; always the same ones.

    scaled: deadlines follow the reference's CPU time (grading.timeout_of) instead of being the full one.
    """
    order = random.Random(SEED).sample(range(len(problems)), len(problems))
    looping = set(order[: round(LOOPING_SHARE * len(problems))])
    failing = order[len(looping) : len(looping) + round(FAILING_SHARE * len(problems))]
    kind_of = {index: place % len(BREAKERS) for place, index in enumerate(failing)}
    samples = []
    for index, problem in enumerate(problems):
        program = problem.reference
        if index in looping:
            program = _with_body(program, problem.entry_point, "while True: pass")
        elif index in kind_of:
            program = BREAKERS[kind_of[index]](program, problem.entry_point)
        samples.append(sample_of(problem, program, timeout_of(problem, FULL_TIMEOUT_S) if scaled else FULL_TIMEOUT_S))
    return samples


def _with_body(program: str, entry_point: str, first: str) -> str:
    """The program with a statement put at the start of its function."""
    tree = ast.parse(program)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == entry_point:
            node.body.insert(0, ast.parse(first).body[0])
    return ast.unparse(tree)


def _wrong_value(program: str, entry_point: str) -> str:
    return f"{program}\n_right = {entry_point}\n\ndef {entry_point}(*values):\n    return [_right(*values), 'wrong']\n"


def _misspelt(program: str, entry_point: str) -> str:
    return _with_body(program, entry_point, "resutl")


def _cut_short(program: str, _: str) -> str:
    return program.rstrip() + " + ("


BREAKERS = (_wrong_value, _misspelt, _cut_short)


def forgeries() -> list[tuple[str, Sample]]:
    """The attack suite by name, for peers without a jail: without what only wears a machine out, or forks."""
    worn_out = {attack.name for attack in EXHAUSTION}
    found = []
    for attack in ATTACKS:
        if attack.name in worn_out or "fork" in attack.program:
            continue
        item: dict[str, Any] = {"id": attack.name, "program": attack.program, "entry_point": "f", "setup": ""}
        item |= {"tests": attack.tests, "timeout_s": attack.timeout_s}
        found.append((attack.name, Sample(item, calls_of(attack.tests, "f"))))
    return found
