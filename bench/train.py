"""What a training step of ours costs beside the same TRL loop written plainly, sampling and sandbox left out.

`make bench-train` trains the demo with `components.train.training.run` and, in turns, with a plain GRPOTrainer that
samples the very same completions and is given the same rewards; prints a table, and writes bench/out/train.json. A
step's cost is that of the whole `train` call less what sampling and judging took, so metrics, samples, report,
checkpoints and uploads are all in it. Both sample, because an update is dearer after it: caches and memory are cold.
Cost is taken as CPU time of the process, on one thread, which other work on the machine hardly moves, and as wall time
beside it. The same runs say which share of a whole step goes into judging, by the seconds in their metrics.jsonl.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from bench.measuring import machine

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "bench/out"
TARGETS = {"step_to_plain_cpu": 1.05, "step_to_plain_wall": 1.05, "reward_to_step": 0.20}  # at most


@dataclass
class Recorded:
    """How our loop was rewarded, step by step, and what it all cost; seconds of judging and of its whole steps."""

    rewards: list[list[float | None]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    cost: "Cost" = field(default_factory=lambda: Cost(0.0, 0.0))
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU time and of wall time."""

    cpu: float
    wall: float

    @classmethod
    def now(cls) -> "Cost":
        return cls(time.process_time(), time.perf_counter())

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.cpu + other.cpu, self.wall + other.wall)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.cpu - other.cpu, self.wall - other.wall)

    def each(self, steps: int) -> dict[str, float]:
        """Milliseconds a step."""
        return {"cpu": 1000 * self.cpu / steps, "wall": 1000 * self.wall / steps}


@contextmanager
def watched(recorded: Recorded) -> Iterator[None]:
    """Note the rewards, and what all of training costs without them and without sampling."""
    from trl import GRPOTrainer

    from components.train.rewards import TestReward
    from components.train.rollouts import Rollouts

    def noted(call: Any, kept: list[Any], sign: int) -> Any:
        def run(*given: Any, **named: Any) -> Any:
            start = Cost.now()
            result = call(*given, **named)
            spent = Cost.now() - start
            recorded.cost = recorded.cost + spent if sign > 0 else recorded.cost - spent
            kept.append(result)
            return result

        return run

    with (
        mock.patch.object(Rollouts, "__call__", noted(Rollouts.__call__, [], -1)),
        mock.patch.object(TestReward, "__call__", noted(TestReward.__call__, recorded.rewards, -1)),
        mock.patch.object(GRPOTrainer, "train", noted(GRPOTrainer.train, [], 1)),
    ):
        yield


def ours(problems: Path, given: dict[str, Any], folder: Path) -> Recorded:
    """Our loop on these parameters: its rewards, losses and phases, and its cost without sampling and judging."""
    from components.train.training import run

    recorded = Recorded()
    os.environ["GRPO_STORE"] = str(folder / "store")
    with watched(recorded), (folder.parent / "log.txt").open("a") as log, redirect_stdout(log):
        run(problems, folder / "model", folder / "report.html", run_id=folder.name, resume_run="", **given)
    lines = (folder / f"store/runs/{folder.name}/train/metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    recorded.losses = [row["loss"] for row in rows]
    recorded.seconds = {phase: sum(row["seconds"][phase] for row in rows) for phase in ("reward", "step")}
    return recorded


def plain(order: list[str], given: dict[str, Any], recorded: Recorded, folder: Path) -> Cost:
    """The cost of TRL's own loop on the same completions and rewards, sampling left out; it saves once, at the end.

    RuntimeError when its losses are not ours: then the two have not done the same work.
    """
    from datasets import Dataset
    from peft import LoraConfig
    from transformers.trainer_callback import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer

    from components.shared.models import load_base, load_tokenizer, resolve_precision
    from components.shared.sampling import Sampling
    from components.train.interruption import Interruption
    from components.train.rollouts import Rollouts

    steps = len(recorded.rewards)
    tokenizer = load_tokenizer(given["model_name"], "", use_chat_template=given["use_chat_template"])
    dtype = resolve_precision(given["precision"])
    rollouts = Rollouts(tokenizer, Sampling.from_parameters(given), given["seed"], Interruption(), dtype)
    rewards, sampling = iter(recorded.rewards), [Cost(0.0, 0.0)]

    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        began = Cost.now()
        drawn = rollouts(prompts, trainer)
        sampling[0] += Cost.now() - began
        return drawn

    def reward(completions: list[str], **_: Any) -> list[float | None]:
        return list(next(rewards))

    trainer = GRPOTrainer(
        model=load_base(given["model_name"], "", method="lora", precision=given["precision"]),
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=steps,
            per_device_train_batch_size=given["batch_size"],
            num_generations=given["num_generations"],
            max_completion_length=given["max_completion_length"],
            learning_rate=given["lr"],
            beta=given["beta"],
            mask_truncated_completions=True,
            shuffle_dataset=False,
            seed=given["seed"],
            bf16=False,
            use_cpu=True,
            activation_checkpointing=False,
            dataloader_pin_memory=False,
            save_strategy="steps",
            save_steps=steps,
            logging_steps=1,
            disable_tqdm=True,
            report_to="none",
        ),
        reward_funcs=[reward],
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in order]),
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=given["lora_r"],
            lora_alpha=given["lora_alpha"],
            lora_dropout=0.0,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
        rollout_func=rollout,
    )
    trainer.remove_callback(PrinterCallback)
    start = Cost.now()
    trainer.train()
    cost = Cost.now() - start - sampling[0]
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    if len(losses) != steps or any(abs(a - b) > 1e-4 for a, b in zip(losses, recorded.losses, strict=True)):
        raise RuntimeError(f"the plain loop has other losses than ours: {losses} and {recorded.losses}")
    return cost


def settings(steps: int) -> dict[str, Any]:
    """The demo's parameters, cut to so many steps, those that train takes."""
    from cli.parameters import merged, read_file
    from components.handed import HANDED

    given = merged(read_file(ROOT / "demo/parameters.toml"))
    given |= {"model_name": str(ROOT / "demo/model"), "precision": "fp32", "epochs": 1}
    given["max_candidate_samples"] = steps * given["batch_size"] // given["num_generations"]
    wanted = [name for name in ("model_revision", *HANDED["train"]) if name != "resume_run"]
    return {"max_candidate_samples": given["max_candidate_samples"], **{name: given[name] for name in wanted}}


def measure(*, rounds: int, steps: int, sandbox_url: str, folder: Path) -> list[dict[str, dict[str, float]]]:
    """Milliseconds a step of both, once a round, after one that is not counted; they take turns in going first.

    `cpu` and `wall` without sampling and judging; of ours also `reward` and `step`, its judging and its whole step.
    """
    from components.shared.problem import PROBLEMS, write_problems
    from components.train.schedule import prompt_order
    from tests.conftest import demo_problems

    given = settings(steps)
    problems = demo_problems(given.pop("max_candidate_samples"))
    write_problems(folder / "problems" / PROBLEMS, problems)
    given["sandbox_url"] = sandbox_url
    order = [problem.prompt for problem in prompt_order(problems, given["epochs"], given["seed"])]
    recorded = ours(folder / "problems", given, folder / "warm")
    plain(order, given, recorded, folder / "warm-plain")
    rows = []
    for turn in range(rounds):
        row: dict[str, dict[str, float]] = {}
        for name in ("ours", "plain") if turn % 2 else ("plain", "ours"):
            if name == "ours":
                done = ours(folder / "problems", given, folder / f"ours-{turn}")
                phases = {phase: 1000 * seconds / steps for phase, seconds in done.seconds.items()}
                row[name] = {**done.cost.each(steps), **phases}
            else:
                row[name] = plain(order, given, recorded, folder / f"plain-{turn}").each(steps)
        rows.append(row)
        said = ", ".join(f"{name} {each['cpu']:.0f} ms of CPU ({each['wall']:.0f})" for name, each in row.items())
        print(f"round {turn + 1}: {said} a step", flush=True)
    return rows


def ratios_of(rows: list[dict[str, dict[str, float]]]) -> dict[str, float]:
    """What the targets are for: medians of the rounds' ratios, and judging's share of all our steps together."""
    found = {
        f"step_to_plain_{kind}": statistics.median(row["ours"][kind] / row["plain"][kind] for row in rows)
        for kind in ("cpu", "wall")
    }
    found["reward_to_step"] = sum(row["ours"]["reward"] for row in rows) / sum(row["ours"]["step"] for row in rows)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often both are measured (%(default)s)")
    parser.add_argument("--steps", type=int, default=60, help="optimiser steps of each training (%(default)s)")
    options = parser.parse_args()
    from cli.sandbox import running_sandbox

    with tempfile.TemporaryDirectory(prefix="grpo-bench-") as name:
        folder = Path(name)
        with running_sandbox(folder / "sandbox.txt", warn=print) as url:
            os.environ["GRPO_SANDBOX_URL"] = url
            rows = measure(rounds=options.rounds, steps=options.steps, sandbox_url=url, folder=folder)
    ratios = ratios_of(rows)
    OUT.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine(), "steps": options.steps, "targets": TARGETS, "ratios": ratios, "rounds": rows}
    (OUT / "train.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"\n{machine()}, {time.strftime('%Y-%m-%d')}; medians of {len(rows)} rounds of {options.steps} steps\n")
    print("| a step without sampling and sandbox | CPU ms | wall ms |\n|---|---|---|")
    for which in ("ours", "plain"):
        cpu, wall = (statistics.median(row[which][kind] for row in rows) for kind in ("cpu", "wall"))
        print(f"| {which} | {cpu:.1f} | {wall:.1f} |")
    print(f"| ratio | {ratios['step_to_plain_cpu']:.3f} | {ratios['step_to_plain_wall']:.3f} |")
    print(f"| judging's share of our whole step | | {ratios['reward_to_step']:.1%} |")


if __name__ == "__main__":
    main()
