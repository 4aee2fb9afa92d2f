"""A real two-step pipeline for the runner's tests: `python small_pipeline.py ROOT RUN TEXT WHAT [FRESH...]`.

FRESH are the steps that are not taken from the cache. WHAT the second step does: `finish`, `mistake` (a user's),
`defect`, `vanish` (killed) or `sleep` (writes its process id to $SMALL_PID and waits).
"""

import sys
from pathlib import Path

from kfp import dsl

from cli.cache import run_cache
from cli.display import make_console, make_display
from cli.running import RunFiles, follow, held, signals_interrupt
from cli.worker import Job
from components.shared.errors import FAILURE_FILE
from components.shared.progress import PROGRESS_FILE

ROOT = Path(__file__).resolve().parent.parent.parent


@dsl.component(base_image="python", install_kfp_package=False)
def first(text: str, made: dsl.Output[dsl.Dataset]):
    """Write the text into an artifact."""
    from pathlib import Path

    from components.shared.progress import Progress, say

    say("first", f"writing {text}")
    print("only for the log")
    Path(made.path).write_text(text)
    progress = Progress("first", "copying", 2, unit="parts")
    progress.advance()
    progress.advance(note="all there")


@dsl.component(base_image="python", install_kfp_package=False)
def second(
    made: dsl.Input[dsl.Dataset], what: str, evaluation: dsl.Output[dsl.Artifact], metrics: dsl.Output[dsl.Metrics]
):
    """Finish, fail or wait."""
    import os
    import time
    from pathlib import Path

    from components.shared.errors import UserError, reported

    with reported("second"):
        if what == "mistake":
            raise UserError("The number is too small: give a larger one.")
        if what == "defect":
            raise ZeroDivisionError("our fault")
        if what == "vanish":
            os.kill(os.getpid(), 9)
        if what == "sleep":
            Path(os.environ["SMALL_PID"]).write_text(str(os.getpid()))
            time.sleep(600)
    Path(evaluation.path).mkdir(parents=True)
    Path(evaluation.path, "evaluation.json").write_text(Path(made.path).read_text())
    metrics.log_metric("length", 1.0)


@dsl.pipeline(name="small")
def small(text: str, what: str):
    """First and second."""
    made = first(text=text).outputs["made"]
    second(made=made, what=what)


def main(root: str, run_id: str, text: str, what: str, *fresh: str) -> None:
    files = RunFiles(Path(root), run_id)
    files.prepare()
    environment = {
        "PYTHONPATH": str(ROOT),
        FAILURE_FILE: str(files.failure),
        PROGRESS_FILE: str(files.progress),
        "SMALL_PID": str(files.folder / "pid"),
    }
    with signals_interrupt(), held(files):
        try:
            with run_cache(files.shared_cache, files.own_cache, fresh=fresh) as cache:
                arguments = {"text": text, "what": what}
                job = Job(small, arguments, files.folder, cache, files.log, environment)
                outcome = follow(job, files, make_display(make_console(), ("first", "second")))
        except KeyboardInterrupt:
            sys.exit(130)
    sys.exit(outcome.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
