"""The HTTP contract: shapes, order, refusals, and who is to blame for what."""

import json
import socket
from typing import Any

import pytest

from tests.sandbox.conftest import Judge, get, make_item, post

SQUARE = "def f(n):\n    return n * n\n"
GOOD = make_item(SQUARE, ["assert f(3) == 9"])


def test_verdict_has_the_shape_of_the_contract(judge: Judge) -> None:
    verdict = judge(SQUARE, ["assert f(3) == 9", "assert f(2) == 5", "assert f(1) == 1"], id="a b/ü")
    tests = verdict.pop("tests")
    assert [(test["index"], test["outcome"]) for test in tests] == [(0, "passed"), (1, "failed"), (2, "not_run")]
    assert set(tests[0]) == {"index", "outcome", "detail"}
    assert verdict["detail"] == tests[1]["detail"] != ""
    assert 0 < verdict.pop("cpu_ms") < 1000
    assert 0 < verdict.pop("wall_ms") < 20_000
    del verdict["detail"]
    assert verdict == {"id": "a b/ü", "outcome": "failed", "passed": False}


def test_passed_is_true_only_when_every_test_has_its_record(judge: Judge) -> None:
    verdict = judge(SQUARE, ["assert f(3) == 9"] * 50)
    assert verdict["passed"] is True
    assert [test["outcome"] for test in verdict["tests"]] == ["passed"] * 50


def test_order_and_ids_of_a_full_batch_are_kept(sandbox_url: str) -> None:
    items = [
        make_item(f"def f(n):\n    return n + {index % 2}", ["assert f(1) == 1"], id=f"id-{index}")
        for index in range(256)
    ]
    status, answer, _ = post(sandbox_url, {"items": items})
    assert status == 200
    assert [verdict["id"] for verdict in answer["verdicts"]] == [item["id"] for item in items]
    assert [verdict["passed"] for verdict in answer["verdicts"]] == [index % 2 == 0 for index in range(256)]


def test_judging_again_gives_the_same_verdict(judge: Judge) -> None:
    """Sets have one order, whatever was judged before: the hash seed is fixed."""
    program = "def f(n):\n    return list({'a', 'b', 'c', 'd', 'e', str(n)})"
    details = {judge(program, ["assert f(3) == 0"])["detail"] for _ in range(5)}
    assert len(details) == 1


@pytest.mark.parametrize(
    "test",
    [
        "import sys\nassert not hasattr(sys, 'visited')\nsys.visited = True\nassert f(1) == 1",
        "import random\nassert random.random is not None\nrandom.random = None\nassert f(1) == 1",
        "assert __builtins__['len']([1]) == 1\n__builtins__['len'] = None\nassert f(1) == 1",
    ],
)
def test_tests_of_one_item_leave_nothing_to_the_next(judge: Judge, test: str) -> None:
    for _ in range(6):
        verdict = judge(SQUARE, [test])
        assert verdict["outcome"] == "passed", verdict


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tests": ["assert f(3) =="]}, "test 0 is no valid Python"),
        ({"tests": ["assert f(3) == 9", "def"]}, "test 1 is no valid Python"),
        ({"tests": ["assert f(3) == '\0'"]}, "test 0 is no valid Python"),
        ({"setup": "import nothing_like_that"}, "setup raised ModuleNotFoundError"),
        ({"setup": "def"}, "setup is no valid Python"),
        ({"setup": "1 / 0"}, "setup raised ZeroDivisionError"),
        ({"tests": ["import nothing_like_that"]}, "ModuleNotFoundError"),
        ({"tests": ["raise SystemExit(0)"]}, "SystemExit"),
        ({"tests": ["f(lambda x: x)"]}, "cannot be sent"),
        ({"tests": ["f('x' * 10_000_000)"]}, "cannot be sent"),
        ({"tests": ["import os\nos._exit(0)"]}, "ended their own process"),
    ],
)
def test_faults_of_the_data_set_are_nobody_s_wrong_answer(judge: Judge, changes: dict[str, Any], words: str) -> None:
    verdict = judge(SQUARE, **{"tests": ["assert f(3) == 9"], **changes})
    assert (verdict["outcome"], verdict["passed"]) == ("infra", None), verdict
    assert words in verdict["detail"]
    assert all(test["outcome"] in ("passed", "infra", "not_run") for test in verdict["tests"])


def test_a_program_cannot_choose_to_be_unjudged(judge: Judge) -> None:
    """What would be the data set's fault is the program's once its data is in it."""
    deep = "def f(x):\n    for _ in range(895): x = [x]\n    return x"
    verdict = judge(deep, ["f(f(1))"])
    assert verdict["outcome"] == "error", verdict


def test_setup_cannot_replace_the_program(judge: Judge) -> None:
    verdict = judge("def f(n):\n    return 0", ["assert f(3) == 9"], setup="def f(n):\n    return n * n")
    assert verdict["outcome"] == "failed"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "items"),
        ({"items": []}, "items"),
        ({"items": [GOOD] * 2}, "unique"),
        ({"items": [{**GOOD, "id": str(index)} for index in range(257)]}, "256"),
        ({"items": [{**GOOD, "tests": []}]}, "tests"),
        ({"items": [{**GOOD, "tests": "assert f(3) == 9"}]}, "tests"),
        ({"items": [{**GOOD, "timeout_s": 0}]}, "timeout_s"),
        ({"items": [{**GOOD, "timeout_s": "soon"}]}, "timeout_s"),
        ({"items": [{**GOOD, "timeout_s": 1e9}]}, "timeout_s"),
        ({"items": [{**GOOD, "entry_point": "f; import os"}]}, "no Python name"),
        ({"items": [{**GOOD, "program": 3}]}, "string"),
        ({"items": [{**GOOD, "programme": ""}]}, "programme"),
        ({"items": [{key: GOOD[key] for key in GOOD if key != "program"}]}, "program"),
        (b"{", "JSON"),
        (b"[1]", ""),
        (b"\xff\xfe", ""),
    ],
)
def test_malformed_requests_are_refused_in_one_sentence(sandbox_url: str, body: Any, words: str) -> None:
    status, answer, _ = post(sandbox_url, body)
    assert status in (400, 422)
    assert isinstance(answer["detail"], str)
    assert words in answer["detail"]
    assert "\n" not in answer["detail"]


def test_health_readiness_and_schema(sandbox_url: str) -> None:
    assert get(sandbox_url + "/healthz") == (200, b"ok\n")
    status, body = get(sandbox_url + "/readyz")
    readiness = json.loads(body)
    assert (status, readiness["ready"], readiness["reason"]) == (200, True, None)
    assert {layer["state"] for layer in readiness["layers"].values()} <= {"holds", "absent"}
    assert len(readiness["version"]) == 16
    status, body = get(sandbox_url + "/openapi.json")
    assert status == 200
    assert "/v1/verdicts" in json.loads(body)["paths"]


def test_memory_that_one_item_used_is_not_missing_from_the_next(judge: Judge) -> None:
    """A short reply that makes the tests' process swell, then tests that need most of the memory there is."""
    swelling = ["assert len(set(f(5_000_000))) == 5_000_000"]
    hungry = ["assert len([f(0)] * 80_000_000) == 80_000_000"]
    for _ in range(3):
        assert judge("def f(n):\n    return range(n)", swelling, timeout_s=10.0)["outcome"] == "passed"
        assert judge("def f(n):\n    return n", hungry, timeout_s=10.0)["outcome"] == "passed"
    too_hungry = ["assert len([f(0)] * 200_000_000) == 200_000_000"]
    assert judge("def f(n):\n    return n", too_hungry, timeout_s=10.0)["outcome"] == "memory"


def test_size_must_be_announced_and_is_limited(sandbox_url: str) -> None:
    host, _, port = sandbox_url.removeprefix("http://").partition(":")
    for header, expected in (("Transfer-Encoding: chunked", 411), ("Content-Length: 99999999999", 413)):
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(f"POST /v1/verdicts HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode())
            assert connection.recv(64).split()[1] == str(expected).encode()
