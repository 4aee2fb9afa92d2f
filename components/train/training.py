"""The train step from problems to an exported model: set up, continue or start, train, write down, hand on."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from components.settings import FIXED, LEARNING, parse_overrides
from components.shared.errors import UserError
from components.shared.grading import Grader
from components.shared.models import load_tokenizer, resolve_precision
from components.shared.problem import Problem, training_problems
from components.shared.progress import duration, say
from components.shared.run import folder_of, record, run_id_of
from components.shared.sampling import Sampling
from components.shared.sandbox import SandboxClient
from components.shared.store import Store, open_store, upload_folder
from components.train.checkpoints import Checkpoints
from components.train.export import export
from components.train.grpo import load_policy, make_config, make_trainer
from components.train.handover import complete_export
from components.train.metrics import mean
from components.train.preflight import plan_training
from components.train.report import training_report
from components.train.rewards import TestReward
from components.train.rollouts import Rollouts
from components.train.schedule import Schedule, plan, prompt_order
from components.train.watch import Journal, Watch, time_shares


def run(problems: Path, model: Path, report: Path, *, run_id: str, resume_run: str, **given: Any) -> dict[str, float]:
    """Train on the problem set in folder `problems`; write the model folder and the report page.

    given: the step's other parameters, by the pipeline's names. Returns the scalars for KFP's metrics.
    The run's files go to the store under `runs/<run>/train/`, checkpoints under `checkpoints/<run>/`.
    """
    start = time.monotonic()
    if given["threads"]:
        torch.set_num_threads(given["threads"])
    store, name = open_store(), run_id_of(run_id, resume_run)
    upload_folder(store, folder_of(name), problems)
    training = training_problems(problems)
    schedule = plan(
        problems=len(training), **{key: given[key] for key in ("epochs", "batch_size", "num_generations")},
        micro_batch_size=given["micro_batch_size"],
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="grpo-train-") as folder:
        session = Session(store, name, training, schedule, given, Path(folder))
        session.train()
        session.hand_on(model)
        session.write_report(finished=True)
        shutil.copyfile(session.report_file, report)
    scalars = session.summary()
    del session.trainer  # and its memory, before a merge loads the base again
    complete_export(
        model, problems, run=name, given=given, training=training, samples=session.journal.samples,
        metrics=scalars,
    )  # fmt: skip
    upload_folder(store, f"{folder_of(name)}/train", model)
    record(store, name, parameters=given, seconds={"train": round(time.monotonic() - start, 1)})
    return scalars


class Session:
    """One training run: its trainer and its journal. folder: scratch space for what then goes to the store."""

    def __init__(
        self,
        store: Store,
        name: str,
        training: list[Problem],
        schedule: Schedule,
        given: dict[str, Any],
        folder: Path,
    ) -> None:
        self.store, self.name, self.schedule, self.given, self.folder = store, name, schedule, given, folder
        self.report_file = folder / "report.html"
        self.journal = Journal(store, f"{folder_of(name)}/train")
        fixed = {key: given[key] for key in FIXED}
        self.checkpoints = Checkpoints(store, name, keep=given["keep_checkpoints"], settings=fixed)
        self.tokenizer = load_tokenizer(
            given["model_name"], given["model_revision"], use_chat_template=given["use_chat_template"]
        )
        plan_training(given, schedule, self.tokenizer, training)
        self.watch = self._make_watch(training)
        self.trainer = self._make_trainer(training)

    def _make_watch(self, training: list[Problem]) -> Watch:
        given = self.given
        client = SandboxClient.from_setting(given["sandbox_url"])
        say("train", f"the sandbox is ready (judge {client.version()[:12]})")
        sampling = Sampling.from_parameters(given)
        return Watch(
            schedule=self.schedule,
            num_generations=given["num_generations"],
            rollouts=Rollouts(self.tokenizer, sampling, given["seed"]),
            reward=TestReward(
                grader=Grader(client, test_timeout_s=given["test_timeout_s"], infra_limit=given["infra_limit"]),
                problems={problem.task_id: problem for problem in training},
                use_chat_template=given["use_chat_template"],
                control=given["reward"] == "random",
                seed=given["seed"],
            ),
            journal=self.journal,
            checkpoints=self.checkpoints,
            save_steps=given["save_steps"],
            write_report=lambda finished: self.write_report(finished=finished),
        )

    def _make_trainer(self, training: list[Problem]) -> Any:
        given = self.given
        policy = load_policy(
            given["model_name"], given["model_revision"], method=given["method"], precision=given["precision"]
        )
        say("train", self._headline(policy, len(training)))
        keys = (*LEARNING, "num_generations", "max_completion_length", "temperature", "top_p")
        return make_trainer(
            policy=policy,
            tokenizer=self.tokenizer,
            config=make_config(
                folder=self.folder / "trainer", schedule=self.schedule, **{key: given[key] for key in keys}
            ),
            order=prompt_order(training, self.schedule.epochs, given["seed"]),
            rollouts=self.watch.rollouts,
            reward=self.watch.reward,
            method=given["method"],
            lora_r=given["lora_r"],
            lora_alpha=given["lora_alpha"],
            callbacks=[self.watch],
        )

    def _headline(self, policy: Any, problems: int) -> str:
        given, schedule = self.given, self.schedule
        dtype = str(resolve_precision(given["precision"])).removeprefix("torch.")
        size = sum(parameter.numel() for parameter in policy.parameters()) / 1e6
        return (
            f"{given['method']} on {given['model_name']} ({size:.1f} M parameters, {dtype}, {policy.device}), "
            f"{problems} problems, {schedule.steps} steps of {schedule.prompts_per_step} prompts x "
            f"{given['num_generations']} completions, micro batches of {schedule.micro_batch_size}; "
            f"watch {self.store.uri(f'{folder_of(self.name)}/train/report.html')}"
        )

    def train(self) -> None:
        """Train from the newest checkpoint of this run, or from the base; leaves a checkpoint of the last step."""
        checkpoint = self.checkpoints.newest(self.folder)
        done = int(checkpoint.name.rsplit("-", 1)[1]) if checkpoint else 0
        self.journal.load(up_to_step=done)
        if checkpoint:
            say("train", f"continues run {self.name} after step {done} of {self.schedule.steps}")
        if done < self.schedule.steps:
            self._optimise(str(checkpoint) if checkpoint else None)
            checkpoint = self.folder / "trainer" / f"checkpoint-{self.schedule.steps}"
            say("train", f"time: {time_shares(self.journal.metrics)}")
        assert checkpoint is not None
        self.last_checkpoint = checkpoint

    def _optimise(self, checkpoint: str | None) -> None:
        """Run the trainer; whatever ends it, the steps done so far are written down."""
        written = len(self.journal.metrics)
        try:
            self.trainer.train(resume_from_checkpoint=checkpoint)
        except ValueError as error:
            # TRL checks some settings only when it first uses them.
            if parse_overrides(self.given["grpo_overrides"]) and len(self.journal.metrics) == written:
                raise UserError(f"grpo_overrides: TRL refuses the settings ({error}).") from error
            raise
        finally:
            self.journal.save()

    def hand_on(self, target: Path) -> None:
        """Write the exported adapter or model and model.json to the folder `target`."""
        facts = {
            "method": self.given["method"],
            "base": self.given["model_name"],
            "revision": self.given["model_revision"],
            "run": self.name,
            "steps": self.schedule.steps,
        }
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        export(
            self.last_checkpoint,
            target,
            model.generation_config,
            facts,
            use_chat_template=self.given["use_chat_template"],
        )

    def write_report(self, *, finished: bool) -> None:
        """Draw the page from the journal, into the run's folder and the store."""
        page = training_report(
            self.journal.metrics,
            self.journal.samples,
            schedule=self.schedule,
            given=self.given,
            run=self.name,
            finished=finished,
        )
        self.report_file.write_text(page, encoding="utf-8")
        self.store.upload(f"{folder_of(self.name)}/train/report.html", self.report_file)

    def summary(self) -> dict[str, float]:
        """Mean reward and pass rate of the first and last tenth of the steps, and what was lost."""
        rows = self.journal.metrics
        tenth = max(1, len(rows) // 10)
        figures: dict[str, float | None] = {"steps": float(len(rows)), "lost_steps": float(self.watch.lost_steps)}
        for name, part in (("first", rows[:tenth]), ("last", rows[-tenth:])):
            for key in ("reward", "pass_rate"):
                figures[f"{key}_{name}_tenth"] = mean([row[key] for row in part if row[key] is not None])
        say("train", f"done in {duration(sum(row['seconds']['step'] for row in rows))} of steps")
        return {name: value for name, value in figures.items() if value is not None}
