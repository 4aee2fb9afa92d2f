"""Whether a trained model takes over from the incumbent, decided on the validation problems and written down.

The held-out problems have no part in it: a series of runs that kept what did best on them would select on them, and
their figures would no longer be what the model does on problems it never saw. Nor has a problem that the candidate, the
incumbent or a model before them was trained on. The incumbent is the current version under the same name, or the base
where there is none; both are sampled on the same problems in the same way.
"""

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from components.evaluate.comparison import Comparison, Trial, compare
from components.evaluate.content import as_json
from components.evaluate.evaluation import EVALUATION, seed_of
from components.evaluate.models import Subjects
from components.evaluate.planned import planned, sentence
from components.evaluate.trials import Examination
from components.evaluate.wording import looks_like_hacking
from components.shared import published
from components.shared.errors import InfraError
from components.shared.grading import Grader
from components.shared.lineage import parted, read_trained_on, trained_on_at
from components.shared.pages import percent, points
from components.shared.problem import VALIDATION, Problem, read_problems
from components.shared.progress import say
from components.shared.run import done, folder_of, record, recorded, run_id_of
from components.shared.sampling import Sampling
from components.shared.sandbox import SandboxClient
from components.shared.status import DECISION
from components.shared.store import Store, open_store
from components.shared.trained import read_trained

INCUMBENT, CANDIDATE = "incumbent", "candidate"


@dataclass(frozen=True)
class Contender:
    """A model that is judged. subjects: its base and what was trained on it. which: `base` or `tuned` of them.

    given: the step's parameters with the base, and the prompting with which it was trained.
    """

    subjects: Subjects
    which: str
    given: dict[str, Any]


def run(problems: Path, model: Path, evaluation: Path, **given: Any) -> dict[str, float]:
    """Judge candidate and incumbent, publish the better one, write the decision; returns the figures for KFP's metrics.

    problems: a problem set's folder. model: what train wrote. evaluation: evaluate's folder with evaluation.json.
    given: the step's parameters, by the pipeline's names. Not to publish is a result, no failure.
    """
    start = time.monotonic()
    store, name = open_store(), given["publish_as"]
    version = run_id_of(given["run_id"], given["resume_run"])
    seen = published.read_pointer(store, name)
    if seen.version == version and (told := published.publication(store, name, version)):
        say("publish", f"this run is the current version of {name} already")
        if told.get("decision") and not store.exists(f"{folder_of(version)}/{DECISION}"):
            _write(store, version, told["decision"])  # an attempt before this one was lost before it could
        record(store, version, **done("publish"))
        return {"published": 1.0}
    before = published.folder_of_version(name, seen.version) if seen.version else ""
    lineages = [read_trained_on(model), trained_on_at(before)]
    validation, known = parted(read_problems(problems / VALIDATION), *lineages)
    decision: dict[str, Any] = {
        "name": name, "run_id": version, "version": None, "published": False, "incumbent": seen.version,
        "left_out": [problem.task_id for problem in known],
        "all_training_known": all(told.complete for told in lineages),
    }  # fmt: skip
    if known:
        say("publish", f"warning: {left_out(len(known))}")
    if validation:
        count, samples = len(validation), given["eval_k"]
        plan = sentence(planned(problems, count, samples), count=count, samples=samples, alone=False)
        say("publish", f"validation: {plan}")
        comparison = judge(validation, model, seen, given)
        decision |= figures(comparison, seconds=time.monotonic() - start)
        better, reason = verdict(comparison, seen.version)
        decision["reason"] = " ".join([reason, *limits(decision)])
        if better:
            decision |= _publish(store, model, evaluation, comparison, seen, decision, given)
    else:
        decision["reason"] = nothing_to_decide_on(len(known))
    _write(store, version, decision)
    scalars = ("incumbent_pass_at_1", "candidate_pass_at_1", "minimum_detectable")
    return {"published": float(decision["published"]), **{key: decision[key] for key in scalars if key in decision}}


def left_out(count: int) -> str:
    """What is said of validation problems that a model of the series was trained on."""
    return (
        f"{count} validation problem{' has' if count == 1 else 's have'} no part in the decision: this run, or one "
        "before it in the series, trained on what is asked there."
    )


def limits(decision: Mapping[str, Any]) -> list[str]:
    """What a reader of the decision must know beside it, in sentences."""
    said = [left_out(len(decision["left_out"]))] if decision["left_out"] else []
    if not decision["all_training_known"]:
        said.append("What a model before this one was trained on is not known: validation problems may be among it.")
    if looks_like_hacking(decision["hidden_tests"]):
        said.append(
            "Of what passes the visible tests, more fails hidden ones than of the incumbent's, beyond noise: that "
            "looks like reward hacking, so read the code in the evaluation report."
        )
    return said


def nothing_to_decide_on(known: int) -> str:
    """Why there is no validation problem, and what would leave some; known: those that were trained on."""
    if known:
        return (
            f"{left_out(known)} None is left to decide on: keep seed, data set and candidate_splits those of the runs "
            "before, or start a series anew under another name."
        )
    return (
        "The data set leaves no validation problems to decide on: take validation out of candidate_splits, or use a "
        "data set with such problems."
    )


def judge(validation: Sequence[Problem], model: Path, seen: published.Pointer, given: dict[str, Any]) -> Comparison:
    """Sample and judge the incumbent, then the candidate, on the same problems; never both in memory."""
    if given["threads"]:
        torch.set_num_threads(given["threads"])
    client = SandboxClient.from_setting(given["sandbox_url"])
    grader = Grader(client, test_timeout_s=given["test_timeout_s"], infra_limit=given["infra_limit"])
    with tempfile.TemporaryDirectory(prefix="grpo-incumbent-") as scratch:
        found = {
            INCUMBENT: _trials(INCUMBENT, incumbent(seen, model, Path(scratch), given), validation, grader),
            CANDIDATE: _trials(CANDIDATE, trained(model, given), validation, grader),
        }
    comparison = compare(validation, found[INCUMBENT], found[CANDIDATE], samples=given["eval_k"])
    if not comparison.pairs:
        raise InfraError(f"None of the {len(validation)} validation problems could be judged for both models.")
    return comparison


def trained(folder: Path, given: Mapping[str, Any]) -> Contender:
    """The model in a folder as train writes it."""
    facts = read_trained(folder)
    own = {**given, "model_name": facts["base"], "model_revision": facts["revision"]}
    return Contender(Subjects(own, folder), "tuned", own)


def incumbent(seen: published.Pointer, candidate: Path, scratch: Path, given: Mapping[str, Any]) -> Contender:
    """The current version, fetched to `scratch` and prompted as it was trained; or the candidate's own base."""
    if seen.version is None:
        return replace(trained(candidate, given), which="base")
    store = open_store()
    published.fetch_version(store, given["publish_as"], seen.version, scratch)
    told = published.publication(store, given["publish_as"], seen.version) or {}
    return trained(scratch, {**given, **(told.get("prompting") or {})})


def _trials(role: str, one: Contender, problems: Sequence[Problem], grader: Grader) -> list[list[Trial]]:
    """`eval_k` judged trials of a contender at each problem, in order, from the store as far as they are there.

    Its model is gone from memory afterwards.
    """
    seed = seed_of(one.given["seed"], role)
    examination = Examination(one.subjects, one.which, grader, seed=seed, given=one.given, step="publish", role=role)
    sampling = Sampling.from_parameters(one.given)
    found = examination.trials(problems, sampling, samples=one.given["eval_k"], what="validation")
    one.subjects.release()
    return found


def verdict(comparison: Comparison, current: str | None) -> tuple[bool, str]:
    """Whether the candidate is better beyond noise, and the sentence that says why or why not."""
    difference = comparison.difference
    against = f"the current version {current}" if current else "the base, there being no version yet"
    measured = (
        f"{points(difference.mean)} against {against}, 95\N{NO-BREAK SPACE}% interval "
        f"{points(difference.low).removesuffix(' points')} to {points(difference.high)}, over "
        f"{len(comparison.pairs)} validation problems"
    )
    if difference.low <= 0:
        sure = "it is worse" if difference.high < 0 else "that is within noise"
        return False, f"{measured}: {sure}."
    return True, f"{measured}: better beyond noise."


def figures(comparison: Comparison, *, seconds: float) -> dict[str, Any]:
    """What decision.json says of the comparison; rates are fractions."""
    content = as_json(comparison)
    return {
        "incumbent_pass_at_1": content["base"]["pass_at_1"],
        "candidate_pass_at_1": content["tuned"]["pass_at_1"],
        "difference": content["difference"],
        "minimum_detectable": content["minimum_detectable"],
        "problems": content["problems"],
        "samples_per_problem": content["samples_per_problem"],
        "hidden_tests": content["hidden_tests"],  # `base` is the incumbent there, `tuned` the candidate
        "seconds": round(seconds, 1),
    }


def _publish(
    store: Store,
    model: Path,
    evaluation: Path,
    comparison: Comparison,
    seen: published.Pointer,
    decision: Mapping[str, Any],
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Write the version and make it current; returns what the decision says of that."""
    name, version = given["publish_as"], str(decision["run_id"])
    heldout = json.loads((evaluation / EVALUATION).read_text())
    made = {"published": True, "version": version}  # what this record says is read only once it is so
    facts = published.facts(
        read_trained(model), run=version, heldout=heldout, decision={**decision, **made},
        use_chat_template=given["use_chat_template"],
    )  # fmt: skip
    done = published.publish(
        store, name, version, model, seen=seen, decided_by=published.BY_VALIDATION, facts=facts,
        evaluation=as_json(comparison), provenance=recorded(store, version),
    )  # fmt: skip
    if done:
        return made
    now = published.current_version(store, name)
    lost = f"Another run published {name} as {now} while this one was judged against {seen.version or 'the base'}."
    return {"reason": f"{decision['reason']} {lost} A new run is judged against that."}


def _write(store: Store, run_id: str, decision: Mapping[str, Any]) -> None:
    text = json.dumps(dict(decision), indent=1, ensure_ascii=False) + "\n"
    store.write(f"{folder_of(run_id)}/{DECISION}", text.encode())
    record(store, run_id, **done("publish"))
    if "candidate_pass_at_1" in decision:
        rates = [percent(decision[f"{which}_pass_at_1"]) for which in (INCUMBENT, CANDIDATE)]
        say("publish", f"pass@1 of incumbent {rates[0]}, of candidate {rates[1]}")
    outcome = f"published as {decision['name']}" if decision["published"] else "not published"
    say("publish", f"{outcome}: {decision['reason']}")
