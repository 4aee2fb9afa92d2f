"""The regression set: problems of another kind, scored before and after: what a gain costs elsewhere is seen there."""

from collections.abc import Sequence

from components.prepare.humaneval import PlusRow, with_plus_tests
from components.prepare.raw import RawRow
from components.prepare.references import REFERENCE, Fault, References
from components.prepare.rows import check_row, to_problem, unusable_row
from components.prepare.selection import HELDOUT_SPLIT
from components.prepare.signature import UnusableRow
from components.prepare.sources import read_dataset
from components.prepare.splits import refuse_twice
from components.shared.errors import UserError
from components.shared.problem import REGRESSION_SPLIT, Problem


def regression_problems(address: str, revision: str, references: References) -> list[Problem]:
    """All problems of the set whose references pass; of a data set with splits, those of its test split.

    What is left out stands in `references`. UserError when nothing is left, or the data set cannot be used.
    """
    data = read_dataset(address, revision)
    rows = [check_row(raw) for raw in data.rows]
    refuse_twice(rows)
    rows = [row for row in rows if row.split == HELDOUT_SPLIT] or rows
    problems: list[Problem] = []
    for row in rows:
        try:
            problems.append(to_problem(row, split=REGRESSION_SPLIT, source=data.name))
        except UnusableRow as reason:
            references.quarantined.append(unusable_row(row, REGRESSION_SPLIT, data.name, str(reason)))
    problems = answered(references, problems, data.rows)
    task = "checking regression problems"
    taken = references.take(problems, len(problems), task=task, keep_weak=True)
    if not taken:
        first = f": {references.quarantined[0]['reason']}" if references.quarantined else ", for it has no rows"
        raise UserError(f"regression_dataset {address} gives no problem whose reference passes its tests{first}.")
    return taken


def answered(references: References, problems: Sequence[Problem], rows: Sequence[RawRow]) -> list[Problem]:
    """The problems, those of rows in EvalPlus's format with the tests that their references' answers make.

    Where a reference answers nothing there is no test; such a problem is put aside.
    """
    checked = [check_row(raw) for raw in rows if "base_input" in raw.fields]
    plus = {row.task_id: row.content for row in checked if isinstance(row.content, PlusRow)}
    asked = [problem for problem in problems if problem.task_id in plus]
    found = with_plus_tests(references.grader, asked, [plus[problem.task_id] for problem in asked])
    by_id = {problem.task_id: problem for problem in found}
    tested = [by_id.get(problem.task_id, problem) for problem in problems]
    for problem in tested:
        if not problem.tests:
            references.put_aside(problem, Fault(REFERENCE, "its reference answers none of its inputs"))
    return [problem for problem in tested if problem.tests]
