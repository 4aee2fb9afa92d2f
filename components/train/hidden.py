"""Hidden tests during training: whether what passes the rewarded tests solves the problem, too.

They are judged while the policy is being updated, of those completions alone that pass the visible tests, and only
counted: no reward, prompt or random number depends on them. A share of failures that grows says that the policy learns
the visible tests rather than the task.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.shared.grading import Grader
from components.shared.problem import Problem
from components.shared.program import program_of
from components.shared.sandbox import SandboxClient, Verdict
from components.train.rewards import Judged

RETRY_SECONDS = 10.0  # a sandbox that is away for longer is the next rewards' trouble; here a step goes uncounted
MOST_WAITING = 0.05  # share of the time so far that training may have waited for these verdicts


@dataclass(frozen=True)
class Missed:
    """A completion that passes the visible tests and not the hidden ones; test: the first that does not hold."""

    task_id: str
    completion: str
    test: str


class HiddenTests:
    """Judges a step's passing completions in the background; one step at a time."""

    def __init__(self, client: SandboxClient, *, test_timeout_s: float, use_chat_template: bool) -> None:
        # Every verdict may be lost: nothing but a count hangs on it.
        self.grader = Grader(client, test_timeout_s=test_timeout_s, infra_limit=1.0)
        self.use_chat_template = use_chat_template
        self.missed: list[Missed] = []  # of the last step that was counted
        self.started, self.waited = time.monotonic(), 0.0
        self._thread: threading.Thread | None = None
        self._pairs: list[tuple[Problem, str, str]] = []
        self._verdicts: list[Verdict] | Exception = []

    @classmethod
    def from_parameters(cls, given: Mapping[str, Any]) -> "HiddenTests":
        """With a client of its own, which gives up early."""
        client = SandboxClient.from_setting(given["sandbox_url"])
        client.retry_seconds = RETRY_SECONDS
        return cls(client, test_timeout_s=given["test_timeout_s"], use_chat_template=given["use_chat_template"])

    def start(self, batch: Sequence[Judged]) -> None:
        """Begin to judge a step's completions, unless training has had to wait too much for that."""
        self._thread = None
        passing = [one for one in batch if one.verdict.passed and one.problem.hidden_tests]
        self._pairs = [(one.problem, one.completion, self._program(one)) for one in passing]
        if self._pairs and self.waited <= MOST_WAITING * (time.monotonic() - self.started):
            self._thread = threading.Thread(target=self._judge, name="hidden-tests", daemon=True)
            self._thread.start()

    def finish(self) -> dict[str, int] | None:
        """Counts of the step: completions that pass the visible tests, and those of them that fail a hidden one.

        None where nothing was judged: no problem of the step has hidden tests, or no completion passed.
        """
        self.missed = []
        if self._thread is None:
            return None
        began = time.monotonic()
        self._thread.join()
        self._thread = None
        self.waited += time.monotonic() - began
        if isinstance(self._verdicts, Exception):
            raise self._verdicts
        judged = [row for row in zip(self._pairs, self._verdicts, strict=True) if row[1].passed is not None]
        self.missed = [_missed(*pair, verdict) for pair, verdict in judged if not verdict.passed]
        return {"passed_visible": len(judged), "failed_hidden": len(self.missed)} if judged else None

    def _program(self, one: Judged) -> str:
        return program_of(one.problem, one.completion, use_chat_template=self.use_chat_template)

    def _judge(self) -> None:
        try:
            self._verdicts = self.grader.grade([(one.on_hidden_tests(), program) for one, _, program in self._pairs])
        except Exception as error:  # raised where it is waited for: a thread has nobody to tell
            self._verdicts = error


def _missed(problem: Problem, completion: str, program: str, verdict: Verdict) -> Missed:
    index = verdict.failing_test
    within = index is not None and index < len(problem.hidden_tests)
    return Missed(problem.task_id, completion, problem.hidden_tests[index or 0] if within else verdict.outcome)
