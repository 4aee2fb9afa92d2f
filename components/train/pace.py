"""How often the report page is drawn as a run goes on: soon at first, and all pages for a small share of the time."""

import time
from collections.abc import Callable

SHORTEST, LONGEST = 10.0, 120.0  # seconds between two pages
SHARE = 0.01  # of the time so far, for all pages together


class Pace:
    """Says when the next page is due. A page is expected to take as long as the last one did."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self.began = self.last = self.clock()
        self.spent = self.expected = 0.0

    def is_due(self) -> bool:
        """Whether to draw one now; a reader never waits longer than LONGEST for it."""
        now = self.clock()
        affordable = self.spent + self.expected <= SHARE * (now - self.began)
        return now - self.last >= (SHORTEST if affordable else LONGEST)

    def drawn(self, start: float) -> None:
        """A page has been drawn since `start`, by the same clock."""
        self.last = self.clock()
        self.expected = self.last - start
        self.spent += self.expected
