"""What visible tests say: their calls with literal arguments, and how they look at the answer."""

import ast

import pytest

from components.prepare.visible import usual_view, visible_calls


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("assert f(1, 'a') == [2]", [((1, "a"), "", "[2]")]),
        ("assert [2] == f(1)", [((1,), "", "[2]")]),
        ("assert set(f((1, 2))) == set([2])", [(((1, 2),), "set", "[2]")]),
        ("assert f(1)", [((1,), "bool", "True")]),
        ("assert not f(1)", [((1,), "bool", "False")]),
        ("assert f(1) is None", [((1,), "", "None")]),
        ("import math\nassert math.isclose(f(2), 1.5, rel_tol=0.1)", [((2,), "isclose", "1.5")]),
        ("assert f(1) > 3", [((1,), "", None)]),
        ("assert f(1) == f(2)", []),
        ("assert f(x) == 1", []),
        ("assert f(a=1) == 1", []),
        ("def check(candidate):\n    assert candidate([]) == 0\n    assert candidate([1]) == 1\ncheck(f)",
         [(([],), "", "0"), (([1],), "", "1")]),
        ("x = 3", []),
    ],
)  # fmt: skip
def test_calls(test: str, found: list[tuple[object, str, str | None]]) -> None:
    calls = visible_calls([test], "f")
    shown = [(each.arguments, each.view, ast.unparse(each.expected) if each.expected else None) for each in calls]
    assert shown == found


def test_the_usual_view_is_that_of_most() -> None:
    assert (
        usual_view(visible_calls(["assert set(f(1)) == {1}", "assert set(f(2)) == {1}", "assert f(3)"], "f")) == "set"
    )
    assert usual_view([]) == ""
