"""The comparison: base and tuned model on the same held-out problems, with the same sampling and independent seeds.

Writes evaluation.json and report.html, into the step's outputs and into the run, and completes run.json.
"""

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from components.evaluate.comparison import MODELS, Comparison, as_json, compare
from components.evaluate.models import free_memory, read_trained, trials, tuned_from
from components.evaluate.report import headline, make_report
from components.shared.errors import InfraError, UserError
from components.shared.grading import Grader
from components.shared.models import load_base, load_tokenizer
from components.shared.problem import HELDOUT, Problem, read_problems
from components.shared.progress import say
from components.shared.run import digest_of, folder_of, git_commit, mark_latest, record, run_id_of, versions
from components.shared.sampling import Sampling
from components.shared.sandbox import SandboxClient
from components.shared.store import open_store

EVALUATION, REPORT = "evaluation.json", "report.html"


def run(problems: Path, model: Path, evaluation: Path, report: Path, **given: Any) -> dict[str, float]:
    """Compare base and tuned model; returns the figures for KFP's metrics.

    problems: a problem set's folder. model: what train wrote. evaluation: the folder for evaluation.json. report: the
    file for the page. given: the step's parameters, by the pipeline's names. UserError for a missing or unusable input,
    InfraError when programs could not be judged.
    """
    start = time.monotonic()
    name = run_id_of(given["run_id"], given["resume_run"])
    trained = read_trained(model)
    if trained["base"] != given["model_name"]:
        raise UserError(
            f"The model was trained from {trained['base']!r}, not from model_name {given['model_name']!r}: "
            "compare it with its own base."
        )
    chosen = choose(read_problems(problems / HELDOUT), given["num_eval_examples"])
    comparison = evaluate_both(chosen, model, trained, given)
    seconds = round(time.monotonic() - start, 1)
    content = {
        **as_json(comparison),
        "requested_problems": given["num_eval_examples"],
        "run_id": name,
        "reward": given["reward"],
        "seeds": {which: seed_of(given["seed"], which) for which in MODELS},
        "method": trained["method"],
        "seconds": seconds,
    }
    page = make_report(comparison, content, given)
    _write(name, content, page, evaluation=evaluation, report=report)
    _complete_record(name, problems, trained, content, given)
    say("evaluate", headline(content))
    return metrics_of(content)


def choose(heldout: Sequence[Problem], wanted: int) -> list[Problem]:
    """The first `wanted` held-out problems; fewer are a warning, none is the user's mistake."""
    if not heldout:
        raise UserError("The problem set holds no held-out problems: raise max_eval_samples or use another data set.")
    if len(heldout) < wanted:
        say(
            "evaluate", f"num_eval_examples asks for {wanted} held-out problems, there are {len(heldout)}: all are used"
        )
    return list(heldout[:wanted])


def evaluate_both(
    problems: Sequence[Problem], model: Path, trained: dict[str, Any], given: dict[str, Any]
) -> Comparison:
    """Sample and judge with the base, then with the tuned model; never both in memory in full."""
    if given["threads"]:
        torch.set_num_threads(given["threads"])
    source = given["model_name"], given["model_revision"]
    tokenizer = load_tokenizer(*source, use_chat_template=given["use_chat_template"])
    sampling = Sampling.from_parameters(given)
    client = SandboxClient.from_setting(given["sandbox_url"])
    grader = Grader(client, test_timeout_s=given["test_timeout_s"], infra_limit=given["infra_limit"])
    results = {}
    current = load_base(*source, method=trained["method"], precision=given["precision"])
    for which in MODELS:
        if which == "tuned":
            base, current = current if trained["kind"] == "adapter" else None, None
            free_memory()
            current = tuned_from(base, model, kind=trained["kind"], precision=given["precision"])
        results[which] = trials(
            current,
            tokenizer,
            problems,
            sampling,
            grader,
            name=which,
            samples=given["eval_k"],
            seed=seed_of(given["seed"], which),
        )
    comparison = compare(problems, results["base"], results["tuned"], samples=given["eval_k"])
    if not comparison.pairs:
        raise InfraError(f"None of the {len(problems)} held-out problems could be judged for both models.")
    return comparison


def seed_of(seed: int, model: str) -> int:
    """The sampling seed of `base` or `tuned`: apart from each other and from training, repeatable by the run's seed."""
    return int.from_bytes(hashlib.sha256(f"{seed}/evaluate/{model}".encode()).digest()[:4], "big")


def metrics_of(content: dict[str, Any]) -> dict[str, float]:
    """The scalars that KFP shows beside the run."""
    low, high = content["difference"]["ci95"]
    return {
        "base_pass_at_1": content["base"]["pass_at_1"],
        "tuned_pass_at_1": content["tuned"]["pass_at_1"],
        "difference": content["difference"]["pass_at_1"],
        "difference_ci95_low": low,
        "difference_ci95_high": high,
        "minimum_detectable": content["minimum_detectable"],
        "problems": float(content["problems"]),
        "seconds": content["seconds"],
    }


def _write(name: str, content: dict[str, Any], page: str, *, evaluation: Path, report: Path) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    evaluation.mkdir(parents=True, exist_ok=True)
    (evaluation / EVALUATION).write_text(text, encoding="utf-8")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(page, encoding="utf-8")
    store = open_store()
    store.write(f"{folder_of(name)}/evaluate/{EVALUATION}", text.encode())
    store.write(f"{folder_of(name)}/evaluate/{REPORT}", page.encode())


def _complete_record(
    name: str, problems: Path, trained: dict[str, Any], content: dict[str, Any], given: dict[str, Any]
) -> None:
    counts = {file.parent.name: json.loads(file.read_text()) for file in sorted(problems.glob("*/counts.json"))}
    record(
        open_store(),
        name,
        parameters={key: value for key, value in given.items() if key not in ("run_id", "resume_run")},
        revisions={"model": trained["revision"]},
        versions=versions(),
        git_commit=git_commit(),
        code_version=given["code_version"],
        counts=counts,
        datasets={
            file.relative_to(problems).as_posix(): digest_of(file) for file in sorted(problems.glob("*/*.jsonl"))
        },
        seeds={"seed": given["seed"], **{f"evaluate_{which}": seed for which, seed in content["seeds"].items()}},
        seconds={**{step: found["seconds"] for step, found in counts.items()}, "evaluate": content["seconds"]},
    )
    mark_latest(open_store(), name)
