"""The model card of an export, README.md in its folder: what it is, how to load it, and where it comes from."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData

from components.shared.run import IMAGE_VARIABLE, digest_of, git_commit, git_is_changed, versions

CARD = "README.md"
COUNTS, PROBLEMS = "prepare/counts.json", "*/*.jsonl"
NOT_A_SETTING = ("run_id", "resume_run", "code_version", "sandbox_url")
TITLES = {"adapter": "LoRA adapter", "model": "Model", "merged": "Base and adapter merged"}
LOADING = {
    "adapter": """base = AutoModelForCausalLM.from_pretrained({base!r}{revision})
model = PeftModel.from_pretrained(base, folder)""",
    "model": "model = AutoModelForCausalLM.from_pretrained(folder)",
}
LOADING["merged"] = LOADING["model"]

ELSEWHERE = """Rewards are those of the training problems. What the model does on problems that it never saw stands in
`runs/{run}/evaluate/evaluation.json` of the run's store."""
CHAT = """Put the prompt through the tokenizer's chat template, as training did; the reply's fenced block is the
program."""
COMPLETION = """The prompt is the task, an empty line and the function's signature. `generation_config.json` holds the
stop rule as stop strings, which generation needs the tokenizer for: `model.generate(..., tokenizer=tokenizer)`."""


def provenance(problems: Path, given: Mapping[str, Any], run: str) -> dict[str, str]:
    """Where a model comes from: code, image, packages, and the data that prepare left in folder `problems`."""
    counts = json.loads((problems / COUNTS).read_text()) if (problems / COUNTS).is_file() else {}
    data = (
        f"{counts['dataset']} at {counts['dataset_revision'] or 'no revision'}" if counts else "handed in as problems"
    )
    return {
        "run": run,
        "git commit": _commit(),
        "code version": given["code_version"] or "not set",
        "image": os.environ.get(IMAGE_VARIABLE) or "none: trained outside a cluster",
        "packages": ", ".join(f"{name} {version}" for name, version in versions().items()),
        "data set": data,
        "data set digest": str(counts.get("dataset_digest", "not known")),
        **{file.relative_to(problems).as_posix(): digest_of(file) for file in sorted(problems.glob(PROBLEMS))},
    }


def _commit() -> str:
    commit = git_commit()
    if commit is None:
        return "not known in an image: the code version stands for it"
    return f"{commit}, with changes that were not committed" if git_is_changed() else commit


def model_card(
    kind: str,
    *,
    given: Mapping[str, Any],
    origin: Mapping[str, str],
    metrics: Mapping[str, float],
    merge: Mapping[str, Any] | None,
) -> str:
    """The card as Markdown. kind: adapter, model or merged; metrics: of training; merge: what merging lost, if done."""
    settings = {name: value for name, value in sorted(given.items()) if name not in NOT_A_SETTING}
    parts = [
        f"---\n{_metadata(kind, given).to_yaml()}\n---",
        f"# {TITLES[kind]} of {given['model_name']}, trained on unit tests with GRPO",
        _usage(kind, given),
        *([_merge_section(merge)] if merge else []),
        "## Training\n\n" + _table(("figure", "value"), ((name, f"{value:.4g}") for name, value in metrics.items())),
        ELSEWHERE.format(run=origin["run"]),
        "## Where it comes from\n\n" + _table(("what", "value"), origin.items()),
        f"## Parameters\n\nseed {given['seed']} decides the order of the problems and every completion.\n\n"
        + _table(("parameter", "value"), settings.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _metadata(kind: str, given: Mapping[str, Any]) -> ModelCardData:
    on_hub = not Path(given["model_name"]).exists() and "://" not in given["model_name"]
    return ModelCardData(
        base_model=given["model_name"] if on_hub else None,
        library_name="peft" if kind == "adapter" else "transformers",
        pipeline_tag="text-generation",
        tags=["grpo", "code", "grpo-code"],
    )


def _usage(kind: str, given: Mapping[str, Any]) -> str:
    peft = "from peft import PeftModel\n" if kind == "adapter" else ""
    revision = given["model_revision"] if not Path(given["model_name"]).exists() else ""
    loading = LOADING[kind].format(
        base=given["model_name"], revision=f", revision={revision!r}" if revision and "://" not in revision else ""
    )
    mode = CHAT if given["use_chat_template"] else COMPLETION
    return (
        f"```python\n{peft}from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        f'folder = "."  # where this card lies\n{loading}\n'
        f"tokenizer = AutoTokenizer.from_pretrained(folder)\n```\n\n{mode}"
    )


def _merge_section(merge: Mapping[str, Any]) -> str:
    kept, lost = merge["update_kept"], merge["lost"]
    rows = {
        "precision of the files": merge["precision"],
        "update kept (cosine over all weights)": "not measured on a 4-bit base" if kept is None else f"{kept:.6f}",
        "change of a token's log-probability by the merge": f"{merge['logprob_error']:.3g} nats",
        "change by training": f"{merge['logprob_trained']:.3g} nats",
        "share of training's change that is lost": "none to lose" if lost is None else f"{lost:.2%}",
    }
    said = f"Measured on the exported files, over {merge['tokens']} tokens that training had sampled."
    return f"## What the merge lost\n\n{said}\n\n{_table(('what', 'value'), rows.items())}"


def _table(head: tuple[str, str], rows: Iterable[tuple[str, Any]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    """A value as one cell: a bar or a line break would end it."""
    return " ".join(f"{value:g}".split() if isinstance(value, float) else str(value).split()).replace("|", "\\|")
