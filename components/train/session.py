"""One attempt at a training run: what it is made of, how it goes on from a checkpoint, and how it ends."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from components.overrides import parse_overrides
from components.settings import FIXED, LEARNING
from components.shared.errors import InfraError, UserError
from components.shared.grading import Grader
from components.shared.models import free_memory, is_out_of_memory, load_tokenizer, resolve_precision
from components.shared.problem import Problem
from components.shared.progress import say
from components.shared.run import folder_of
from components.shared.sampling import eos_ids, rows_at_once
from components.shared.sandbox import SandboxClient
from components.shared.store import Store
from components.train.chat import chat_warnings
from components.train.checkpoints import Checkpoints
from components.train.container import watching_memory
from components.train.dynamic import make_rollouts
from components.train.export import export
from components.train.grpo import load_policy, make_config, make_trainer
from components.train.hidden import HiddenTests
from components.train.interruption import Interrupted, Interruption
from components.train.journal import Journal
from components.train.memory import LESS_MEMORY, AttemptRecord, Pieces, Superseded, disk_error, memory_ran_out
from components.train.preflight import plan_training
from components.train.processes import Processes
from components.train.report import training_report
from components.train.rewards import TestReward
from components.train.schedule import Schedule, digest_of_problems, prompt_order
from components.train.start import start_from_adapter
from components.train.trackers import chosen_trackers, end_trackers, tracker_callbacks, tracker_files
from components.train.uploads import PATIENCE_AFTER_FAILURE, PATIENCE_AT_THE_END, Uploads
from components.train.watch import Watch, time_shares


class Session:
    """One attempt at a training run: trainer, journal, uploads. folder: scratch space for what goes to the store."""

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
        self.prefix = f"{folder_of(name)}/train"
        self.page = ""
        self.processes = Processes.here()
        if self.processes.count > 1 and given["dynamic_sampling_tokens"]:
            raise UserError(
                "dynamic_sampling_tokens needs a single process: set gpus to 1, or dynamic_sampling_tokens to 0."
            )
        self.trackers = chosen_trackers(given["trackers"])
        # Refuses wrong overrides before anything is loaded, and makes the processes know each other.
        _ = make_config(folder=folder, schedule=schedule, **self._settings()).device
        self.trainer_folder = Path(self.processes.agree(str(folder))) / "trainer"
        self.tokenizer = load_tokenizer(
            given["model_name"], given["model_revision"], use_chat_template=given["use_chat_template"]
        )
        plan_training(given, schedule, self.tokenizer, training)
        fixed = {**{key: given[key] for key in FIXED}, "the set of problems": digest_of_problems(training)}
        self.checkpoints = Checkpoints(store, name, keep=given["keep_checkpoints"], settings=fixed)
        self.checkpoint = self.checkpoints.newest(folder)
        self.journal = Journal(store, self.prefix)
        self.journal.load()
        self.attempt = AttemptRecord(store, self.prefix, steps=schedule.steps)
        self.interruption = Interruption(alone=self.processes.count == 1)
        self.uploads = Uploads(
            store, self.checkpoints.save, active=self.processes.main, check=self.attempt.refuse_if_superseded
        )
        self.order = prompt_order(training, schedule.epochs, given["seed"])
        self.watch = self._make_watch(training)
        self.trainer: Any = self._make_trainer()
        self._write_attempt()  # from now on the run is this attempt's

    def _make_watch(self, training: list[Problem]) -> Watch:
        given = self.given
        client = SandboxClient.from_setting(given["sandbox_url"])
        say("train", f"the sandbox is ready (judge {client.version()[:12]})")
        hidden = HiddenTests.from_parameters(given)
        reward = TestReward(
            grader=Grader(client, test_timeout_s=given["test_timeout_s"], infra_limit=given["infra_limit"]),
            problems={problem.task_id: problem for problem in training},
            use_chat_template=given["use_chat_template"],
            truncated=None if given["truncated_reward"] == "none" else 0.0,
            control=given["reward"] == "random",
            seed=given["seed"],
            interruption=self.interruption,
            processes=self.processes,
            then=hidden.start,
        )
        return Watch(
            schedule=self.schedule,
            given=given,
            rollouts=make_rollouts(self.tokenizer, given, self.interruption, order=self.order, reward=reward),
            reward=reward,
            hidden=hidden,
            journal=self.journal,
            uploads=self.uploads,
            interruption=self.interruption,
            draw_report=self._draw,
            tracked=self.tracked,
        )

    def _make_trainer(self) -> Any:
        given = self.given
        policy = load_policy(
            given["model_name"], given["model_revision"], method=given["method"], precision=given["precision"]
        )
        self._fit(Pieces(self.schedule.micro_batch_size, self.watch.rollouts.rows or rows_at_once(policy)))
        say("train", self._headline(policy))
        ends = eos_ids(policy, self.tokenizer)
        for warning in chat_warnings(
            given["model_name"], self.tokenizer, ends, use_chat_template=given["use_chat_template"]
        ):
            say("train", f"warning: {warning}")
        trainer = make_trainer(
            policy=policy,
            tokenizer=self.tokenizer,
            config=make_config(folder=self.trainer_folder, schedule=self.schedule, **self._settings()),
            order=self.order,
            rollouts=self.watch.rollouts,
            reward=self.watch.reward,
            method=given["method"],
            lora_r=given["lora_r"],
            lora_alpha=given["lora_alpha"],
            lora_target_modules=given["lora_target_modules"],
            callbacks=[self.watch, *tracker_callbacks(self.trackers, self.folder, self.name)],
        )
        if given["init_adapter"] and self.checkpoint is None:
            start_from_adapter(trainer.model, given)
        return trainer

    def _settings(self) -> dict[str, Any]:
        keys = (*LEARNING, "num_generations", "max_completion_length", "temperature", "top_p")
        return {key: self.given[key] for key in keys}

    def _fit(self, wanted: Pieces) -> None:
        """Cut the batch into the pieces wanted, or smaller ones if an attempt before ran out of memory."""
        self.pieces, why = self.attempt.pieces(wanted, self.schedule.share)
        self._cut(self.pieces)
        if why:
            say("train", f"{why}: {self.pieces}, and batch_size stays {self.schedule.batch_size}")

    def _cut(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self.schedule = replace(self.schedule, micro_batch_size=pieces.micro_batch_size)
        self.watch.rollouts.rows = pieces.rows

    def _headline(self, policy: Any) -> str:
        given, schedule = self.given, self.schedule
        dtype = str(resolve_precision(given["precision"])).removeprefix("torch.")
        size = policy.num_parameters() / 1e6
        return (
            f"{given['method']} on {given['model_name']} ({size:.1f} M parameters, {dtype}, {policy.device}), "
            f"{schedule.problems} problems, {schedule.steps} steps of {schedule.prompts_per_step} prompts x "
            f"{given['num_generations']} completions, micro batches of {schedule.micro_batch_size}"
        )

    def complete(self, target: Path) -> None:
        """Train to the end and write the export to the folder `target`; whatever ends this, what is done is sent."""
        with self.interruption.watching(), watching_memory(self.attempt.note, self._write_attempt):
            try:
                self.train()
                if self.processes.main:
                    self.hand_on(target)
            except BaseException:
                self.close(failed=True)
                raise
            self.close(failed=False)
        self.processes.wait()

    def train(self) -> None:
        """Train from the newest checkpoint of this run, or from the base; leaves a checkpoint of the last step."""
        if self._done():
            say("train", f"continues run {self.name} after step {self._done()} of {self.schedule.steps}")
        while self._done() < self.schedule.steps:
            self.journal.rewind(self._done())
            if not self._optimise():
                self._start_again_smaller()
        say("train", f"time: {time_shares(self.journal.metrics)}")

    def _write_attempt(self) -> None:
        self.uploads.write(self.attempt.objects(self.pieces))

    def _done(self) -> int:
        """Steps that the newest checkpoint holds."""
        return int(self.checkpoint.name.rsplit("-", 1)[1]) if self.checkpoint else 0

    def _optimise(self) -> bool:
        """Run the trainer to its end; False when memory ran out. Whatever else ends it, what is done is kept."""
        written = len(self.journal.metrics)
        try:
            self.trainer.train(resume_from_checkpoint=str(self.checkpoint) if self.checkpoint else None)
            if self.watch.verdict:
                raise self.watch.verdict
            if self.trainer.state.global_step < self.schedule.steps:
                raise Interrupted
        except (UserError, InfraError, Interrupted) as error:
            raise self._kept(error) from None
        except ValueError as error:
            # TRL checks some settings only when it first uses them.
            if parse_overrides(self.given["grpo_overrides"]) and len(self.journal.metrics) == written:
                raise UserError(f"grpo_overrides: TRL refuses the settings ({error}).") from error
            raise
        except (OSError, RuntimeError) as error:
            if is_out_of_memory(error) and self.processes.count == 1:
                return False
            if is_out_of_memory(error):
                raise memory_ran_out(self.processes.count, self.pieces) from error
            raise disk_error(error, self.folder) or error from None
        finally:
            saved = self.trainer_folder / f"checkpoint-{self.watch.saved_step}"
            self.checkpoint = saved if saved.is_dir() else self.checkpoint
        return True

    def _kept(self, error: UserError | InfraError | Interrupted) -> Exception:
        """What ended the run as its failure, after its last step has been saved, with what can be done."""
        if isinstance(error, Superseded):
            return error
        step = self.trainer.state.global_step
        weights_are_good = not isinstance(error, UserError) or error is self.watch.verdict
        alone = self.processes.count == 1  # the others may be anywhere in their step, and saving takes all
        if alone and weights_are_good and step > self.watch.saved_step:
            self.trainer._save_checkpoint(self.trainer.model, None)
            self.watch.on_save(self.trainer.args, self.trainer.state, self.trainer.control)
        kept = f"{self.watch.saved_step} of {self.schedule.steps} steps are kept"
        if isinstance(error, Interrupted):
            return InfraError(f"The run was stopped from outside (SIGTERM); {kept}, and it can be continued.")
        can = "; the run can be continued" if isinstance(error, InfraError) else ""
        return type(error)(f"{error} {kept}{can}.")

    def _start_again_smaller(self) -> None:
        smaller = self.pieces.halved(self.schedule.share)
        if smaller is None:
            raise UserError(f"Not even one completion at a time fits into memory: {LESS_MEMORY}.")
        self.attempt.ran_out = True
        del self.trainer
        free_memory()
        self._cut(smaller)
        same = f"batch_size stays {self.schedule.batch_size}"
        say("train", f"warning: memory ran out, so {smaller}, and {same}; goes on after step {self._done()}")
        self.trainer = self._make_trainer()

    def close(self, *, failed: bool) -> None:
        """Send what is still to be sent; a failure to do so hides no other."""
        try:
            self.watch.publish(finished=True)
            end_trackers(self.trackers)
            ended = self.attempt.objects(self.pieces, ended="failed" if failed else "finished")
            self.uploads.write({**self.tracked(), **ended})
            self.uploads.finish(PATIENCE_AFTER_FAILURE if failed else PATIENCE_AT_THE_END)
        except (UserError, InfraError) as error:
            if not failed:
                raise
            say("train", f"warning: {error}")
        finally:
            self.uploads.close()

    def tracked(self) -> dict[str, bytes]:
        """What the trackers have written, by key."""
        return {f"{self.prefix}/{name}": (self.folder / name).read_bytes() for name in tracker_files(self.folder)}

    def hand_on(self, target: Path) -> None:
        """Write the exported adapter or model and model.json to the folder `target`."""
        facts = {
            "method": self.given["method"],
            "base": self.given["model_name"],
            "revision": self.given["model_revision"],
            "reward": self.given["reward"],
            "seed": self.given["seed"],
            "run": self.name,
            "steps": self.schedule.steps,
        }
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        assert self.checkpoint is not None
        export(
            self.checkpoint,
            target,
            model.generation_config,
            facts,
            use_chat_template=self.given["use_chat_template"],
        )

    def _draw(self, finished: bool) -> dict[str, bytes]:
        """The page as it is now, and the record of this attempt, by their keys in the store."""
        self.page = training_report(
            self.journal.metrics,
            self.journal.samples,
            schedule=self.schedule,
            given=self.given,
            run=self.name,
            finished=finished,
        )
        return {f"{self.prefix}/report.html": self.page.encode(), **self.attempt.objects(self.pieces)}
