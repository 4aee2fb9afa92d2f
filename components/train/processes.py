"""Several processes in one pod, one a GPU: how they are started, what they must agree on, and which of them writes.

Each draws, judges and learns from its share of a step's completions; gradients are averaged by accelerate (NCCL, or
gloo without GPUs). The first process alone keeps journal, report and checkpoints.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from components.shared.errors import InfraError, UserError

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
    """How many processes this machine should train with: one a GPU, as many as divide the batch."""
    import torch

    return max(count for count in range(1, max(1, torch.cuda.device_count()) + 1) if batch_size % count == 0)


def launch(count: int, **asked: Any) -> dict[str, float]:
    """Run the train step in `count` processes; asked: what training.run takes. Its failure is raised here."""
    with tempfile.TemporaryDirectory(prefix="grpo-launch-") as folder:
        task, answer = Path(folder) / "task.json", Path(folder) / "answer.json"
        task.write_text(
            json.dumps({name: str(value) if isinstance(value, Path) else value for name, value in asked.items()})
        )
        launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(count), "--module", __name__]
        code = _run([sys.executable, "-m", *launcher, str(task)])
        told: dict[str, Any] = json.loads(answer.read_text()) if answer.exists() else {}
    if "scalars" in told:
        return dict(told["scalars"])
    if told:
        raise {"UserError": UserError, "InfraError": InfraError}[told["kind"]](told["message"])
    raise InfraError(f"One of {count} training processes ended with code {code}, see above for its reason.")


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
        kind = "UserError" if isinstance(error, UserError) else "InfraError"
        answer.write_text(json.dumps({"kind": kind, "message": str(error)}))
        raise SystemExit(error.exit_code) from None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
