"""Which split a problem belongs to, and the order in which a seed draws problems.

A row's own split wins, then that of its file, then MBPP's official split by id where the data is MBPP, else a seeded
80/20 of train and test. Held-out problems come from `test` and nothing else does, unless all of it is asked for.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from components.prepare.rows import MbppRow, Row
from components.settings import SPLITS
from components.shared.errors import UserError

# The split of Austin et al. 2021 (arXiv:2108.07732), section 2.1; ids are inclusive.
OFFICIAL_SPLITS = {"prompt": (1, 10), "test": (11, 510), "validation": (511, 600), "train": (601, 974)}
SHARE_OF_TEST = 0.2
SHARE_THAT_IS_MBPP = 0.5  # of rows whose first test is MBPP's; the sanitized file shares most of them
# For MBPP's ids 1 to 974 in order: the first four hexadecimal digits of what first_test_digest hashes.
MBPP_TESTS = Path(__file__).with_name("mbpp_tests.txt")
ALIASES = {"val": "validation", "valid": "validation", "dev": "validation"}


class Numbered(Protocol):
    """Anything that has a task_id."""

    @property
    def task_id(self) -> str: ...


AnyRow = TypeVar("AnyRow", bound=Numbered)


def assign_splits(rows: Sequence[Row], seed: int, *, share_of_test: float = SHARE_OF_TEST) -> dict[str, str]:
    """task_id -> split for every row; UserError for an unknown split or a task_id that occurs twice.

    share_of_test: of the rows whose split nothing says.
    """
    refuse_twice(rows)
    splits = {row.task_id: _declared(row) for row in rows}
    undeclared = [row for row in rows if not splits[row.task_id]]
    if is_mbpp(undeclared):
        splits |= {row.task_id: official_split(row.task_id) for row in undeclared}
    unknown = drawn([row for row in undeclared if not splits[row.task_id]], seed, purpose="split")
    tests = max(1, round(share_of_test * len(unknown)))
    splits |= {row.task_id: "test" if index < tests else "train" for index, row in enumerate(unknown)}
    return splits


def refuse_twice(rows: Sequence[Row]) -> None:
    """UserError for a task_id that occurs twice."""
    places: dict[str, str] = {}
    for row in rows:
        if row.task_id in places:
            raise UserError(f"{row.place}: task_id {row.task_id!r} was used before, at {places[row.task_id]}.")
        places[row.task_id] = row.place


def _declared(row: Row) -> str:
    split = ALIASES.get(row.split, row.split)
    if split and split not in SPLITS:
        raise UserError(f"{row.place}: split {row.split!r} is unknown; use one of {', '.join(SPLITS)}.")
    return split


def official_split(task_id: str) -> str:
    """MBPP's split of an id, or "" when the id is none of MBPP's."""
    number = int(task_id) if task_id.isdecimal() else 0
    return next((split for split, (first, last) in OFFICIAL_SPLITS.items() if first <= number <= last), "")


def is_mbpp(rows: Sequence[Row]) -> bool:
    """Whether at least half of the rows are MBPP's, judged by id and first test, which survive an edited text."""
    digests = MBPP_TESTS.read_text(encoding="ascii").split()
    known = sum(
        official_split(row.task_id) != "" and first_test_digest(row) == digests[int(row.task_id) - 1] for row in rows
    )
    return known >= max(1.0, SHARE_THAT_IS_MBPP * len(rows))


def first_test_digest(row: Row) -> str:
    """Four hexadecimal digits of the first published test without its blanks, or "" for other rows."""
    if not isinstance(row.content, MbppRow) or not row.content.test_list:
        return ""
    return hashlib.sha256("".join(row.content.test_list[0].split()).encode()).hexdigest()[:4]


def drawn(rows: Sequence[AnyRow], seed: int, *, purpose: str) -> list[AnyRow]:
    """The rows in the order that a seed draws them in for a purpose.

    Each row has its own random number, so a row that is added, removed or repaired moves no other.
    """

    def key(row: AnyRow) -> bytes:
        return hashlib.sha256(f"{seed} {purpose} {row.task_id}".encode()).digest()

    return sorted(rows, key=key)
