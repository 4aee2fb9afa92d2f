"""A hostile data set harms nobody but itself: neither its neighbours in the batch nor those after it in the worker."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandbox import running
from tests.sandbox.conftest import make_item, post
from tests.sandbox.hostile import HOSTILE, MARK, Hostile

RIGHT = f"def f(n):\n    return '{MARK}' * n\n"
NEIGHBOURS = [  # a program, tests, setup, its outcome: some that reuse an examiner and some that do not
    (RIGHT, [f"assert f(2) == '{MARK}{MARK}'"], "", "passed"),
    ("def f(n):\n    return 9\n", [f"assert f(2) == '{MARK}{MARK}'"], "", "failed"),
    (RIGHT, [f"assert len(f(2)) == {2 * len(MARK)}", "assert f(0) == ''"], "", "passed"),
    ("def f(n):\n    return undefined\n", ["assert f(3) == 9"], "", "error"),
    (RIGHT, [f"import json\nassert json.loads(json.dumps(f(1))) == '{MARK}'"], "import socket", "passed"),
    (RIGHT, ["assert f(1) == 9", "assert f(2) == 9"], "", "failed"),
]


@pytest.fixture(scope="module")
def lone_worker() -> Iterator[str]:
    """The address of a service with one worker: whatever is judged is judged there."""
    with running.service("--workers", "1", environment={"SANDBOX_SECRET": MARK}) as service:
        assert running.wait_until(lambda: post(service.url, {"items": [neighbour(0)]})[0] == 200)
        yield service.url


def neighbour(number: int) -> dict[str, Any]:
    program, tests, setup, _ = NEIGHBOURS[number % len(NEIGHBOURS)]
    return make_item(program, tests, setup=setup, id=f"neighbour-{number}")


def surrounded(hostile: Hostile) -> list[dict[str, Any]]:
    """A hostile item twice among its neighbours."""
    item = make_item(hostile.program, hostile.tests, setup=hostile.setup, timeout_s=hostile.timeout_s)
    before, after = [neighbour(number) for number in range(6)], [neighbour(number) for number in range(6, 18)]
    return [*before, item | {"id": "hostile-0"}, *after[:6], item | {"id": "hostile-1"}, *after[6:]]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
def test_neighbours_keep_their_verdicts(lone_worker: str, hostile: Hostile) -> None:
    items = surrounded(hostile)
    status, answer, _ = post(lone_worker, {"items": items})
    assert status == 200
    verdicts = {verdict["id"]: verdict for verdict in answer["verdicts"]}
    assert list(verdicts) == [item["id"] for item in items]
    for number in range(18):
        verdict = verdicts[f"neighbour-{number}"]
        assert verdict["outcome"] == NEIGHBOURS[number % len(NEIGHBOURS)][3], verdict
        assert len(verdict["tests"]) == len(NEIGHBOURS[number % len(NEIGHBOURS)][1])
    for number in range(2):
        verdict = verdicts[f"hostile-{number}"]
        assert verdict["outcome"] in hostile.outcomes, verdict
        assert MARK not in str(verdict)
        assert len(verdict["tests"]) == len(hostile.tests)
        assert len(str(verdict)) < 2000
    assert not os.path.exists("/tmp/hostile")


def test_there_are_enough_of_them() -> None:
    names = [hostile.name for hostile in HOSTILE]
    assert len(set(names)) == len(names) >= 60
