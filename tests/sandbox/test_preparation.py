"""What is kept of tests from one item to the next, and where: never in a process that runs more than such tests."""

from collections.abc import Iterator

import pytest
from sandbox import preparation
from sandbox.link import TestFault
from sandbox.preparation import prepare

from tests.sandbox import running
from tests.sandbox.conftest import make_item, post
from tests.sandbox.running import command_of

SQUARE = "def f(n):\n    return n * n\n"
TEST = ["assert f(3) == 9"]


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    preparation._kept.cache_clear()
    yield
    preparation._kept.cache_clear()


def test_the_same_tests_are_prepared_once() -> None:
    assert prepare("", list(TEST)) is prepare("", list(TEST))
    assert prepare("", ["assert f(3) == 8"]) is not prepare("", TEST)
    assert prepare("x = 1", TEST) is not prepare("", TEST)
    assert prepare("", [*TEST, *TEST]) is not prepare("", TEST)


def test_large_tests_and_faulty_ones_are_not_kept() -> None:
    large = [f"assert f(3) == 9, {'x' * preparation.MAX_KEPT_CHARACTERS!r}"]
    assert prepare("", large) is not prepare("", large)
    for _ in range(2):
        with pytest.raises(TestFault):
            prepare("", ["assert"])
    assert preparation._kept.cache_info().currsize == 0


def test_what_is_kept_is_bounded() -> None:
    for number in range(preparation.MAX_KEPT + 50):
        prepare("", [f"assert f({number})"])
    assert preparation._kept.cache_info().currsize == preparation.MAX_KEPT


def test_an_examiner_that_lasts_outlives_tests_that_get_one_of_their_own() -> None:
    with running.service("--workers", "1") as service:

        def outcomes(*setups: str) -> list[str]:
            items = [make_item(SQUARE, TEST, setup=setup, id=str(place)) for place, setup in enumerate(setups)]
            return [verdict["outcome"] for verdict in post(service.url, {"items": items})[1]["verdicts"]]

        def judging() -> list[int]:
            return sorted(pid for pid in service.family() if "import judge;" in command_of(pid))

        assert outcomes("") == ["passed"]
        before = judging()
        assert len(before) == 3, "judge, nursery, and the examiner that lasts"
        assert outcomes("import math", "", "import os\nos._exit(0)", "") == ["passed", "passed", "infra", "passed"]
        assert judging() == before

        large = make_item(SQUARE, [f"x = [{'1, ' * 40_000}]"] * 3, setup="x = 1", timeout_s=10.0)
        assert post(service.url, {"items": [large]})[1]["verdicts"][0]["outcome"] == "passed"
        assert judging()[:2] == before[:2]
        assert judging()[2:] != before[2:], "compiling what it declined has taken memory that others would miss"
