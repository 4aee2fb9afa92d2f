"""Which problems are held out, which are candidates for training, and what is left for validation.

What repeats a held-out problem, or one of the regression set, is not trained on; what repeats a training problem does
not validate. Held-out problems are never dropped for that: the measure stays what it is.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from components.prepare.duplicates import Duplicate, Index, repeats_within
from components.prepare.references import DUPLICATE, Fault, References
from components.prepare.splits import drawn
from components.settings import SPLITS
from components.shared.errors import UserError
from components.shared.problem import REGRESSION_SPLIT, Problem

HELDOUT_SPLIT, VALIDATION_SPLIT = "test", "validation"
ROLES = {HELDOUT_SPLIT: "held-out", REGRESSION_SPLIT: "regression"}


@dataclass(frozen=True)
class Selection:
    """No problem is in two of the three lists. warnings: sentences for the person who started the run.

    dropped: near-duplicates that were left out; repeats: name of a list -> pairs within it, which stay.
    """

    candidates: list[Problem]
    heldout: list[Problem]
    validation: list[Problem]
    warnings: list[str]
    dropped: list[Duplicate]
    repeats: dict[str, list[Duplicate]]

    @property
    def all(self) -> list[Problem]:
        """The problems of all three lists."""
        return self.candidates + self.heldout + self.validation


def select(
    problems: Sequence[Problem],
    references: References,
    *,
    dataset: str,
    candidate_splits: Sequence[str],
    max_candidate_samples: int,
    max_eval_samples: int,
    seed: int,
    regression: Sequence[Problem],
) -> Selection:
    """Draw held-out problems from `test`, then candidates from candidate_splits, those held out left aside.

    UserError when either would be empty; with max_candidate_samples 0 none is asked for.
    """
    heldout_pool = drawn(_of(problems, [HELDOUT_SPLIT]), seed, purpose="held-out")
    _require(heldout_pool, problems, dataset, [HELDOUT_SPLIT], "which held-out problems come from")
    heldout = references.take(heldout_pool, max_eval_samples, task="checking held-out problems", keep_weak=True)
    if max_candidate_samples == 0:
        _refuse_none(heldout, "held-out", references, dataset)
        return _heldout_alone(heldout, max_eval_samples)
    used = {problem.task_id for problem in heldout} | references.failed
    pool = [problem for problem in _of(problems, candidate_splits) if problem.task_id not in used]
    _require(pool, problems, dataset, candidate_splits, "which training problems come from")
    new, dropped = _new(drawn(pool, seed, purpose="candidates"), Index([*heldout, *regression]), references)
    candidates = references.take(new, max_candidate_samples, task="checking training problems", keep_weak=False)
    used |= {problem.task_id for problem in candidates} | references.failed
    rest = [problem for problem in _of(problems, [VALIDATION_SPLIT]) if problem.task_id not in used]
    rest, repeating = _new(rest, Index(candidates), references)
    validation = references.take(rest, len(rest), task="checking validation problems", keep_weak=True)
    for chosen, what in ((heldout, "held-out"), (candidates, "training")):
        _refuse_none(chosen, what, references, dataset)
    shortages = [
        _shortage("max_eval_samples", max_eval_samples, len(heldout), [HELDOUT_SPLIT]),
        _shortage("max_candidate_samples", max_candidate_samples, len(candidates), candidate_splits),
    ]
    lists = {"training": candidates, "held-out": heldout, "validation": validation}
    return Selection(
        candidates=candidates,
        heldout=heldout,
        validation=validation,
        warnings=[warning for warning in shortages if warning],
        dropped=dropped + repeating,
        repeats={name: repeats_within(chosen) for name, chosen in lists.items()},
    )


def _refuse_none(chosen: Sequence[Problem], what: str, references: References, dataset: str) -> None:
    if not chosen:
        raise UserError(
            f"No {what} problem of the data set {dataset} is left, for none passes its checks; the first: "
            f"task {references.quarantined[0]['task_id']}, {references.quarantined[0]['reason']}."
        )


def _heldout_alone(heldout: list[Problem], asked: int) -> Selection:
    """Where nothing is trained on, there is nothing that a held-out problem could repeat."""
    shortage = _shortage("max_eval_samples", asked, len(heldout), [HELDOUT_SPLIT])
    repeats = {"held-out": repeats_within(heldout)}
    return Selection([], heldout, [], [shortage] if shortage else [], dropped=[], repeats=repeats)


def _new(pool: Sequence[Problem], measured: Index, references: References) -> tuple[list[Problem], list[Duplicate]]:
    """The problems that repeat none of the index, and the pairs for which the others were put aside."""
    new, dropped = [], []
    for problem in pool:
        found = measured.repeated_by(problem)
        if not found:
            new.append(problem)
            continue
        closest = max(found, key=lambda pair: pair.similarity)
        dropped.append(closest)
        references.put_aside(problem, Fault(DUPLICATE, described(closest)))
    return new, dropped


def described(pair: Duplicate) -> str:
    """What a problem repeats, in one clause."""
    return f"it shares {pair.why} with {ROLES.get(pair.other.split, 'training')} problem {pair.other.task_id}"


def _of(problems: Sequence[Problem], splits: Sequence[str]) -> list[Problem]:
    return [problem for problem in problems if problem.split in splits]


def _require(pool: Sequence[Problem], all_: Sequence[Problem], dataset: str, splits: Sequence[str], role: str) -> None:
    if not pool:
        sizes = Counter(problem.split for problem in all_)
        held = ", ".join(f"{sizes[split]} {split}" for split in SPLITS if sizes[split])
        raise UserError(
            f"The data set {dataset} has no problem left for {' or '.join(splits)}, {role}: it has {held or 'none'}."
        )


def _shortage(parameter: str, asked: int, found: int, splits: Sequence[str]) -> str:
    if found >= asked:
        return ""
    where = f"split {splits[0]}" if len(splits) == 1 else f"splits {', '.join(splits)}"
    return f"{parameter} asks for {asked} problems, {where} could give {found}: all {found} are used."
