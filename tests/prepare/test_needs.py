"""Preludes and set-up: what tests and signatures use besides the function, by rule and not by list."""

from typing import Any

from components.prepare.needs import Needs, find_needs, free_names

PAIR = "class Pair:\n\n    def __init__(self, a, b):\n        self.a = a\n        self.b = b"


def needs_of(reference: str, *tests: str, **given: Any) -> Needs:
    return find_needs(
        **{
            "reference": reference,
            "entry_point": "f",
            "signature": "def f(x):",
            "setup_code": "",
            "tests": tests,
            "hidden_tests": [],
            **given,
        }
    )


def test_nothing_is_needed_where_tests_call_only_the_function() -> None:
    needs = needs_of(
        "import re\nR = 3\ndef helper(x):\n    return re\ndef f(x):\n    return helper(x)", "assert f(1) == 1"
    )
    assert needs == Needs("", "", "", ["assert f(1) == 1"], [])


def test_a_class_that_the_tests_make_instances_of_is_prelude() -> None:
    needs = needs_of(f"{PAIR}\ndef f(x):\n    return x.a", "assert f(Pair(1, 2)) == 1")
    assert (needs.prelude, needs.published_prelude, needs.setup) == (PAIR, "", "")


def test_a_prelude_brings_what_it_uses_itself_in_the_order_of_the_reference() -> None:
    reference = (
        "import math\nimport re, os as system\nLIMIT = 3\ndef unused():\n    pass\n"
        "def limit(x):\n    return min(x, LIMIT, system)\n"
        "class Box:\n    def __init__(self, x):\n        self.x = limit(x)\ndef f(x):\n    return x.x"
    )
    prelude = needs_of(reference, "assert f(Box(5)) == 3").prelude
    assert prelude.split("\n")[:2] == ["import re, os as system", "LIMIT = 3"]
    assert prelude.index("def limit") < prelude.index("class Box")
    assert "unused" not in prelude
    assert "import math" not in prelude


def test_an_import_that_a_test_uses_is_setup_and_only_the_part_it_uses() -> None:
    needs = needs_of(
        "import re, sys\nfrom math import pi as PI, e\ndef f(x):\n    return x", "assert f(PI) == sys.maxsize"
    )
    assert needs.prelude == ""
    assert sorted(needs.setup.split("\n")) == ["from math import pi as PI", "import sys"]


def test_what_the_signature_uses_is_prelude() -> None:
    needs = needs_of(
        "from typing import *\nSIZE = 2\ndef f(x: List[int], n=SIZE):\n    return x",
        "assert f([]) == []",
        signature="def f(x: List[int], n=SIZE):",
    )
    assert needs.prelude == "from typing import *\nSIZE = 2"


def test_published_setup_code_is_split_in_three() -> None:
    setup_code = f"import math\n{PAIR}\npair = Pair(1, math.pi)\npair.c = 3"
    needs = needs_of(
        "def f(x):\n    return x.a", "assert f(pair) == 1", setup_code=setup_code, hidden_tests=["assert f(pair)"]
    )
    assert needs.setup == "import math"
    assert needs.prelude == needs.published_prelude == PAIR
    assert needs.tests == ["pair = Pair(1, math.pi)\npair.c = 3\nassert f(pair) == 1"]
    assert needs.hidden_tests == ["pair = Pair(1, math.pi)\npair.c = 3\nassert f(pair)"]


def test_a_class_of_the_reference_that_only_setup_code_uses_is_prelude() -> None:
    needs = needs_of(f"{PAIR}\ndef f(x):\n    return x.a", "assert f(pair) == 1", setup_code="pair = Pair(1, 2)")
    assert (needs.prelude, needs.published_prelude) == (PAIR, "")


def test_the_function_itself_is_never_prelude() -> None:
    reference = "def check(x):\n    return f(x) > 0\ndef f(x):\n    return x"
    assert needs_of(reference, "assert check(3) and f(3) == 3").prelude == "def check(x):\n    return f(x) > 0"


def test_a_name_bound_within_try_is_found() -> None:
    reference = "try:\n    import nowhere\nexcept ImportError:\n    nowhere = None\ndef f(x):\n    return x"
    assert needs_of(reference, "assert f(nowhere) is None").prelude.startswith("try:\n    import nowhere")


def test_free_names_know_scopes() -> None:
    block = "root = Node(1)\nassert f([x for x in range(y)], key=lambda k: k + z) == root and all(map(g, [len]))"
    assert free_names(block) == {"Node", "f", "y", "z", "g"}
    assert free_names("def check(candidate):\n    assert candidate(1) == limit\ncheck(f)") == {"limit", "f"}
