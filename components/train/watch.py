"""The trainer's callback: metrics, samples, report and checkpoints as the run goes, and its progress for people."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from components.shared.progress import Progress, duration, say
from components.shared.store import Store
from components.train.checkpoints import Checkpoints
from components.train.metrics import lost_step, step_metrics, step_samples
from components.train.rewards import TestReward
from components.train.rollouts import Rollouts
from components.train.schedule import Schedule

SECONDS_BETWEEN_REPORTS = 10.0
SECONDS_BETWEEN_SAVES = 60.0  # with save_steps 0; longer where saving itself takes long
SHARE_OF_TIME_FOR_SAVES = 0.1


@dataclass
class Journal:
    """metrics.jsonl and samples.jsonl of a run, kept in memory and in the store under `runs/<run>/train/`."""

    store: Store
    prefix: str
    metrics: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)

    def load(self, up_to_step: int) -> None:
        """Take up what an interrupted run had written, without the steps that will be done again."""
        self.metrics = [row for row in self._read("metrics.jsonl") if row["step"] <= up_to_step]
        self.samples = [row for row in self._read("samples.jsonl") if row["step"] <= up_to_step]

    def save(self) -> None:
        for name, rows in (("metrics.jsonl", self.metrics), ("samples.jsonl", self.samples)):
            text = "".join(json.dumps(row) + "\n" for row in rows)
            self.store.write(f"{self.prefix}/{name}", text.encode())

    def _read(self, name: str) -> list[dict[str, Any]]:
        try:
            text = self.store.read(f"{self.prefix}/{name}").decode()
        except KeyError:
            return []
        return [json.loads(line) for line in text.splitlines()]


class Watch(TrainerCallback):
    """Writes down each step. write_report(finished) draws the page from the journal."""

    def __init__(
        self,
        *,
        schedule: Schedule,
        num_generations: int,
        rollouts: Rollouts,
        reward: TestReward,
        journal: Journal,
        checkpoints: Checkpoints,
        save_steps: int,
        write_report: Callable[[bool], None],
    ) -> None:
        self.schedule, self.num_generations = schedule, num_generations
        self.rollouts, self.reward, self.journal = rollouts, reward, journal
        self.checkpoints, self.save_steps, self.write_report = checkpoints, save_steps, write_report
        self.progress = Progress("train", "training", schedule.steps, unit="steps", every_update=True)
        self.last_report = self.last_save = time.monotonic()
        self.save_seconds = 0.0
        self.lost_steps = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step:
            self.progress.skip_to(state.global_step)
        self.last_save = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        logs: dict[str, Any] = given["logs"]
        if "loss" not in logs:  # the summary at the end
            return
        row = step_metrics(
            self.reward.batch,
            logs,
            step=state.global_step,
            epoch=self.schedule.epoch_at(state.global_step),
            num_generations=self.num_generations,
        )
        row["seconds"] = self._seconds(float(logs.get("step_time") or 0.0))
        self.journal.metrics.append(row)
        self.journal.samples += step_samples(
            self.reward.batch, step=state.global_step, num_generations=self.num_generations
        )
        self._tell(row)
        if time.monotonic() - self.last_report >= SECONDS_BETWEEN_REPORTS:
            self._publish(finished=False)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if self.save_steps:
            due = state.global_step % self.save_steps == 0
        else:
            pause = max(SECONDS_BETWEEN_SAVES, self.save_seconds / SHARE_OF_TIME_FOR_SAVES)
            due = time.monotonic() - self.last_save >= pause
        control.should_save = due or state.global_step >= self.schedule.steps
        self.save_started = time.monotonic()
        return control

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # The journal goes first: a checkpoint promises that the steps before it are written down.
        self._publish(finished=False)
        self.checkpoints.save(state.global_step, Path(args.output_dir) / f"checkpoint-{state.global_step}")
        self.last_save = time.monotonic()
        self.save_seconds = self.last_save - self.save_started

    def _seconds(self, whole: float) -> dict[str, float]:
        generate, reward = self.rollouts.seconds, self.reward.seconds
        parts = {"generate": generate, "reward": reward, "update": max(0.0, whole - generate - reward), "step": whole}
        return {name: round(value, 4) for name, value in parts.items()}

    def _tell(self, row: dict[str, Any]) -> None:
        reason = lost_step(row)
        if reason:
            self.lost_steps += 1
            say("train", f"warning: step {row['step']} taught nothing, {reason} ({self.lost_steps} such steps so far)")
        reward = "none" if row["reward"] is None else f"{row['reward']:.2f}"
        mixed = row["groups"]["mixed"] / sum(row["groups"].values())
        self.progress.update(
            row["step"], f"reward {reward}, mixed groups {mixed:.0%}, truncated {row['truncated']:.0%}"
        )

    def _publish(self, *, finished: bool) -> None:
        self.journal.save()
        self.write_report(finished)
        self.last_report = time.monotonic()


def time_shares(metrics: list[dict[str, Any]]) -> str:
    """Where the time went over all steps, for the log: `generate 60 %, reward 15 %, update 25 % of 24 s`."""
    whole = sum(row["seconds"]["step"] for row in metrics) or 1.0
    shares = [f"{part} {sum(row['seconds'][part] for row in metrics) / whole:.0%}" for part in ("generate", "reward")]
    update = sum(row["seconds"]["update"] for row in metrics) / whole
    return f"{', '.join(shares)}, update {update:.0%} of {duration(whole)}"
