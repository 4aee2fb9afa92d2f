"""A model's judged trials, drawn a batch at a time and kept in the store: what is done is not done twice.

A step that is killed, or whose sandbox goes away, loses one batch; the next attempt takes the rest from the store. So
does another run with the same model, problems and settings: a base is not sampled anew for every adapter. The key is a
digest of everything that the trials depend on. What the sandbox could not judge is not kept, so that it is tried again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.evaluate import models
from components.evaluate.comparison import Trial
from components.evaluate.models import Subjects
from components.shared import kept
from components.shared.attempts import Attempt, attempt
from components.shared.batches import batch_effect, fit_of, is_exact
from components.shared.grading import Grader
from components.shared.problem import Problem
from components.shared.program import program_of
from components.shared.progress import Progress, say
from components.shared.sampling import Completion, Sampling
from components.shared.sandbox import Verdict
from components.shared.store import open_store

CODE = (Path(__file__), Path(models.__file__))  # what a trial follows from beside kept.CODE


class Examination:
    """Draws and judges the trials of one model; grader and sampling are those of the whole step."""

    def __init__(
        self,
        subjects: Subjects,
        which: str,
        grader: Grader,
        *,
        seed: int,
        given: Mapping[str, Any],
        step: str = "evaluate",
        role: str = "",
    ) -> None:
        """which: `base` or `tuned`. seed: of its sampling. given: the step's parameters.

        step: whose log lines these are. role: what the model is called in them, where that is neither base nor tuned.
        """
        self.subjects, self.which, self.grader, self.seed = subjects, which, grader, seed
        self.step, self.role = step, role or which
        self.store = open_store()
        self.facts = {
            "model": subjects.identity(which),
            "seed": seed,
            "judge": grader.client.version(),
            "test_timeout_s": given["test_timeout_s"],
        }

    def trials(self, problems: Sequence[Problem], sampling: Sampling, *, samples: int, what: str) -> list[list[Trial]]:
        """`samples` trials at each problem, in the problems' order; what: said in the progress line."""
        facts = {**self.facts, "sampling": vars(sampling), "samples": samples}
        cache = kept.Kept(self.store, kept.context_key(facts, more_code=CODE), step=self.step)
        digests = [digest_of(problem) for problem in problems]
        places: dict[str, list[int]] = {}
        for place, digest in enumerate(digests):
            places.setdefault(digest, []).append(place)
        found: dict[int, list[Trial]] = {}

        def take(row: dict[str, Any]) -> None:
            for place in places.get(row["problem"], []):
                found[place] = [trial_of(one, problems[place], sampling) for one in row["trials"]]

        cache.read(take)
        progress = Progress(self.step, f"{self.role} model, {what}", len(problems) * samples, unit="completions")
        if found:
            say(self.step, f"{len(found)} of {len(problems)} problems were taken from the store ({what})")
            progress.skip_to(len(found) * samples)
        # Longest first: what does not fit into memory shows at once, and batches hold prompts of one length.
        missing = sorted((p for p in range(len(problems)) if p not in found), key=lambda p: -len(problems[p].prompt))
        while missing:
            model = self.subjects.load(self.which)
            size = max(1, fit_of(model).rows // samples)
            part, missing = missing[:size], missing[size:]
            rows = self._draw(model, [problems[place] for place in part], sampling, samples, progress)
            found |= dict(zip(part, rows, strict=True))
            cache.write(
                {"problem": digests[place], "trials": [row_of(trial) for trial in found[place]]}
                for place in part
                if not any(lost(trial) for trial in found[place])
            )
        return [found[place] for place in range(len(problems))]

    def batch_effect(self, problems: Sequence[Problem], sampling: Sampling) -> dict[str, Any] | None:
        """How many completions change with the batch size; None where none can, or where none was drawn by this run."""
        model = self.subjects.model
        if model is None or self.subjects.which != self.which or is_exact(model):
            return None
        return batch_effect(model, self.subjects.tokenizer, problems, sampling, seed=self.seed, step=self.step)

    def _draw(
        self, model: Any, part: Sequence[Problem], sampling: Sampling, samples: int, progress: Progress
    ) -> list[list[Trial]]:
        done = progress.done
        attempts = attempt(
            model, self.subjects.tokenizer, part, sampling, samples=samples, seed=self.seed, grader=self.grader,
            on_progress=lambda count: progress.update(done + count), step=self.step,
        )  # fmt: skip
        asked = {
            (row, place): (problem.on_hidden_tests(), one.program)
            for row, problem in enumerate(part)
            for place, one in enumerate(attempts[row])
            if problem.hidden_tests and one.verdict.passed
        }
        hidden = dict(zip(asked, self.grader.grade(list(asked.values())), strict=True))
        return [
            [Trial(one, hidden.get((row, place))) for place, one in enumerate(group)]
            for row, group in enumerate(attempts)
        ]


def lost(trial: Trial) -> bool:
    """Whether the sandbox gave no verdict on one of its programs."""
    return trial.verdict.passed is None or (trial.hidden is not None and trial.hidden.passed is None)


def digest_of(problem: Problem) -> str:
    """What a problem's trials depend on; what its reference was measured to take differs from time to time."""
    return kept.digest(problem.model_dump(exclude={"reference_cpu_ms"}))


def row_of(trial: Trial) -> dict[str, Any]:
    """What the store keeps of a trial; the program follows from the completion."""
    completion = trial.attempt.completion
    return {
        "text": completion.text,
        "token_ids": completion.token_ids,
        "ended_by": completion.ended_by,
        "verdict": trial.verdict.model_dump(),
        "hidden": trial.hidden.model_dump() if trial.hidden else None,
    }


def trial_of(row: Mapping[str, Any], problem: Problem, sampling: Sampling) -> Trial:
    """The trial that row_of described; what the prompt's tokens were is not kept."""
    completion = Completion(row["text"], tuple(row["token_ids"]), (), row["ended_by"])
    program = program_of(problem, completion.text, use_chat_template=sampling.use_chat_template)
    hidden = Verdict.model_validate(row["hidden"]) if row["hidden"] else None
    return Trial(Attempt(completion, program, Verdict.model_validate(row["verdict"])), hidden)
