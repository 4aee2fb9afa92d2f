"""Which problems a model was trained on: by its own run, and by those before it whose adapter it started from.

A later run of a series may have another seed, other splits or an edited data set, and so measure on what an earlier one
was trained on. So every model carries the marks of all those problems beside it, in trained_on.json, and no problem of
them decides whether it is published or counts as held out.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.shared.errors import InfraError, UserError
from components.shared.problem import Problem
from components.shared.trained import TRAINED_ON, small_file


@dataclass(frozen=True)
class TrainedOn:
    """marks: those of all the problems, as marks_of gives them. complete: False where a model before did not say."""

    marks: frozenset[str]
    complete: bool

    def knows(self, problem: Problem) -> bool:
        """Whether it was trained on a problem with this prompt, or with these tests."""
        return not self.marks.isdisjoint(marks_of(problem))

    def and_also(self, problems: Iterable[Problem]) -> "TrainedOn":
        """The same after training on these problems as well."""
        return TrainedOn(self.marks.union(*map(marks_of, problems)), self.complete)


UNTRAINED = TrainedOn(frozenset(), complete=True)
UNKNOWN = TrainedOn(frozenset(), complete=False)


def marks_of(problem: Problem) -> tuple[str, str]:
    """Marks of the prompt and of the tests: an id, and one of the two, may be changed without another problem."""
    return _mark([problem.prompt]), _mark(problem.tests)


def _mark(texts: Sequence[str]) -> str:
    """16 hexadecimal digits of the texts but for their order and white space."""
    bare = sorted("".join(text.split()) for text in texts)
    return hashlib.sha256("\0".join(bare).encode()).hexdigest()[:16]


def write_trained_on(folder: Path, told: TrainedOn) -> None:
    """Write trained_on.json into a model's folder, beside model.json."""
    content = {"complete": told.complete, "marks": sorted(told.marks)}
    (folder / TRAINED_ON).write_text(json.dumps(content) + "\n")


def read_trained_on(folder: Path) -> TrainedOn:
    """What a model's folder says; UNKNOWN where it says nothing, as that of an adapter that is none of ours."""
    file = folder / TRAINED_ON
    return _parsed(file.read_bytes() if file.is_file() else None)


def trained_on_at(address: str) -> TrainedOn:
    """What the model at an address was trained on; UNTRAINED for the empty one, which means the base."""
    if not address:
        return UNTRAINED
    try:
        return _parsed(small_file(address, TRAINED_ON))
    except (UserError, InfraError):  # the model is gone by now, or its store away
        return UNKNOWN


def _parsed(content: bytes | None) -> TrainedOn:
    try:
        told = json.loads(content or b"")
        return TrainedOn(frozenset(map(str, told["marks"])), bool(told["complete"]))
    except (ValueError, KeyError, TypeError):
        return UNKNOWN


def parted(problems: Sequence[Problem], *lineages: TrainedOn) -> tuple[list[Problem], list[Problem]]:
    """(problems that none of the models was trained on, the others), in order."""
    known = [any(told.knows(problem) for told in lineages) for problem in problems]
    new = [problem for problem, is_known in zip(problems, known, strict=True) if not is_known]
    return new, [problem for problem, is_known in zip(problems, known, strict=True) if is_known]
