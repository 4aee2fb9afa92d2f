"""What is known of an item's tests before there is a program, kept for the next program that comes with them.

In training the same tests come again and again, with another program each time. What is kept is compiled from their
source and computed by it alone; no program and no other item has a part in it. Tests that may do more than compute
never run where it is kept (`examiner.examine`), so nothing can change it or look at it.
"""

import functools
from typing import NamedTuple

from sandbox import calls
from sandbox.examination import Examination, compile_item
from sandbox.foresight import foresee
from sandbox.link import Ahead

MAX_KEPT = 1024  # sets of tests
MAX_KEPT_CHARACTERS = 4096  # of one set: larger ones are prepared anew


class Preparation(NamedTuple):
    """Tests, compiled and looked through, and the calls that can be sent with the program."""

    examination: Examination
    ahead: Ahead


def prepare(setup: str, tests: list[str]) -> Preparation:
    """Prepare the tests of one item, or find them prepared. Raises TestFault."""
    small = len(setup) + sum(map(len, tests)) <= MAX_KEPT_CHARACTERS
    return (_kept if small else _prepare)(setup, tuple(tests))


def prepare_calls(setup: str, wanted: list[str]) -> Preparation:
    """Prepare calls whose values are wanted (see calls): they run as tests that keep their value. Raises TestFault."""
    wanted = [call.strip() for call in wanted]
    return Preparation(prepare(setup, calls.as_tests(wanted)).examination, prepare(setup, wanted).ahead)


def _prepare(setup: str, tests: tuple[str, ...]) -> Preparation:
    examination = compile_item(setup, list(tests))
    return Preparation(examination, foresee(examination))


# Its store has no name: what a format string can follow, from a generator's frame to a module's names, ends before it.
_kept = functools.lru_cache(MAX_KEPT)(_prepare)
