"""Wrong bodies: every kind on a known body, and never the right one."""

import ast
import random

import pytest

from demo.exercises import draw_exercise
from demo.families import FAMILIES
from demo.mistakes import KINDS, mistakes, usual_mistake


def bodies_by_kind(body: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for mistake in mistakes(body, "xs"):
        found.setdefault(mistake.kind, []).append(mistake.body)
    return found


def test_a_comprehension_can_go_wrong_in_every_way() -> None:
    assert bodies_by_kind("return sum([v for v in xs if v > 3])") == {
        "function": ["return len([v for v in xs if v > 3])"],
        "condition": ["return sum([v for v in xs])"],
        "operator": ["return sum([v for v in xs if v < 3])", "return sum([v for v in xs if v >= 3])"],
        "constant": ["return sum([v for v in xs if v > 4])", "return sum([v for v in xs if v > 2])"],
        "prints": ["print(sum([v for v in xs if v > 3]))"],
        "forgets": ["result = sum([v for v in xs if v > 3])"],
        "echoes": ["return xs"],
    }


def test_a_loop_can_lose_its_condition_and_keeps_its_lines() -> None:
    loop = "count = 0\nfor v in xs:\n    if v < 5:\n        count += 1\nreturn count"
    found = bodies_by_kind(loop)
    assert found["condition"] == ["count = 0\nfor v in xs:\n    count += 1\nreturn count"]
    assert found["prints"] == [loop.replace("return count", "print(count)")]


def test_a_body_without_a_return_is_refused() -> None:
    with pytest.raises(ValueError, match="must end with a return"):
        mistakes("print(xs)", "xs")


def test_mistakes_parse_differ_from_the_right_body_and_have_a_usual_one() -> None:
    rng = random.Random(3)
    for _ in range(300):
        exercise = draw_exercise(rng, FAMILIES)
        for body in exercise.bodies:
            found = mistakes(body, exercise.parameters[0])
            assert all(ast.dump(ast.parse(mistake.body)) != ast.dump(ast.parse(body)) for mistake in found)
            assert {mistake.kind for mistake in found} <= set(KINDS)
            assert usual_mistake(exercise, found) in found
