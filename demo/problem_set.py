"""The problem set in MBPP's format, and the rule that keeps its splits apart.

A row has MBPP's fields (task_id, text, code, test_list, test_setup_code, challenge_test_list) and `split`. Which
split an exercise may be in depends on its identity alone, so neither the pretraining corpus nor the training rows
can hold a validation or test problem.
"""

import contextlib
import copy
import io
import random
from collections.abc import Mapping

from demo.exercises import Arguments, Exercise, Family, draw_exercise, indented, stable_fraction
from demo.mistakes import mistakes, normalised

TESTS_PER_PROBLEM = 3
CONSTANT_ANSWERS = tuple(f"return {value}" for value in ("True", "False", "None", "0", "1", "[]", "''"))

Row = dict[str, object]


def split_of(exercise: Exercise) -> str:
    """ "train" (also the pretraining corpus), "validation" or "test", decided by the exercise's identity."""
    fraction = stable_fraction(exercise.identity)
    return "train" if fraction < 0.75 else "validation" if fraction < 0.81 else "test"


def run_function(code: str, name: str, arguments: Arguments) -> object:
    """Execute `code` (this project's own) and call its `name` with a copy of `arguments`; output is dropped."""
    namespace: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, namespace)
        function = namespace[name]
        if not callable(function):
            raise TypeError(f"{name} is not a function")
        return function(*copy.deepcopy(arguments))


def function_code(exercise: Exercise, body: str) -> str:
    """The whole function: signature and indented body."""
    return exercise.signature + indented(body)


def _answers_like(exercise: Exercise, body: str, arguments: Arguments, expected: object) -> bool:
    """Whether `body` gives an answer that a test expecting `expected` accepts."""
    try:
        return bool(run_function(function_code(exercise, body), exercise.name, arguments) == expected)
    except Exception:  # a wrong body may fail in any way, and failing is being told apart
        return False


def chosen_tests(exercise: Exercise) -> list[str]:
    """Asserts on those inputs that together expose the most wrong bodies, chosen greedily."""
    reference = function_code(exercise, exercise.bodies[0])
    wrong = [mistake.body for body in exercise.bodies for mistake in mistakes(body, exercise.parameters[0])]
    wrong += CONSTANT_ANSWERS
    inputs = list({repr(arguments): arguments for arguments in exercise.inputs}.values())
    expected = [run_function(reference, exercise.name, arguments) for arguments in inputs]
    exposed = [
        {body for body in wrong if not _answers_like(exercise, body, arguments, answer)}
        for arguments, answer in zip(inputs, expected, strict=True)
    ]
    tests, known = [], set[str]()
    left = list(range(len(inputs)))
    for _ in range(TESTS_PER_PROBLEM):
        best = max(left, key=lambda index: len(exposed[index] - known))
        left.remove(best)
        known |= exposed[best]
        call = f"{exercise.name}({', '.join(map(repr, inputs[best]))})"
        tests.append(f"assert {call} == {expected[best]!r}")
    return tests


def make_row(exercise: Exercise, task_id: int, split: str) -> Row:
    """One problem in MBPP's format."""
    return {
        "task_id": task_id,
        "text": exercise.text,
        "code": function_code(exercise, normalised(exercise.bodies[0])),
        "test_list": chosen_tests(exercise),
        "test_setup_code": "",
        "challenge_test_list": [],
        "split": split,
    }


def _draw(
    drawn: dict[str, list[Exercise]],
    sizes: Mapping[str, int],
    families: tuple[Family, ...],
    rng: random.Random,
    seen: set[str],
    not_again: set[str],
) -> None:
    """Draw exercises whose identity and prompt were not seen, and whose task is none of `not_again`, into `drawn`."""
    while any(len(drawn[split]) < size for split, size in sizes.items()):
        exercise = draw_exercise(rng, families)
        split = split_of(exercise)
        full = len(drawn.get(split, ())) == sizes.get(split, 0)
        if full or exercise.task in not_again or seen & {exercise.identity, exercise.prompt}:
            continue
        seen |= {exercise.identity, exercise.prompt}
        drawn[split].append(exercise)


def make_problem_set(families: tuple[Family, ...], *, sizes: Mapping[str, int], seed: int) -> dict[str, list[Row]]:
    """Split name -> as many rows as `sizes` says; ids count on from split to split, no identity or prompt repeats.

    No training row asks for what a row of another split asks for under other names.
    """
    rng = random.Random(seed)
    drawn: dict[str, list[Exercise]] = {split: [] for split in sizes}
    seen = set[str]()
    _draw(drawn, sizes, families, rng, seen, set())
    measured = {exercise.task for split, exercises in drawn.items() if split != "train" for exercise in exercises}
    drawn["train"] = [exercise for exercise in drawn["train"] if exercise.task not in measured]
    _draw(drawn, sizes, families, rng, seen, measured)
    task_ids = iter(range(1, sum(sizes.values()) + 1))
    return {
        split: [make_row(exercise, next(task_ids), split) for exercise in exercises]
        for split, exercises in drawn.items()
    }
