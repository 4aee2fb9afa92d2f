"""The function is the one that the tests call, and its signature is one line."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.prepare.signature import UnusableRow, find_entry_point, signature_of


def found(code: str, *tests: str) -> str:
    return signature_of(code, find_entry_point(code, tests))


def test_the_called_function_wins_over_the_first_def() -> None:
    code = "def helper(x):\n    return x\ndef wanted(x, y):\n    return helper(x) + y"
    assert found(code, "assert wanted(1, 2) == 3") == "def wanted(x, y):"


def test_a_method_is_not_mistaken_for_the_function() -> None:
    code = "class Node:\n    def __init__(self, x):\n        self.x = x\ndef depth(node):\n    return 1"
    assert found(code, "assert depth(Node(1)) == 1") == "def depth(node):"


def test_of_two_called_functions_the_one_in_most_tests_then_the_last_defined() -> None:
    code = "def encode(s):\n    return s\ndef decode(s):\n    return s"
    assert found(code, "assert decode(encode('a')) == 'a'", "assert decode(encode('b')) == 'b'") == "def decode(s):"
    assert found(code, "assert encode('a') == 'a'", "assert decode(encode('b')) == 'b'") == "def encode(s):"


@pytest.mark.parametrize("test", ["assert g(1) == 1", "assert True", "assert Box(1).value == 1"])
def test_tests_that_call_no_function_of_the_reference_are_unusable(test: str) -> None:
    with pytest.raises(UnusableRow, match="no function"):
        find_entry_point("class Box:\n    pass\ndef f(x):\n    return x", [test])


@pytest.mark.parametrize(
    ("header", "signature"),
    [
        ("def f (n) :", "def f (n) :"),
        ("def f(n): # even or odd: who knows", "def f(n):"),
        ("def f(n): return n", "def f(n):"),
        ("def f(n, d={'a': 1}, k=lambda x: x):", "def f(n, d={'a': 1}, k=lambda x: x):"),
        ("def f(n: int = 3) -> 'dict[str, int]':", "def f(n: int = 3) -> 'dict[str, int]':"),
        ("def f(\n    a,  # first: the list\n    b=2,\n):", "def f(a, b=2):"),
        ("def f(a: list[int],\n      *, b: int=2) -> int:", "def f(a: list[int], *, b: int=2) -> int:"),
        ("@staticmethod\ndef f(n):", "def f(n):"),
    ],
)
def test_signature(header: str, signature: str) -> None:
    code = header if header.endswith("return n") else header + "\n    return 1"
    assert found(code, "assert f(1) == 1") == signature


NAMES = st.sampled_from(["a", "b", "items"])
DEFAULTS = st.sampled_from(["1", "[]", "{'k': (1, 2)}", "'a:b'", "lambda x: x", "(1)[0:1] if 0 else 2"])


@given(st.lists(st.tuples(NAMES, DEFAULTS), unique_by=lambda pair: pair[0]), st.sampled_from([", ", ",\n  ", " ,\n"]))
def test_any_header_gives_one_line_that_defines_the_same_arguments(pairs: list[tuple[str, str]], comma: str) -> None:
    code = f"def f({comma.join(f'{name}={default}' for name, default in pairs)}):\n  return 1"
    signature = found(code, "assert f() == 1")
    assert "\n" not in signature
    assert signature.endswith(":")
    function = ast.parse(signature + " pass").body[0]
    original = ast.parse(code).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert isinstance(original, ast.FunctionDef)
    assert ast.dump(function.args) == ast.dump(original.args)
