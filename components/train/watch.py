"""The trainer's callback: metrics, samples, report and checkpoints as the run goes, and its progress for people.

Nothing here waits for the store: what is to be kept is handed to uploads.py.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from components.shared.errors import InfraError, UserError
from components.shared.progress import Progress, duration, say
from components.train.advisor import Advisor, advise
from components.train.dynamic import DynamicRollouts
from components.train.hidden import HiddenTests
from components.train.interruption import Interruption
from components.train.journal import Journal
from components.train.metrics import lost_step, step_metrics, step_samples
from components.train.pace import Pace, SavePace
from components.train.rewards import TestReward
from components.train.rollouts import Rollouts
from components.train.schedule import Schedule
from components.train.trackers import scalars
from components.train.uploads import Uploads

LOST_STEPS_IN_A_ROW = 5  # after so many steps without a completion to learn from, a run stops


class Watch(TrainerCallback):
    """Writes down each step.

    As objects for the store, draw_report(finished) gives the page drawn from the journal, tracked() trackers' files.
    """

    def __init__(
        self,
        *,
        schedule: Schedule,
        given: Mapping[str, Any],
        rollouts: Rollouts,
        reward: TestReward,
        hidden: HiddenTests,
        journal: Journal,
        uploads: Uploads,
        interruption: Interruption,
        draw_report: Callable[[bool], dict[str, bytes]],
        tracked: Callable[[], dict[str, bytes]],
    ) -> None:
        self.schedule, self.given, self.num_generations = schedule, given, given["num_generations"]
        self.rollouts, self.reward, self.journal, self.uploads = rollouts, reward, journal, uploads
        self.hidden = hidden
        self.interruption, self.save_steps, self.draw_report = interruption, given["save_steps"], draw_report
        self.tracked = tracked
        self.progress = Progress("train", "training", schedule.steps, unit="steps", every_update=True)
        self.pace, self.save_pace = Pace(), SavePace()
        self.saved_step = 0
        self.advisor = Advisor()
        self.processes = reward.processes
        self.verdict: UserError | InfraError | None = None  # why the run should not go on

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.progress.skip_to(state.global_step)
        self.saved_step = state.global_step
        self.pace.begin()
        self.save_pace.begin()
        self.publish(finished=False)  # who looks early finds a page

    def on_log(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        logs: dict[str, Any] = given["logs"]
        if "loss" not in logs:  # the summary at the end
            return
        refuse_nan(logs, state.global_step, self.given, scaled=args.fp16)
        row = step_metrics(
            self.reward.batch,
            logs,
            step=state.global_step,
            epoch=self.schedule.epoch_at(state.global_step),
            num_generations=self.num_generations,
        )
        row["seconds"] = self._seconds(float(logs.get("step_time") or 0.0))
        if isinstance(self.rollouts, DynamicRollouts):
            row["drawn"] = dict(self.rollouts.drawn)
        row["hidden"] = self.hidden.finish()
        samples = step_samples(
            self.reward.batch,
            step=state.global_step,
            num_generations=self.num_generations,
            missed=self.hidden.missed,
        )
        self.journal.add(row, samples)
        logs.update(scalars(row))  # for the trackers, which come next
        self._tell(row)
        self.verdict = stuck(self.journal.metrics, self.given)
        if self.verdict:
            control.should_save = control.should_training_stop = True
        if self.pace.is_due():
            self.publish(finished=False)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        wanted = bool(self.save_steps) and state.global_step % self.save_steps == 0
        due = self.save_pace.is_due(self.uploads.way_seconds)
        stopping = any(self.processes.gather([self.interruption.requested]))
        due = self.processes.agree(wanted or due)  # clocks differ
        control.should_training_stop = stopping or control.should_training_stop
        control.should_save = due or control.should_training_stop or state.global_step >= self.schedule.steps
        return control

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.processes.wait()  # each has a part of the checkpoint
        # The journal goes first: a checkpoint promises that the steps before it are written down. The page may wait.
        if self.pace.is_due():
            self.publish(finished=False)
        else:
            self.uploads.write(self.journal.objects())
        self.uploads.write(self.tracked())
        self.uploads.send_checkpoint(state.global_step, Path(args.output_dir) / f"checkpoint-{state.global_step}")
        self.saved_step = state.global_step
        self.save_pace.saved()

    def publish(self, *, finished: bool) -> None:
        """Hand the journal and the page, as they are now, to the store."""
        if not self.processes.main:
            return
        start = self.pace.clock()
        self.uploads.write({**self.journal.objects(), **self.draw_report(finished)})
        self.pace.drawn(start)

    def _seconds(self, whole: float) -> dict[str, float]:
        generate, reward = self.rollouts.seconds, self.reward.seconds
        parts = {"generate": generate, "reward": reward, "update": max(0.0, whole - generate - reward), "step": whole}
        return {name: round(value, 4) for name, value in parts.items()}

    def _tell(self, row: dict[str, Any]) -> None:
        reason = lost_step(row)
        if reason:
            say("train", f"warning: step {row['step']} taught nothing, {reason}")
        for advice in self.advisor.news(self.journal.metrics, self.given):
            say("train", f"advice: {advice}")
        reward = "none" if row["reward"] is None else f"{row['reward']:.2f}"
        judging = row["seconds"]["reward"] / (row["seconds"]["step"] or 1.0)
        self.progress.update(
            row["step"],
            f"reward {reward}, mixed groups {1 - row['zero_variance']:.0%}, truncated {row['truncated']:.0%}, "
            f"judging {judging:.0%} of the time",
        )


def stuck(metrics: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> UserError | InfraError | None:
    """Why a run should end after these steps: too many in a row from which nothing could be learnt."""
    lost = [lost_step(row) for row in metrics[-LOST_STEPS_IN_A_ROW:]]
    if len(lost) == LOST_STEPS_IN_A_ROW and all(lost):
        kind = InfraError if metrics[-1]["infra"] > 0 else UserError
        return kind(f"{LOST_STEPS_IN_A_ROW} steps in a row taught nothing, the last because {lost[-1]}.")
    most = given["max_stuck_steps"]
    if not most or len(metrics) < most or any(row["groups"]["mixed"] for row in metrics[-most:]):
        return None
    advice = next((str(one) for one in advise(metrics, given)), "look at the groups in metrics.jsonl")
    return UserError(f"No group was mixed for {most} steps in a row, so nothing could be learnt ({advice}).")


def refuse_nan(logs: Mapping[str, Any], step: int, given: Mapping[str, Any], *, scaled: bool) -> None:
    """UserError for a loss or gradient that is no number; scaled (fp16): such a gradient is skipped by itself."""
    loss, norm = float(logs["loss"]), float(logs.get("grad_norm") or 0.0)
    if math.isfinite(loss) and (scaled or math.isfinite(norm)):
        return
    what = "gradient" if math.isfinite(loss) else "loss"
    precision = "" if given["precision"] == "fp32" else ", or use precision fp32"
    raise UserError(f"The {what} of step {step} is not a number: lower lr (now {given['lr']:g}){precision}.")


def time_shares(metrics: list[dict[str, Any]]) -> str:
    """Where the time went over all steps, for the log: `generate 60 %, reward 15 %, update 25 % of 24 s`."""
    whole = sum(row["seconds"]["step"] for row in metrics) or 1.0
    shares = [f"{part} {sum(row['seconds'][part] for row in metrics) / whole:.0%}" for part in ("generate", "reward")]
    update = sum(row["seconds"]["update"] for row in metrics) / whole
    return f"{', '.join(shares)}, update {update:.0%} of {duration(whole)}"
