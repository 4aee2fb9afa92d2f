"""Stopped sampling: a problem is drawn until one of its samples has passed and one has failed, or k are drawn.

The samples of a problem are numbered and come in order, each from a seed of its own. So what is kept is what k samples
of every problem would have kept, and no problem gets more samples than it takes to know: its first two at once, then
one at a time. Batches are filled from all undecided problems and stay full until fewer are left than a batch holds.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from components.filter.cache import Sample

Place = tuple[int, int]  # a problem, by its place among the candidates, and a sample's number


@dataclass
class History:
    """The samples of one problem, by number."""

    found: dict[int, Sample] = field(default_factory=dict)

    def samples(self, most: int, *, every: bool) -> list[Sample]:
        """The first samples, up to the one that decides and `most` in all; with `every` simply up to `most`.

        Ends at the first that has not been drawn. What a cache holds beyond is left out, so that a result does not
        depend on what was there.
        """
        used: list[Sample] = []
        for number in range(most):
            if number not in self.found or (decided(used) and not every):
                break
            used.append(self.found[number])
        return used

    def wanted(self, most: int, *, every: bool) -> list[int]:
        """The numbers to draw next: none once it is decided or `most` are there."""
        used = self.samples(most, every=every)
        if decided(used) and not every:
            return []
        missing = [number for number in range(most) if number not in self.found]
        if every:
            return missing
        first = missing[:1]
        return [number for number in missing if number < 2] or first


def decided(samples: Sequence[Sample]) -> bool:
    """Whether one has passed and one has failed; one that could not be judged is neither."""
    return {True, False} <= {sample.passed for sample in samples}


def draw(
    histories: Sequence[History],
    order: Sequence[int],
    *,
    most: int,
    every: bool,
    rows: Callable[[], int],
    batch: Callable[[Sequence[Place]], Sequence[Sample]],
    on_progress: Callable[[int], None],
) -> None:
    """Draw what is missing of every history, in batches, beginning in `order` (the problems' places).

    rows: how many the next batch may hold. batch: draws and judges. on_progress gets the number of problems done.
    """
    queue: deque[Place] = deque()
    waiting: dict[int, int] = {}  # samples of a problem that are queued or being drawn

    def ask(place: int) -> None:
        numbers = histories[place].wanted(most, every=every)
        if numbers:
            waiting[place] = len(numbers)
            queue.extend((place, number) for number in numbers)

    for place in order:
        ask(place)
    on_progress(len(histories) - len(waiting))
    while queue:
        places = [queue.popleft() for _ in range(min(len(queue), rows()))]
        for (place, number), sample in zip(places, batch(places), strict=True):
            histories[place].found[number] = sample
            waiting[place] -= 1
            if not waiting[place]:
                del waiting[place]
                ask(place)
        on_progress(len(histories) - len(waiting))
