"""The train step from problems to an exported model: set up, train, write down, hand on."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from components.shared.problem import training_problems
from components.shared.progress import duration, mute, say
from components.shared.run import folder_of, record, run_id_of, this_run
from components.shared.store import Store, open_store, upload_folder
from components.train.handover import complete_export
from components.train.metrics import summary
from components.train.processes import Processes, launch, processes_for
from components.train.schedule import plan
from components.train.session import Session
from components.train.uploads import patiently


def run(problems: Path, model: Path, report: Path, *, run_id: str, resume_run: str, **given: Any) -> dict[str, float]:
    """Train on the problem set in folder `problems`; write the model folder and the report page.

    given: the step's other parameters, by the pipeline's names. Returns the scalars for KFP's metrics.
    The run's files go to the store under `runs/<run>/train/`, checkpoints under `checkpoints/<run>/`.
    """
    start = time.monotonic()
    if given["threads"]:
        torch.set_num_threads(given["threads"])
    processes = Processes.here()
    wanted = processes_for(given["batch_size"])
    if processes.count == 1 and wanted > 1:
        return launch(
            wanted, problems=problems, model=model, report=report, run_id=run_id, resume_run=resume_run, **given
        )
    store, name = open_store(), run_id_of(run_id, resume_run)
    if processes.main:
        say("train", how_to_watch(store, name))
        upload_folder(store, folder_of(name), problems)
    else:
        mute()
    training = training_problems(problems)
    schedule = plan(
        problems=len(training), **{key: given[key] for key in ("epochs", "batch_size", "num_generations")},
        micro_batch_size=given["micro_batch_size"], processes=processes.count,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="grpo-train-") as folder:
        session = Session(store, name, training, schedule, given, Path(folder))
        session.complete(model)
    if not processes.main:
        return {}
    report.write_text(session.page, encoding="utf-8")
    scalars = summary(session.journal.metrics)
    del session.trainer  # and its memory, before a merge loads the base again
    complete_export(
        model, problems, run=name, given=given, training=training, samples=session.journal.samples,
        metrics=scalars,
    )  # fmt: skip
    patiently(lambda: upload_folder(store, f"{folder_of(name)}/train", model))
    patiently(lambda: record(store, name, parameters=given, seconds={"train": round(time.monotonic() - start, 1)}))
    say("train", f"done in {duration(sum(row['seconds']['step'] for row in session.journal.metrics))} of steps")
    return scalars


def how_to_watch(store: Store, run: str) -> str:
    """Where a person sees how the run is doing; KFP shows a step's outputs only at its end.

    KFP knows an attempt by an id of its own, the store by that of the first.
    """
    page = store.uri(f"{folder_of(run)}/train/report.html")
    return f"watch with `python pipeline.py watch {this_run() or run}` or `report {run}`; the page is {page}"
