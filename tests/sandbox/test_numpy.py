"""numpy's arrays and scalars, where the service offers numpy: as plain execution has them, and as data only."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox import arrays, kinds, wire

from tests.sandbox import plain, running
from tests.sandbox.attack import WRONG
from tests.sandbox.conftest import get, make_item, post

if importlib.util.find_spec("numpy") is None:
    pytest.skip("numpy is not installed here", allow_module_level=True)
import numpy as np

NUMPY = "import numpy as np\n"
CASES = [  # a program, a test that needs np, the outcome
    ("def f(n):\n    return np.arange(n)", "assert (f(3) == np.array([0, 1, 2])).all()", "passed"),
    ("def f(n):\n    return np.arange(n)", "assert f(3).shape == (3,) and f(3).dtype == np.int64", "passed"),
    ("def f(n):\n    return np.arange(n)", "assert np.array_equal(f(3), [0, 1, 3])", "failed"),
    ("def f(n):\n    return np.arange(n)", "assert f(3) == [0, 1, 2]", "error"),
    ("def f(n):\n    return np.arange(n)", "assert list(f(3)) == [0, 1, 2]", "passed"),
    ("def f(n):\n    return list(range(n))", "assert (f(3) == np.array([0, 1, 2])).all()", "passed"),
    ("def f(n):\n    return np.float64(n) / 3", "assert f(1) == 1 / 3 and isinstance(f(1), float)", "passed"),
    ("def f(n):\n    return np.float32(n) / 3", "assert f(1).dtype == 'float32' and np.isclose(f(1), 1 / 3)", "passed"),
    ("def f(n):\n    return np.int64(n)", "assert f(3) == 3 and f(3).item() == 3 and {f(3): 1}[3] == 1", "passed"),
    ("def f(n):\n    return np.bool_(n > 2)", "assert f(3)\nassert not f(1)", "passed"),
    ("def f(n):\n    return np.bool_(n > 2)", "assert f(3) is True", "failed"),
    ("def f(n):\n    return [np.int64(n), {np.str_('a'): np.float64('nan')}]", "assert f(3)[0] == 3", "passed"),
    ("def f(n):\n    return np.zeros((n, 2, 2))[:, ::-1]", "assert f(3).sum() == 0 and f(3).ndim == 3", "passed"),
    ("def f(n):\n    return np.array(['a', 'bc'])", "assert f(1).tolist() == ['a', 'bc']", "passed"),
    ("def f(n):\n    return np.array([1, [2], None], object)", "assert f(1).tolist() == [1, [2], None]", "passed"),
    ("def f(n):\n    return np.datetime64('2020-02-29') + n", "assert f(1) == np.datetime64('2020-03-01')", "passed"),
    ("def f(x):\n    return x.T @ x", "assert f(np.eye(2)).trace() == 2", "passed"),
    ("def f(x):\n    return type(x).__name__", "assert f(np.float64(1)) == 'float64'", "passed"),
    ("def f(x):\n    x[0] = 7\n    return x", "assert (f(np.zeros(2)) == [7, 0]).all()", "passed"),
    ("def f(n):\n    return np.ma.array([1, 2])", "assert f(1).sum() == 3", "passed"),
    ("def f(n):\n    return np.linalg.inv(np.eye(n)) @ np.ones(n)", "assert np.allclose(f(200), 1)", "passed"),
]
FORGERIES = [
    "class A(np.ndarray):\n    def __eq__(self, o): return np.ones(1, bool)\ndef f(n):\n    return np.zeros(1).view(A)",
    "class A(np.float64):\n    def __eq__(self, o): return True\ndef f(n):\n    return A(7)",
    "np.array_equal = np.all = np.allclose = lambda *a, **k: True\n" + WRONG,
    "class E:\n    def __eq__(self, o): return True\ndef f(n):\n    return np.array([E()], object)",
    "def f(n):\n    return np.array([n * 0, float('nan')])[1]",
]
HOSTILE_PARTS = [
    ["<i8", (2,), b"\0" * 8],
    ["<i8", (-1,), b""],
    ["<i8", [1], b"\0" * 8],
    ["<i8", (True,), b"\0" * 8],
    ["|O", (1,), b"\0" * 8],
    ["O", (2,), [1]],
    ["O", (10**9,), []],
    ["<i8", (0, 10**30), b""],
    ["|V8", (1,), b"\0" * 8],
    ["<U1", (1,), b"\xff" * 4],
    ["i8,O", (1,), b"\0" * 16],
    ["<i3", (1,), b"\0" * 3],
    ["<f8", (1,), "x"],
    [8, (1,), b""],
    ["<i8", (1,)],
    [],
    ["<i8"],
]


@pytest.fixture(scope="module")
def with_numpy() -> Iterator[str]:
    """The address of a service that offers the packages of this interpreter."""
    with running.service("--workers", "1", "--site-packages") as service:
        item = make_item("def f(n):\n    return n", ["assert f(1) == 1"])
        assert running.wait_until(lambda: post(service.url, {"items": [item]})[0] == 200)
        yield service.url


def judge(url: str, items: list[dict[str, Any]]) -> list[str]:
    status, answer, _ = post(url, {"items": items})
    assert status == 200
    return [verdict["outcome"] for verdict in answer["verdicts"]]


def test_arrays_are_judged_as_plain_execution_does(with_numpy: str, tmp_path: Path) -> None:
    items = [
        make_item(NUMPY + program, [test], setup=NUMPY, id=str(number), timeout_s=5.0)
        for number, (program, test, _) in enumerate(CASES)
    ]
    expected = [outcome for _, _, outcome in CASES]
    assert plain.outcomes(items, str(tmp_path)) == expected
    assert judge(with_numpy, items) == expected


def test_no_array_passes_that_is_wrong(with_numpy: str) -> None:
    tests = ["assert np.array_equal(f(3), [9])", "assert np.all(f(3) == 9)", "assert np.allclose(f(3), 9)"]
    for number, program in enumerate(FORGERIES):
        for test in tests:
            (outcome,) = judge(with_numpy, [make_item(NUMPY + program, [test], setup=NUMPY, timeout_s=5.0)])
            assert outcome in ("failed", "error"), (number, test)


def test_the_jail_holds_with_packages(with_numpy: str) -> None:
    program = NUMPY + "import os\ndef f(path):\n    return len(np.fromfile(path, 'u1'))"
    tests = ["assert f('/etc/passwd')", "assert f('/proc/self/environ')", "import os\nassert os.environ"]
    assert judge(with_numpy, [make_item(program, [test], id=test) for test in tests]) == ["error", "error", "failed"]


def test_readiness_says_another_version(with_numpy: str, sandbox_url: str) -> None:
    versions = {json.loads(get(url + "/readyz")[1])["version"] for url in (with_numpy, sandbox_url)}
    assert len(versions) == 2


@pytest.mark.parametrize("parts", HOSTILE_PARTS, ids=repr)
def test_hostile_parts_are_refused(parts: list[Any]) -> None:
    with pytest.raises((TypeError, ValueError, LookupError, ArithmeticError)):
        arrays.make_array(parts)


def test_a_truth_value_is_one_or_the_other() -> None:
    assert arrays.make_array(["|b1", (3,), b"\0\1\2"]).tobytes() == b"\0\1\1"


def test_without_numpy_a_message_does_not_load_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = ["m3", "s<i8", "T1", 1, "b" + "\0" * 8]
    assert wire.decode(tokens, lambda *_: None) == np.zeros(1)
    monkeypatch.delitem(wire.arrays.sys.modules, "numpy")
    with pytest.raises(wire.WireError):
        wire.decode(tokens, lambda *_: None)
    assert kinds.BY_LETTER["m"].name == "ndarray"
