"""One of several training processes, to which something happens; the run's id says what."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from components.train.processes import Processes, main

SMALL_GPU, STOPPED, NAN = "small-gpu", "stopped", "nan"
STEP = 3


def set_the_trap(run_id: str) -> None:
    """A small GPU cannot take more than 4 completions at a time in its second process; the others end at a step."""
    import torch
    from trl import GRPOTrainer

    from components.shared.errors import UserError
    from components.train.rollouts import Rollouts

    second, step, draw = Processes.here().index == 1, GRPOTrainer.training_step, Rollouts.draw

    def small(trainer: Any, *given: Any) -> Any:
        if second and trainer.args.per_device_train_batch_size > 4 and trainer.state.global_step == STEP:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return step(trainer, *given)

    def stopped(rollouts: Any, prompts: Any, names: Any, trainer: Any) -> Any:
        if second and trainer.state.global_step == STEP and not Path("was-stopped").exists():
            Path("was-stopped").touch()
            os.kill(os.getppid(), signal.SIGTERM)
        return draw(rollouts, prompts, names, trainer)

    def no_numbers(rollouts: Any, prompts: Any, names: Any, trainer: Any) -> Any:
        if second and trainer.state.global_step == STEP:
            raise UserError("The model's logits are inf or nan.")
        return draw(rollouts, prompts, names, trainer)

    if run_id == SMALL_GPU:
        GRPOTrainer.training_step = small  # type: ignore[method-assign]
    elif run_id == STOPPED:
        Rollouts.draw = stopped  # type: ignore[method-assign]
    elif run_id == NAN:
        Rollouts.draw = no_numbers  # type: ignore[method-assign]


if __name__ == "__main__":
    task = Path(sys.argv[1])
    set_the_trap(json.loads(task.read_text())["run_id"])
    main(task)
