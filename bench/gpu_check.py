"""Whether a GPU does what is promised: `make gpu-check`, at most 8 minutes on one GPU, without hub, cluster or data.

Models of real shapes with random weights are trained for three steps each by `components.train.training.run`, in a
process of their own: 7B with lora and qlora, 0.5B with full. The table sets the measured peak of memory beside the
plan's, which must agree within 10 %, and gives the seconds of a step by phase and the tokens sampled a second.
`--tiny` goes through the same on a CPU with tiny shapes: it shows that the check works, and proves nothing of a GPU.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "bench/out"
STEPS = 3
TOLERANCE = 0.1
GIB = 2**30
CASES = (("lora", "7B"), ("qlora", "7B"), ("full", "0.5B"))
NEEDS_CUDA = ("qlora",)
UNPROVEN = "No CUDA GPU was used: what is promised of one is unproven by this run."
# Qwen2.5-Coder's shapes, from the config.json of its models.
SHAPES: dict[str, dict[str, Any]] = {
    "7B": {
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
        "tie_word_embeddings": False,
    },
    "0.5B": {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
}
TINY = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
TINY |= {"num_key_value_heads": 2, "vocab_size": 512}


def save_model(folder: Path, shape: dict[str, Any]) -> None:
    """A model of this shape with random weights in bf16, and the demo's tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config

    config = Qwen2Config(**shape, eos_token_id=0, pad_token_id=1, max_position_embeddings=32768)
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    for file in (ROOT / "demo/model").glob("tokenizer*.json"):
        shutil.copyfile(file, folder / file.name)


def settings(method: str, folder: Path, *, tiny: bool) -> dict[str, Any]:
    """The pipeline's defaults for train, on the model in `folder`; rewards are coin flips, so that there is a loss."""
    from cli.parameters import merged
    from components.handed import HANDED

    given = merged({"method": method, "model_name": str(folder), "epochs": 1, "reward": "random"})
    if tiny:
        given |= {"max_completion_length": 16, "threads": 1}
    return {name: given[name] for name in ("model_revision", *HANDED["train"]) if name != "resume_run"}


def to_the_end(sample: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Completions of full length that count as finished: random weights hardly ever say EOS, and truncated ones
    would leave the loss with nothing to compute."""

    def drawn(model: Any, tokenizer: Any, prompts: Sequence[str], *given: Any) -> list[Any]:
        found = sample(model, tokenizer, prompts, *given)
        ids = [(*one.token_ids[:-1], tokenizer.eos_token_id) for one in found]
        return [replace(one, token_ids=each, ended_by="eos") for one, each in zip(found, ids, strict=True)]

    return drawn


def check(method: str, folder: Path, work: Path, *, tiny: bool) -> dict[str, Any]:
    """Train three steps in this process; the row of the table."""
    import torch

    from cli.sandbox import running_sandbox
    from components.shared.problem import PROBLEMS, write_problems
    from components.train import rollouts, session, training
    from tests.conftest import demo_problems

    write_problems(work / "problems" / PROBLEMS, demo_problems(STEPS))
    os.environ["GRPO_STORE"] = str(work / "store")
    planned: list[Any] = []

    def noting(*given: Any) -> Any:
        planned.append(plan(*given))
        return planned[-1]

    plan, cuda = session.plan_training, torch.cuda.is_available()
    with (
        running_sandbox(work / "sandbox.txt", warn=print) as url,
        mock.patch.dict(os.environ, {"GRPO_SANDBOX_URL": url}),
        mock.patch.object(session, "plan_training", noting),
        mock.patch.object(rollouts, "generate", to_the_end(rollouts.generate)),
    ):
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        given = settings(method, folder, tiny=tiny)
        training.run(work / "problems", work / "model", work / "report.html", run_id="check", resume_run="", **given)
    rows = [json.loads(line) for line in (work / "store/runs/check/train/metrics.jsonl").read_text().splitlines()]
    later = rows[1:]  # the first step also compiles kernels
    seconds = {name: sum(row["seconds"][name] for row in later) / len(later) for name in later[0]["seconds"]}
    return {
        "device": torch.cuda.get_device_name() if cuda else "CPU",
        "steps": len(rows),
        "peak_gib": torch.cuda.max_memory_allocated() / GIB if cuda else None,
        "planned_gib": planned[0].peak / GIB,
        "seconds": seconds,
        "tokens_per_s": given["batch_size"] * given["max_completion_length"] / seconds["generate"],
    }


def in_a_process(method: str, folder: Path, *, tiny: bool) -> dict[str, Any]:
    """One case in a fresh process, whose memory is its own; RuntimeError with its output when it fails."""
    command = [sys.executable, "-m", "bench.gpu_check", "--case", method, "--model", str(folder)]
    command += ["--tiny"] if tiny else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{method}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def deviation(row: dict[str, Any]) -> float | None:
    """By which share the measured peak differs from the plan; None where none was measured."""
    return None if row["peak_gib"] is None else row["peak_gib"] / row["planned_gib"] - 1


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    phases = [name for name in rows[0]["seconds"] if name != "step"]
    head = ["case", "peak GiB", "planned GiB", "difference", *(f"{phase} s" for phase in phases), "step s", "tokens/s"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        peak, off = row["peak_gib"], deviation(row)
        cells = [row["case"], "–" if peak is None else f"{peak:.2f}", f"{row['planned_gib']:.2f}"]
        cells += ["–" if off is None else f"{off:+.1%}"]
        cells += [f"{row['seconds'][name]:.2f}" for name in (*phases, "step")] + [f"{row['tokens_per_s']:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdict(rows: Sequence[dict[str, Any]]) -> tuple[str, int]:
    """What the rows prove, in one sentence, and the exit code: 1 when a plan is off by more than the tolerance."""
    measured = {row["case"]: off for row in rows if (off := deviation(row)) is not None}
    if not measured:
        return UNPROVEN, 0
    wrong = [f"{case} {off:+.1%}" for case, off in measured.items() if abs(off) > TOLERANCE]
    if wrong:
        return f"The plan is off by more than {TOLERANCE:.0%}: {', '.join(wrong)}.", 1
    return f"Every peak is within {TOLERANCE:.0%} of its plan.", 0


def run_all(*, tiny: bool) -> int:
    """All cases that this machine can do, one after the other; returns the exit code."""
    import torch

    cuda, rows = torch.cuda.is_available(), []
    with tempfile.TemporaryDirectory(prefix="grpo-gpu-check-") as name:
        for method, size in CASES:
            if method in NEEDS_CUDA and not cuda:
                print(f"{method} is left out: it needs a CUDA GPU", flush=True)
                continue
            folder = Path(name) / size
            if not folder.exists():
                save_model(folder, TINY if tiny else SHAPES[size])
            torch.cuda.empty_cache()
            shape = "tiny" if tiny else size
            rows.append({"case": f"{method}, {shape}", **in_a_process(method, folder, tiny=tiny)})
            print(f"{method}, {shape}: done", flush=True)
    said, code = verdict(rows)
    OUT.mkdir(parents=True, exist_ok=True)
    ratios = {row["case"]: off for row in rows if (off := deviation(row)) is not None}
    (OUT / "gpu_check.json").write_text(json.dumps({"ratios": ratios, "rows": rows, "verdict": said}, indent=1) + "\n")
    print(f"\n{rows[0]['device']}\n\n{table(rows)}\n\n{said}")
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="tiny shapes, on a CPU too: shows that the check works")
    parser.add_argument("--case", choices=[method for method, _ in CASES], help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    import torch

    if options.case:
        with tempfile.TemporaryDirectory(prefix="grpo-gpu-case-") as work:
            with redirect_stdout(sys.stderr):
                row = check(options.case, options.model, Path(work), tiny=options.tiny)
            print(json.dumps(row))
        return 0
    if not torch.cuda.is_available() and not options.tiny:
        print(f"There is no CUDA GPU here. {UNPROVEN} `make gpu-check ARGS=--tiny` shows that the check works.")
        return 2
    return run_all(tiny=options.tiny)


if __name__ == "__main__":
    sys.exit(main())
