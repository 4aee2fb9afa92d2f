"""Several processes in one pod, one a GPU: how they are started, what they must agree on, and which of them writes.

Each draws, judges and learns from its share of a step's completions; gradients are averaged by accelerate (NCCL, or
gloo without GPUs). The first process alone keeps journal, report and checkpoints.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from components.settings import training_processes
from components.shared.errors import InfraError, UserError
from components.shared.progress import say
from components.shared.run import folder_of, run_id_of
from components.shared.store import open_store
from components.train.memory import MemoryRanOut, note_memory_ran_out

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """The processes of this training step, and which of them this is."""

    count: int
    index: int

    @classmethod
    def here(cls) -> "Processes":
        """By the variables that torch's launcher sets; one process without it."""
        return cls(int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0")))

    @property
    def main(self) -> bool:
        return self.index == 0

    def agree(self, value: T) -> T:
        """The first process's value, in all of them."""
        if self.count == 1:
            return value
        from accelerate.utils import broadcast_object_list

        held: list[Any] = [value]
        broadcast_object_list(held)
        return held[0]  # type: ignore[no-any-return]

    def gather(self, rows: list[T]) -> list[T]:
        """The rows of all processes, in their order, in all of them."""
        if self.count == 1:
            return rows
        from accelerate.utils import gather_object

        return list(gather_object(rows))

    def wait(self) -> None:
        """Until all are here."""
        if self.count > 1:
            from accelerate.utils import wait_for_everyone

            wait_for_everyone()


def processes_for(batch_size: int) -> int:
    """How many processes this machine should train with, see training_processes."""
    import torch

    return training_processes(batch_size, torch.cuda.device_count())


def launch(count: int, **asked: Any) -> dict[str, float]:
    """Run the train step in `count` processes; asked: what training.run takes. Its failure is raised here.

    When memory runs out in one of them, all start again from the newest checkpoint with half at a time.
    """
    prefix = f"{folder_of(run_id_of(asked['run_id'], asked['resume_run']))}/train"
    while True:
        told, code = _launched(count, asked)
        if "scalars" in told:
            return dict(told["scalars"])
        ran_out = told.get("kind") == MemoryRanOut.__name__
        if not ran_out or not note_memory_ran_out(open_store(), prefix, asked["batch_size"] // count):
            break
        say("train", f"warning: {told['message']} All start again from the newest checkpoint with half at a time.")
    if told:
        raise (UserError if told["kind"] == UserError.__name__ else InfraError)(told["message"])
    raise InfraError(f"One of {count} training processes ended with code {code}, see above for its reason.")


def _launched(count: int, asked: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """What the processes have answered, empty when they died without an answer, and the launcher's exit code."""
    with tempfile.TemporaryDirectory(prefix="grpo-launch-") as folder:
        task, answer = Path(folder) / "task.json", Path(folder) / "answer.json"
        task.write_text(
            json.dumps({name: str(value) if isinstance(value, Path) else value for name, value in asked.items()})
        )
        launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(count), "--module", __name__]
        code = _run([sys.executable, "-m", *launcher, str(task)])
        return dict(json.loads(answer.read_text())) if answer.exists() else {}, code


def _run(command: list[str]) -> int:
    """Run the launcher to its end and return its exit code; SIGTERM is passed on, and it stops all its processes."""
    launcher = subprocess.Popen(command)
    before = signal.signal(signal.SIGTERM, lambda number, frame: launcher.terminate())
    try:
        return launcher.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
        launcher.kill()


def main(task: Path) -> None:
    """One of the processes: the first to fail, or the main one at its end, writes the answer."""
    from components.train.training import run

    asked = json.loads(task.read_text())
    paths = {name: Path(asked.pop(name)) for name in ("problems", "model", "report")}
    answer = task.with_name("answer.json")
    try:
        scalars = run(paths["problems"], paths["model"], paths["report"], **asked)
        if Processes.here().main:
            answer.write_text(json.dumps({"scalars": scalars}))
    except (UserError, InfraError) as error:
        kinds = [kind.__name__ for kind in (MemoryRanOut, UserError, InfraError) if isinstance(error, kind)]
        with contextlib.suppress(FileExistsError), answer.open("x") as first:
            first.write(json.dumps({"kind": kinds[0], "message": str(error)}))
        raise SystemExit(error.exit_code) from None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
