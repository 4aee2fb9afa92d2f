"""`python pipeline.py local`: the whole pipeline on this machine, as a person sees it.

Parameters are checked and pinned, a sandbox is started, kfp's local runner works in a process of its own, its events
are shown, and at the end stand the numbers, or the one sentence that says what went wrong and how to go on.
"""

import contextlib
import errno
import json
import os
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from cli import revisions, summary
from cli.cache import run_cache
from cli.display import make_console, make_display, print_plain
from cli.parameters import WHOLE, all_parameters, merged
from cli.processes import STOPPED
from cli.running import Outcome, RunFiles, follow, held, signals_interrupt
from cli.sandbox import running_sandbox
from cli.worker import Job
from components.settings import check
from components.shared.errors import FAILURE_FILE, InfraError, lacking
from components.shared.progress import PROGRESS_FILE, duration
from components.shared.run import RUN_VARIABLE, check_run_id, folder_of, recorded
from components.shared.sandbox import TOKEN_VARIABLE, URL_VARIABLE
from components.shared.status import UNCHANGED_SINCE
from components.shared.store import DEFAULT_STORE, STORE_VARIABLE, in_bucket, open_store

EVALUATION = "evaluation.json"
STEPS = ("check", "prepare", "filter", "train", "evaluate", "publish", "unchanged", "finish")
STEPS_OF_EVALUATION = ("check", "prepare", "evaluate", "finish")
TRAINING = ("train", "evaluate")  # what runs anew each time unless --reuse asks otherwise
FULL_BYTES = 64 << 10  # a disk with less room keeps no step's last words
Say = Callable[[str], None]


def run_local(given: dict[str, Any], *, run_id: str | None, reuse: bool, command: str, pipeline: str = WHOLE) -> int:
    """Run a pipeline with the given parameters over the defaults; returns the exit code.

    run_id continues that run, or names a new one. reuse lets train and evaluate come from the cache too. command is
    what repeats this run, for the advice at the end. UserError and InfraError before anything is started.
    """
    console = make_console()
    say = partial(print_plain, console)
    named = _checked_run_id(run_id)
    parameters = merged(given, pipeline)
    check({**merged({}), **parameters})  # its warnings are told by the pipeline's own first step
    parameters = revisions.resolve(parameters)
    files = RunFiles(_local_root(), named)
    again = f"{command} --run-id {files.run_id}"
    files.prepare()
    with signals_interrupt(), held(files):
        start = time.monotonic()
        try:
            say(f"grpo-code run {files.run_id}")
            for warning in _unused(given, parameters):
                say(f"warning: {warning}")
            outcome = _run(parameters, given, files, reuse=reuse, console=console, pipeline=pipeline)
        except KeyboardInterrupt:
            say(f"Stopped. What was finished is kept; go on with:\n  {again}")
            return STOPPED
        except OSError as error:
            known = lacking(error)
            if known is None:
                raise
            raise InfraError(f"{known}\nOnce this is mended, go on with:\n  {again}") from None
        if outcome.exit_code:
            return _tell_failure(files, outcome, again, say)
        _tell_result(files, outcome, parameters, command, say)
        say(f"Done in {duration(time.monotonic() - start)}.")
        return 0


def command_line(options: dict[str, Any], params_file: Path | None, pipeline: str = WHOLE) -> str:
    """The command that repeats a run with these options, as it can be pasted into a shell."""
    program = sys.executable
    if program.startswith(os.getcwd() + os.sep):
        program = os.path.relpath(program)
    words = [program, "pipeline.py", "local", *([] if pipeline == WHOLE else ["--pipeline", pipeline])]
    words += [*(["--params", str(params_file)] if params_file else [])]
    for name, value in options.items():
        flag = all_parameters()[name].flag
        words += [flag if value else f"--no-{flag[2:]}"] if isinstance(value, bool) else [flag, str(value)]
    return shlex.join(words)


def _unused(given: dict[str, Any], parameters: dict[str, Any]) -> list[str]:
    if "max_train_samples" not in given or parameters.get("use_filter", True):
        return []
    size = parameters["max_candidate_samples"]
    return [f"max_train_samples works only with use_filter; without it max_candidate_samples ({size}) sets the size."]


def _checked_run_id(run_id: str | None) -> str:
    if run_id is None:
        return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"
    return check_run_id(run_id, "--run-id")


def _store_root() -> str:
    """The store's address for the steps: absolute, for a step may change its directory."""
    root = os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
    open_store(root)  # refuses an address that is none, and a bucket without keys
    return root if in_bucket(root) else str(Path(root).expanduser().absolute())


def _local_root() -> Path:
    root = _store_root()
    return Path(DEFAULT_STORE).absolute() if in_bucket(root) else Path(root)


def _run(
    parameters: dict[str, Any], given: dict[str, Any], files: RunFiles, *, reuse: bool, console: Console, pipeline: str
) -> Outcome:
    from pipeline import PIPELINES

    with (
        run_cache(files.shared_cache, files.own_cache, fresh=() if reuse else TRAINING) as cache,
        _sandbox_variables(given, files, partial(print_plain, console)) as sandbox,
    ):
        job = Job(
            pipeline=PIPELINES[pipeline](cache_training=True, pods=None),
            arguments=parameters,
            artifacts=files.folder,
            cache=cache,
            log=files.log,
            environment=_environment(files) | sandbox,
        )
        return follow(job, files, make_display(console, expected_steps(parameters, pipeline)))


def expected_steps(parameters: dict[str, Any], pipeline: str = WHOLE) -> list[str]:
    """The steps that a display shows from the start; one that comes all the same gets its row then."""
    if pipeline != WHOLE:
        return list(STEPS_OF_EVALUATION)
    asked_for = {"filter": parameters["use_filter"], "publish": bool(parameters["publish_as"]), "unchanged": False}
    return [step for step in STEPS if asked_for.get(step, True)]


def _environment(files: RunFiles) -> dict[str, str]:
    return {
        "PYTHONPATH": str(revisions.ROOT),
        "PYTHONUNBUFFERED": "1",
        STORE_VARIABLE: _store_root(),
        RUN_VARIABLE: files.run_id,
        FAILURE_FILE: str(files.failure),
        PROGRESS_FILE: str(files.progress),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


@contextlib.contextmanager
def _sandbox_variables(given: dict[str, Any], files: RunFiles, say: Say) -> Iterator[dict[str, str]]:
    """What leads the steps to the sandbox: nothing when the user named one, else the address of our own.

    That address is no parameter: it changes with every run and would defeat the cache.
    """
    if "sandbox_url" in given:
        yield {}
        return
    with running_sandbox(files.sandbox_log, say) as url:
        yield {URL_VARIABLE: url, TOKEN_VARIABLE: ""}


def _tell_failure(files: RunFiles, outcome: Outcome, again: str, say: Say) -> int:
    """The failed step's own sentence, or what can be said without one; returns the exit code."""
    failed = [step for step, event in outcome.states.items() if event["state"] in ("failed", "running")]
    step = failed[-1] if failed else "the local runner"
    failure: dict[str, Any] = {
        "step": step,
        "kind": "unknown",
        "message": "it ended without saying why.",
        "exit_code": 1,
    }
    if files.failure.exists():
        failure = json.loads(files.failure.read_text())
    elif shutil.disk_usage(files.folder).free < FULL_BYTES:
        failure |= {"kind": "infrastructure", "message": str(lacking(OSError(errno.ENOSPC, "", str(files.folder))))}
    hints = {
        "defect": "This is a defect of grpo-code; the log has the traceback.",
        "unknown": "It may have been killed, for example for lack of memory.",
    }
    say(f"{failure['step']} failed: {failure['message']}")
    if failure["kind"] in hints:
        say(hints[failure["kind"]])
    say(f"Log: {files.log}\nWhat was finished is kept; once this is mended, go on with:\n  {again}")
    return int(failure["exit_code"])


def _tell_result(files: RunFiles, outcome: Outcome, parameters: dict[str, Any], command: str, say: Say) -> None:
    store, run_id = open_store(_store_root()), files.run_id
    state = outcome.states.get("evaluate")
    if state is None:
        say(f"\nNothing was trained: nothing has changed since run {recorded(store, run_id)[UNCHANGED_SINCE]}.")
        return
    if state["state"] == "reused":
        file = _reused_evaluation(files, state["key"])
        run_id = file.relative_to(files.root / "kfp").parts[0]
        evaluation = json.loads(file.read_text())
        if run_id != files.run_id:
            say(f"\nNothing has changed since run {run_id}: these are its results.")
    else:
        evaluation = json.loads(store.read(f"{folder_of(run_id)}/evaluate/{EVALUATION}"))
    published = summary.publishing_lines(store, files.run_id)
    for line in ("", *summary.result_lines(evaluation), *published, "", *summary.report_lines(store, run_id)):
        say(line)
    for line in ("", *summary.next_lines(evaluation, parameters, command), ""):
        say(line)


def _reused_evaluation(files: RunFiles, key: str) -> Path:
    """evaluation.json in the artifact that kfp's cache answered with; `key` is the start of the entry's name."""
    entry = next(files.shared_cache.glob(f"{key}*.json"))
    return Path(json.loads(entry.read_text())["evaluation"]["uri"]) / EVALUATION
