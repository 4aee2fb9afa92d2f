"""The one grade: a program passes when the sandbox saw every test pass. The reward is 1.0 or 0.0.

filter, train and evaluate all grade here. Infrastructure failures are counted, never scored; when their share
passes `infra_limit` the run stops, because training on the rest would teach whatever happened to survive. It stops as
well when nothing of a batch could be judged, however much was judged before: the sandbox is gone, and every further
batch would be drawn in vain.
"""

from collections.abc import Sequence

from components.shared.errors import InfraError
from components.shared.problem import Problem
from components.shared.sandbox import Item, SandboxClient, SandboxUnavailable, Verdict

REFERENCE_FACTOR = 20.0  # a program may use this many times the reference's CPU time, as EvalPlus scales its limits
SHORTEST_TIMEOUT_S = 0.5
JUDGED_BEFORE_LIMIT = 50  # a share of fewer verdicts than this says nothing, unless all of a batch were lost


def timeout_of(problem: Problem, test_timeout_s: float) -> float:
    """CPU seconds for one program: 20 times the reference's own, between 0.5 s and test_timeout_s."""
    if problem.reference_cpu_ms is None:
        return test_timeout_s
    scaled = REFERENCE_FACTOR * problem.reference_cpu_ms / 1000
    return min(test_timeout_s, max(SHORTEST_TIMEOUT_S, scaled))


class Grader:
    """Judges programs against their problems' visible tests and keeps count of what could not be judged."""

    def __init__(self, client: SandboxClient, *, test_timeout_s: float, infra_limit: float) -> None:
        self.client, self.test_timeout_s, self.infra_limit = client, test_timeout_s, infra_limit
        self.judged = self.lost = 0

    def grade(self, pairs: Sequence[tuple[Problem, str]]) -> list[Verdict]:
        """One verdict a (problem, program), in order; InfraError when too many, or all of them, could not be judged.

        SandboxUnavailable, which is an InfraError, when no replica answered anything. A lone program of which a sandbox
        at work says that it could not be judged is part of the share, no more: it may have taken its worker along.

        A verdict depends on its item alone, so a program that several completions of a problem share is judged once.
        """
        different = {(problem.task_id, program): (problem, program) for problem, program in pairs}
        answered = self.client.answered
        judged = dict(
            zip(different, self.client.judge([self._item(*pair) for pair in different.values()]), strict=True)
        )
        verdicts = [judged[problem.task_id, program] for problem, program in pairs]
        lost = [verdict.detail for verdict in verdicts if verdict.passed is None]
        self.count(len(verdicts), lost, away=self.client.answered == answered, alone=len(different) == 1)
        return verdicts

    def _item(self, problem: Problem, program: str) -> Item:
        return Item(
            program=program,
            entry_point=problem.entry_point,
            setup=problem.setup,
            tests=problem.tests,
            timeout_s=timeout_of(problem, self.test_timeout_s),
        )

    def count(self, asked: int, lost: Sequence[str], *, away: bool = False, alone: bool = False) -> None:
        """Count programs that the sandbox was asked about; lost: why there is no answer, for each that got none.

        away: no replica answered anything. alone: all of them are the same program. InfraError as `grade` says.
        """
        self.judged += asked
        self.lost += len(lost)
        everything = 0 < asked == len(lost)
        failure = SandboxUnavailable if away else InfraError
        reason = f"the last reason: {lost[-1] if lost else 'see the log'}."
        if (self.judged >= JUDGED_BEFORE_LIMIT or everything) and self.lost > self.infra_limit * self.judged:
            raise failure(
                f"{self.lost} of {self.judged} programs could not be judged, more than infra_limit "
                f"{self.infra_limit:g} allows; {reason}"
            )
        if everything and self.infra_limit < 1 and (away or not alone):
            raise failure(
                f"All of the last {asked} programs could not be judged ({self.lost} of {self.judged} so far), which "
                f"means that the sandbox is away or broken; {reason}"
            )


def reward_of(verdict: Verdict) -> float | None:
    """1.0 when every test passed, 0.0 when the program is to blame, None when the infrastructure is."""
    return None if verdict.passed is None else float(verdict.passed)


def missed_share(passed_visible: float, failed_hidden: float) -> float | None:
    """Of what passes the visible tests, the share that fails a hidden one; None where nothing passes.

    passed_visible, failed_hidden: how many do, or their mean rates. It is the sign of reward hacking, in training and
    before and after it; the *gap*, failed_hidden as a rate of all samples, grows with every gain and is none.
    """
    return failed_hidden / passed_visible if passed_visible else None


def count_outcomes(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """How many verdicts of each outcome, the most frequent first."""
    counts: dict[str, int] = {}
    for verdict in verdicts:
        counts[verdict.outcome] = counts.get(verdict.outcome, 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
