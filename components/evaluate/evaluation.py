"""The comparison: base and tuned model on the same held-out problems, with the same sampling and independent seeds.

Writes evaluation.json and report.html, into the step's outputs and into the run, and completes run.json. With a base
alone there is one model's pass@1 and no difference.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from components.evaluate.comparison import Comparison, Scores, Trial, compare, scores_of
from components.evaluate.content import alone_as_json, as_json
from components.evaluate.models import Subjects
from components.evaluate.planned import planned, sentence
from components.evaluate.report import make_report
from components.evaluate.trials import Examination
from components.evaluate.wording import headline
from components.shared.errors import InfraError, UserError
from components.shared.grading import Grader
from components.shared.lineage import UNTRAINED, TrainedOn, parted, read_trained_on
from components.shared.model_hub import HUB_ID
from components.shared.problem import HELDOUT, REGRESSION, Problem, read_problems
from components.shared.progress import say
from components.shared.run import digest_of, done, folder_of, git_commit, mark_latest, record, run_id_of, versions
from components.shared.sampling import Sampling
from components.shared.sandbox import SandboxClient
from components.shared.store import open_store, upload_folder
from components.shared.trained import trained_folder, unpinned

EVALUATION, REPORT = "evaluation.json", "report.html"
Trials = list[list[Trial]]


@dataclass(frozen=True)
class Sampled:
    """What was drawn, by model: `samples` trials a held-out problem, one greedy one, and the regression problems'.

    batch_effect: what the batch size changes, None where it cannot change anything or all came from the store.
    """

    heldout: dict[str, Trials]
    greedy: dict[str, Trials]
    regression: dict[str, Trials]
    batch_effect: dict[str, Any]


def run(problems: Path, model: Path | None, evaluation: Path, report: Path, **given: Any) -> dict[str, float]:
    """Compare base and tuned model; returns the figures for KFP's metrics.

    problems: a problem set's folder. model: what train wrote; None for the model at the address `tuned_model`, or where
    that is empty the base alone. evaluation: the folder for evaluation.json. report: the file for the page. given: the
    step's parameters, by the pipeline's names. UserError for a missing or unusable input, InfraError when programs
    could not be judged.
    """
    start = time.monotonic()
    name = run_id_of(given["run_id"], given["resume_run"])
    with tempfile.TemporaryDirectory(prefix="grpo-tuned-") as scratch:
        given["tuned_model"] = unpinned(given["tuned_model"]) if model is None else ""
        folder = trained_folder(given["tuned_model"], Path(scratch)) if given["tuned_model"] else model
        subjects = Subjects(given, folder)
        check_base(subjects, given)
        seen = read_trained_on(folder) if folder else UNTRAINED
        pool, known = unseen(read_problems(problems / HELDOUT), seen, just_trained=model is not None)
        chosen = choose(pool, given["num_eval_examples"])
        regression = read_problems(problems / REGRESSION) if (problems / REGRESSION).is_file() else []
        plan = planned(problems, len(chosen), given["eval_k"])
        say("evaluate", sentence(plan, count=len(chosen), samples=given["eval_k"], alone=len(subjects.names) == 1))
        sampled = examine(chosen, regression, subjects, given)
    heldout = scored(chosen, sampled.heldout, given["eval_k"], "held-out")
    elsewhere = scored(regression, sampled.regression, given["eval_k"], "regression") if regression else None
    content = {
        **content_of(heldout),
        "greedy": greedy(chosen, sampled.greedy),
        "regression": content_of(elsewhere) if elsewhere else None,
        "planned": plan,
        "batch_effect": sampled.batch_effect,
        "requested_problems": given["num_eval_examples"],
        "trained_on": training_seen([*chosen, *regression], known, seen),
        "run_id": name,
        "seeds": {which: seed_of(given["seed"], which) for which in subjects.names},
        **training_of(subjects, given, just_trained=model is not None),
        "seconds": round(time.monotonic() - start, 1),
    }
    content["headline"] = headline(content)
    page = make_report(heldout, content, given)
    if model is None:  # nothing was trained in this run, so no step has copied the problems into it yet
        upload_folder(open_store(), folder_of(name), problems)
    _write(name, content, page, evaluation=evaluation, report=report)
    _complete_record(name, problems, subjects, content, given)
    say("evaluate", content["headline"])
    return metrics_of(content)


def check_base(subjects: Subjects, given: Mapping[str, Any]) -> None:
    """UserError when the model was trained from another base.

    A base at an address of one's own may be a copy of that base; then it is said, and an adapter that does not fit is
    refused when it is loaded.
    """
    if not subjects.trained or subjects.trained["base"] == given["model_name"]:
        return
    base, name = subjects.trained["base"], given["model_name"]
    if given["tuned_model"] and not HUB_ID.fullmatch(name):
        say("evaluate", f"warning: the model was trained from {base}; it is compared with {name}")
        return
    raise UserError(f"The model was trained from {base!r}, not from model_name {name!r}: compare it with its own base.")


def unseen(
    heldout: Sequence[Problem], seen: TrainedOn, *, just_trained: bool
) -> tuple[Sequence[Problem], list[Problem]]:
    """The problems to choose from, and those that are left out: what a run before this one in a series was trained on.

    A model that there was already is evaluated on what was asked for, and the page says what of it was trained on.
    UserError where none would be left.
    """
    new, known = parted(heldout, seen)
    if not just_trained or not known:
        return heldout, []
    if not new:
        raise UserError(
            f"All {len(known)} held-out problems were trained on before, by the adapter that this run started from: "
            "keep seed, data set and candidate_splits those of the runs before, or leave init_adapter out."
        )
    say("evaluate", f"warning: {len(known)} held-out problems are left out, for a run before this one trained on them")
    return new, known


def training_seen(measured: Sequence[Problem], left_out: Sequence[Problem], seen: TrainedOn) -> dict[str, Any]:
    """What evaluation.json says of problems that were trained on: left out, measured all the same, or not known."""
    return {
        "left_out": [problem.task_id for problem in left_out],
        "measured": [problem.task_id for problem in measured if seen.knows(problem)],
        "complete": seen.complete,
    }


def choose(heldout: Sequence[Problem], wanted: int) -> list[Problem]:
    """The first `wanted` held-out problems; fewer are a warning, none is the user's mistake."""
    if not heldout:
        raise UserError("The problem set holds no held-out problems: raise max_eval_samples or use another data set.")
    if len(heldout) < wanted:
        say(
            "evaluate", f"num_eval_examples asks for {wanted} held-out problems, there are {len(heldout)}: all are used"
        )
    return list(heldout[:wanted])


def examine(
    problems: Sequence[Problem], regression: Sequence[Problem], subjects: Subjects, given: Mapping[str, Any]
) -> Sampled:
    """Sample and judge with the base, then with the tuned model."""
    if given["threads"]:
        torch.set_num_threads(given["threads"])
    sampling = Sampling.from_parameters(given)
    client = SandboxClient.from_setting(given["sandbox_url"])
    grader = Grader(client, test_timeout_s=given["test_timeout_s"], infra_limit=given["infra_limit"])
    found = Sampled({}, {}, {}, {})
    for which in subjects.names:
        one = Examination(subjects, which, grader, seed=seed_of(given["seed"], which), given=given)
        found.heldout[which] = one.trials(problems, sampling, samples=given["eval_k"], what="sampled")
        found.greedy[which] = one.trials(problems, replace(sampling, temperature=0.0), samples=1, what="greedy")
        found.batch_effect[which] = one.batch_effect(problems, sampling)
        if regression:
            found.regression[which] = one.trials(regression, sampling, samples=given["eval_k"], what="regression")
    return found


def scored(problems: Sequence[Problem], trials: Mapping[str, Trials], samples: int, kind: str) -> Comparison | Scores:
    """Both models compared, or the base's scores; InfraError when no problem could be judged."""
    both = "tuned" in trials
    if both:
        comparison = compare(problems, trials["base"], trials["tuned"], samples=samples)
        if comparison.pairs:
            return comparison
    else:
        scores = scores_of(problems, trials["base"], samples=samples)
        if scores.problems:
            return scores
    raise InfraError(
        f"None of the {len(problems)} {kind} problems could be judged{' for both models' if both else ''}."
    )


def content_of(result: Comparison | Scores) -> dict[str, Any]:
    """The part of evaluation.json that trials at one set of problems decide."""
    return as_json(result) if isinstance(result, Comparison) else alone_as_json(result)


def greedy(problems: Sequence[Problem], trials: Mapping[str, Trials]) -> dict[str, Any]:
    """pass@1 at temperature 0 by model, over the problems that could be judged, and which problems pass."""
    found = {}
    for model, rows in trials.items():
        judged = {
            problem.task_id: bool(row[0].verdict.passed)
            for problem, row in zip(problems, rows, strict=True)
            if row[0].verdict.passed is not None
        }
        rate = sum(judged.values()) / len(judged) if judged else None
        passed = [task for task, ok in judged.items() if ok]
        found[model] = {"pass_at_1": rate, "problems": len(judged), "passed": passed}
    return found


def seed_of(seed: int, model: str) -> int:
    """The sampling seed of `base` or `tuned`: apart from each other and from training, repeatable by the run's seed."""
    return int.from_bytes(hashlib.sha256(f"{seed}/evaluate/{model}".encode()).digest()[:4], "big")


def training_of(subjects: Subjects, given: Mapping[str, Any], *, just_trained: bool) -> dict[str, Any]:
    """What the tuned model is, and with what rewards and seed it was trained: by this run, or as model.json at its
    address tells."""
    facts = subjects.trained or {}
    told = given if just_trained else facts
    return {
        "tuned_model": given["tuned_model"],
        "tuned_run": facts.get("run", ""),
        "kind": facts.get("kind"),
        "method": facts.get("method"),
        "reward": told.get("reward", "tests"),
        "training_seeds": [told["seed"]] if "seed" in told else None,
    }


def metrics_of(content: Mapping[str, Any]) -> dict[str, float]:
    """The scalars that KFP shows beside the run, and side by side in its comparison of runs."""
    found: dict[str, float | None] = {}
    for model in (which for which in ("base", "tuned") if which in content):
        found[f"{model}_pass_at_1"] = content[model]["pass_at_1"]
        found[f"{model}_greedy_pass_at_1"] = content["greedy"][model]["pass_at_1"]
        found[f"{model}_truncated"] = content[model]["truncated"]
        if content["hidden_tests"]:
            found[f"{model}_hidden_gap"] = content["hidden_tests"][model]["gap"]
            found[f"{model}_missed_share"] = content["hidden_tests"][model]["missed_share"]
        if content["regression"]:
            found[f"{model}_regression_pass_at_1"] = content["regression"][model]["pass_at_1"]
    for prefix, part in (("", content), ("regression_", content["regression"] or {})):
        if "difference" in part:
            low, high = part["difference"]["ci95"]
            found[f"{prefix}difference"] = part["difference"]["pass_at_1"]
            found |= {f"{prefix}difference_ci95_low": low, f"{prefix}difference_ci95_high": high}
            found[f"{prefix}minimum_detectable"] = part["minimum_detectable"]
    found |= {"problems": content["problems"], "seconds": content["seconds"]}
    return {name: float(value) for name, value in found.items() if value is not None}


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
    name: str, problems: Path, subjects: Subjects, content: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    counts = {file.parent.name: json.loads(file.read_text()) for file in sorted(problems.glob("*/counts.json"))}
    revision = subjects.trained.get("revision", "") if subjects.trained else given["model_revision"]
    record(
        open_store(),
        name,
        parameters={key: value for key, value in given.items() if key not in ("run_id", "resume_run")},
        revisions={"model": revision},
        versions=versions(),
        git_commit=git_commit(),
        code_version=given["code_version"],
        counts=counts,
        datasets={
            file.relative_to(problems).as_posix(): digest_of(file) for file in sorted(problems.glob("*/*.jsonl"))
        },
        seeds={"seed": given["seed"], **{f"evaluate_{which}": seed for which, seed in content["seeds"].items()}},
        seconds={**{step: found["seconds"] for step, found in counts.items()}, "evaluate": content["seconds"]},
        **done("evaluate"),
    )
    mark_latest(open_store(), name)
