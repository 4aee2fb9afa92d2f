"""How often the report page is drawn and a checkpoint is saved as a run goes on, each for a small share of the time."""

import time
from collections import deque
from collections.abc import Callable

SHORTEST, LONGEST = 10.0, 120.0  # seconds between two pages
SHARE = 0.01  # of the time so far, for all pages together

MOST_LOST = 120.0  # seconds of work that may be lost when a run is killed at any time
SECONDS_BETWEEN_SAVES = 60.0
SHARE_FOR_SAVES = 0.1  # of the time, unless more would be lost then
FIRST_SAVE_SECONDS = 15.0  # that it is expected to take before there was one
STEPS_LOOKED_AT = 5


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


class SavePace:
    """Says at a step's end whether to save a checkpoint, so that never more than MOST_LOST seconds of work are lost.

    What is lost at worst is the time from one saved state until the next has reached the store: steps as long as the
    last few, the saving itself, and the way. Where these are too long for that, so much is lost: then a checkpoint is
    saved after every step that comes SECONDS_BETWEEN_SAVES after the last one, for at most half the time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.save_seconds: float | None = None
        self.begin()

    def begin(self) -> None:
        """All work until now is safe."""
        self.safe = self.resumed = self.ended = self.clock()
        self.steps: deque[float] = deque(maxlen=STEPS_LOOKED_AT)

    def is_due(self, way: float) -> bool:
        """Whether to save now, at a step's end. way: seconds that a checkpoint takes from here to the store."""
        self.ended = self.clock()
        self.steps.append(self.ended - self.resumed)
        self.resumed = self.ended
        save = self.save_seconds or 0.0
        step, rest = max(self.steps), way + (FIRST_SAVE_SECONDS if self.save_seconds is None else save)
        elapsed = self.ended - self.safe
        if save + step + rest > MOST_LOST:
            return elapsed >= max(SECONDS_BETWEEN_SAVES, 2 * save)
        return elapsed >= max(SECONDS_BETWEEN_SAVES, save / SHARE_FOR_SAVES) or elapsed + step + rest > MOST_LOST

    def saved(self) -> None:
        """The state at the last step's end has been saved."""
        self.resumed, self.safe = self.clock(), self.ended
        self.save_seconds = self.resumed - self.ended
