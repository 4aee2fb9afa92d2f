"""The two kinds of failure, and the boundary that reports them.

A user's mistake ends in one sentence and exit code 2. An infrastructure failure is named as such and ends in
exit code 1; it is never scored as a wrong answer. Anything else is a defect of ours and keeps its traceback.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FAILURE_FILE = "GRPO_FAILURE_FILE"  # where the local runner reads what went wrong in a step
FAILURE_KEY = "failure.json"  # the same below runs/<run>/ in the store, where the last step and doctor read it


class UserError(Exception):
    """Something the user asked for cannot be done; the text says what, and what would be right."""

    exit_code = 2


class InfraError(Exception):
    """A service or resource failed; the text says which, and what was tried."""

    exit_code = 1


@contextmanager
def reported(step: str) -> Iterator[None]:
    """Run a step's body; turn the two failures above into one sentence, a small JSON file and the exit code."""
    try:
        yield
    except (UserError, InfraError) as error:
        kind = "user" if isinstance(error, UserError) else "infrastructure"
        record_failure({"step": step, "kind": kind, "message": str(error), "exit_code": error.exit_code})
        print(f"{step}: {error}", file=sys.stderr, flush=True)
        raise SystemExit(error.exit_code) from None
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        record_failure({"step": step, "kind": "defect", "message": message, "exit_code": 1})
        raise


def record_failure(failure: dict[str, object]) -> None:
    """Write the failure where the local runner looks for it, and into the run's folder in the store."""
    target = os.environ.get(FAILURE_FILE)
    if target:
        Path(target).write_text(json.dumps(failure))
    from components.shared.run import folder_of, this_run  # both know this module
    from components.shared.store import open_store

    run = this_run()
    if run:
        try:
            open_store().write(f"{folder_of(run)}/{FAILURE_KEY}", json.dumps(failure).encode())
        except (UserError, InfraError) as error:  # the failure itself may be that the store is gone
            print(f"{failure['step']}: this failure could not be written down ({error})", file=sys.stderr, flush=True)
