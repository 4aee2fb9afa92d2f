"""Honest programs get plain execution's verdict; the exceptions are listed, and each is what README.md says it is."""

import subprocess
import sys

import pytest

from tests.sandbox.accidents import ACCIDENTS, ALIKE, EXCEPTIONS
from tests.sandbox.case import Case
from tests.sandbox.conftest import Judge


def passes_in_plain_execution(case: Case) -> bool:
    """Whether program, setup and tests run through as one script, imported rather than run as main."""
    parts = [case.program, case.setup, *case.tests]
    script = (
        "import sys, os\nscope = {'__name__': 'program'}\nsys.modules['program'] = type(sys)('program')\n"
        + "".join(f"exec({part!r}, scope)\n" for part in parts)
    )
    script += "os._exit(99)\n"  # a mark of having come here, which nothing in the tables writes by chance
    command = [sys.executable, "-I", "-c", script]
    ending = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return ending.returncode == 99


@pytest.mark.parametrize("case", ALIKE, ids=lambda case: case.name)
def test_verdict_is_that_of_plain_execution(judge: Judge, case: Case) -> None:
    verdict = judge(case.program, case.tests, setup=case.setup, entry_point=case.entry_point, timeout_s=5.0)
    assert verdict["outcome"] == case.outcome, verdict
    assert case.detail in verdict["detail"]


@pytest.mark.parametrize("case", EXCEPTIONS, ids=lambda case: case.name)
def test_exceptions_are_what_they_are_said_to_be(judge: Judge, case: Case) -> None:
    verdict = judge(case.program, case.tests, timeout_s=5.0)
    assert verdict["outcome"] == case.outcome, verdict
    assert case.detail in verdict["detail"]


def test_there_are_enough_of_them() -> None:
    assert len({case.name for case in ALIKE}) == len(ALIKE) >= 100
    assert len(ACCIDENTS) >= 40


@pytest.mark.parametrize("case", ALIKE, ids=lambda case: case.name)
def test_table_agrees_with_plain_execution(case: Case, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert passes_in_plain_execution(case) == (case.outcome == "passed")
