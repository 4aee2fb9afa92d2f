"""An answer leaves as soon as it is there."""

import time

import urllib3

from tests.sandbox.conftest import make_item

SQUARE = "def f(n):\n    return n * n"


def test_a_single_answer_does_not_wait_for_the_network(sandbox_url: str) -> None:
    """Nagle's algorithm and delayed acknowledgements would add 40 ms to every answer: far above the least of many."""
    with urllib3.HTTPConnectionPool(sandbox_url.removeprefix("http://")) as pool:
        waits = []
        for _ in range(20):
            start = time.monotonic()
            answer = pool.request("POST", "/v1/verdicts", json={"items": [make_item(SQUARE, ["assert f(3) == 9"])]})
            waits.append(time.monotonic() - start)
            assert answer.json()["verdicts"][0]["passed"] is True
    assert min(waits) < 0.035
