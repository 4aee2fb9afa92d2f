"""The last part of an export: what the model was trained on, the merged model if asked for, a card in each folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.shared.lineage import trained_on_at, write_trained_on
from components.shared.models import load_tokenizer
from components.shared.problem import Problem
from components.shared.sampling import model_input
from components.train.card import CARD, model_card, provenance
from components.train.export import read_facts, write_facts
from components.train.merge import Text, add_merged

COMPARED = 32  # completions, the newest first


def complete_export(
    target: Path,
    problems: Path,
    *,
    run: str,
    given: Mapping[str, Any],
    training: Sequence[Problem],
    samples: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, float],
) -> None:
    """Add to `target` what the export still lacks: trained_on.json, merged/ (export_merged) and the cards.

    problems: the folder of the problem set; samples: rows of samples.jsonl; metrics: the run's scalars.
    """
    write_trained_on(target, trained_on_at(given["init_adapter"]).and_also(training))
    facts, merge = read_facts(target), None
    if given["export_merged"] != "no" and facts["kind"] == "adapter":
        names = ("model_name", "model_revision", "method", "precision")
        texts = compared_texts(given, training, samples)
        merge = add_merged(target, texts, into=given["export_merged"], **{name: given[name] for name in names})
        write_facts(target, {**facts, "merged": merge})
    origin = provenance(problems, given, run)
    for kind in (facts["kind"], *(["merged"] if merge else [])):
        of_merge = merge if kind == "merged" else None
        card = model_card(kind, given=given, origin=origin, metrics=metrics, merge=of_merge)
        (target / kind / CARD).write_text(card, encoding="utf-8")


def compared_texts(
    given: Mapping[str, Any], training: Sequence[Problem], samples: Sequence[Mapping[str, Any]]
) -> list[Text]:
    """What the policy read and wrote, newest first: the text that the merged model is compared on."""
    prompts = {problem.task_id: problem.prompt for problem in training}
    chat = given["use_chat_template"]
    tokenizer = load_tokenizer(given["model_name"], given["model_revision"], use_chat_template=chat)
    return [
        (model_input(tokenizer, prompts[row["task_id"]], use_chat_template=chat), row["completion"])
        for row in list(samples)[: -COMPARED - 1 : -1]
        if row["task_id"] in prompts
    ]
