"""The two kinds of failure, and the boundary that reports them.

A user's mistake ends in one sentence and exit code 2. An infrastructure failure is named as such and ends in
exit code 1; it is never scored as a wrong answer. Anything else is a defect of ours and keeps its traceback.
"""

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FAILURE_FILE = "GRPO_FAILURE_FILE"  # where the local runner reads what went wrong in a step
FAILURE_KEY = "failure.json"  # the same below runs/<run>/ in the store, where the last step and doctor read it


class UserError(Exception):
    """Something the user asked for cannot be done; the text says what, and what would be right."""

    exit_code = 2


class InfraError(Exception):
    """A service or resource failed; the text says which, and what was tried."""

    exit_code = 1


# What a machine can lack or take away, by error number: none of it is the user's mistake or a defect.
LACKING = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "this user may not write or read it",
    errno.EMFILE: "too many files are open",
    # On Kubeflow the launcher in front of a step dies of SIGTERM at once, and takes the step's output with it.
    errno.EPIPE: "what reads this step's output is gone, as where its pod is deleted, evicted or drained",
}
NO_SPACE = "No space left on device"  # how libraries without an error number say it


def lacking(error: Exception) -> InfraError | None:
    """A failure of this machine, named; None when the error is another."""
    number = error.errno if isinstance(error, OSError) else errno.ENOSPC if NO_SPACE in str(error) else None
    if number not in LACKING:
        return None
    place = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
    return InfraError(f"{place}{LACKING[number]} ({os.strerror(number)}): what was finished before is kept.")


@contextmanager
def reported(step: str) -> Iterator[None]:
    """Run a step's body; turn the two failures above into one sentence, a small JSON file and the exit code."""
    try:
        yield
    except Exception as error:
        known = error if isinstance(error, UserError | InfraError) else lacking(error)
        if known is not None:
            kind = "user" if isinstance(known, UserError) else "infrastructure"
            record_failure({"step": step, "kind": kind, "message": str(known), "exit_code": known.exit_code})
            with suppress(BrokenPipeError):  # nobody listens any more
                print(f"{step}: {known}", file=sys.stderr, flush=True)
            raise SystemExit(known.exit_code) from None
        message = f"{type(error).__name__}: {error}"
        record_failure({"step": step, "kind": "defect", "message": message, "exit_code": 1})
        raise


def record_failure(failure: dict[str, object]) -> None:
    """Write the failure where the local runner looks for it, and into the run's folder in the store."""
    target = os.environ.get(FAILURE_FILE)
    if target:
        try:
            Path(target).write_text(json.dumps(failure))
        except OSError:  # the failure itself may be that nothing can be written: no half of it, then
            Path(target).unlink(missing_ok=True)
    from components.shared.run import folder_of, this_run  # both know this module
    from components.shared.store import open_store

    run = this_run()
    if run:
        try:
            open_store().write(f"{folder_of(run)}/{FAILURE_KEY}", json.dumps(failure).encode())
        except (UserError, InfraError) as error:  # the failure itself may be that the store is gone
            print(f"{failure['step']}: this failure could not be written down ({error})", file=sys.stderr, flush=True)
