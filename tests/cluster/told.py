"""What one process has to say at the end of all tests on a cluster, beside the tests' own outcomes.

tests/e2e.py gives one to each process, collects what they say, and prints it.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import pytest


@dataclass
class Told:
    """What took how long, and what was on the cluster before the first test.

    seconds: (name, seconds) as often as it was done. before: see leftovers.present; None where no cluster was used.
    """

    seconds: list[tuple[str, float]] = field(default_factory=list)
    before: list[str] | None = None

    @contextlib.contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Note how long the block takes; not of one that fails."""
        begun = time.monotonic()
        yield
        self.seconds.append((what, time.monotonic() - begun))

    def packed(self) -> dict[str, Any]:
        """As plain objects, for another process."""
        return asdict(self)

    def add(self, packed: dict[str, Any]) -> None:
        """Take over what another process has packed."""
        other = Told(**packed)
        self.seconds += other.seconds
        self.before = other.before if self.before is None else self.before

    def lines(self) -> list[str]:
        """One line for each thing that was timed, however often it was done."""
        taken: dict[str, list[float]] = {}
        for what, seconds in self.seconds:
            taken.setdefault(what, []).append(seconds)
        width = max(map(len, taken), default=0)
        return [
            f"{what:<{width}}  {sum(each):6.0f} s" + (f", {len(each)} times" if len(each) > 1 else "")
            for what, each in taken.items()
        ]

    @classmethod
    def of(cls, config: pytest.Config) -> Self:
        """This process's own."""
        told = config.stash.setdefault(TOLD, cls())
        assert isinstance(told, cls)
        return told


TOLD = pytest.StashKey[Told]()
