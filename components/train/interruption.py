"""SIGTERM: the run ends where it loses nothing, with a checkpoint, if whoever stops it leaves it the time.

While completions are drawn and judged no weight changes, so a run that is stopped there ends at once, with what the
last step left; anywhere else it ends with the step. On Kubeflow there is no time for either: the container is gone
within a tenth of a second, and the run goes on from the last checkpoint.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):
    """SIGTERM came while no weight was changing."""


class Interruption:
    """Whether the run was asked to stop."""

    def __init__(self, *, alone: bool = True) -> None:
        """alone: no other process waits for this one, which may then stop between the others' steps."""
        self.alone = alone
        self.requested = False
        self.weights_rest = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take SIGTERM as a request to stop, and more of them as the same; only the main thread can."""
        before = signal.signal(signal.SIGTERM, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Stop at once when asked to within this block, where no weight changes."""
        if self.requested and self.alone:
            raise Interrupted
        outside, self.weights_rest = self.weights_rest, self.alone
        try:
            yield
        finally:
            self.weights_rest = outside

    def _note(self, number: int, frame: FrameType | None) -> None:
        first, self.requested = not self.requested, True
        if self.weights_rest and first:
            raise Interrupted
