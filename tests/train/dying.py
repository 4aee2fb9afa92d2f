"""A training run in a process of its own that a signal meets at a chosen point."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POINTS = ("rollout", "reward", "update", "journal", "upload")


@dataclass(frozen=True)
class Attempt:
    """One attempt at a run. At `point`, after `step` steps, the process gets signal `number`.

    group: a cgroup that the process joins before it begins.
    """

    problems: Path
    target: Path
    log: Path
    environment: dict[str, str]
    given: dict[str, Any]
    point: str = ""
    step: int = 0
    number: int = 0
    group: Path | None = None


def main(attempt: Attempt) -> None:
    """Run the train step as its pod does."""
    if attempt.group:
        (attempt.group / "cgroup.procs").write_text(str(os.getpid()))
    handle = os.open(attempt.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    os.environ.update(attempt.environment)
    from components.shared.errors import reported
    from components.train.training import run

    if attempt.point:
        _set_the_trap(attempt)
    with reported("train"):
        run(attempt.problems, attempt.target, attempt.target.parent / "report.html", resume_run="", **attempt.given)


def _set_the_trap(attempt: Attempt) -> None:
    from components.shared.store import DirectoryStore
    from components.train.rewards import TestReward
    from components.train.rollouts import Rollouts
    from components.train.watch import Watch

    def strike() -> None:
        os.kill(os.getpid(), attempt.number)

    def at(owner: type, name: str, due: Callable[..., bool]) -> None:
        plain = getattr(owner, name)

        def trapped(*given: Any, **named: Any) -> Any:
            if due(*given, **named):
                strike()
            return plain(*given, **named)

        setattr(owner, name, trapped)

    step = attempt.step
    if attempt.point == "rollout":
        at(Rollouts, "draw", lambda rollouts, prompts, names, trainer: trainer.state.global_step == step)
    elif attempt.point == "reward":
        at(TestReward, "__call__", lambda reward, **named: named["trainer_state"].global_step == step)
    elif attempt.point == "update":
        at(Watch, "on_pre_optimizer_step", lambda watch, args, state, control, **_: state.global_step == step)
    elif attempt.point == "journal":
        at(DirectoryStore, "write", lambda store, key, data: key.endswith("samples.jsonl") and data.count(b"\n") > step)
    else:
        at(DirectoryStore, "upload", lambda store, key, file: key.endswith(f"{step}/trainer_state.json"))
