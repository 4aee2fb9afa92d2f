"""The sandbox service that belongs to one local run: on a free loopback port, gone when the run is."""

import contextlib
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import urllib3

from cli.processes import stop_group, tie_to_parent
from cli.revisions import ROOT
from components.shared.errors import InfraError

FOLDER = ROOT / "images/sandbox"
LISTENING = re.compile(r"sandbox: listening on (http://\S+)")
SECONDS_TO_START = 60.0  # until it listens; its self-test comes before that
SECONDS_TO_BE_READY = 10.0


# Nothing else of the environment goes into a service that runs untrusted code: no tokens, no keys.
ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")


@contextlib.contextmanager
def running_sandbox(log: Path, warn: Callable[[str], None]) -> Iterator[str]:
    """Start the service, wait until it judges, and yield its address; stop it on leaving.

    `warn` is told where the kernel has no Landlock: on a machine of one's own the service does without.
    InfraError when the service does not come up; its log says more.
    """
    with _service(log) as url:
        state = _wait_until_ready(url)
        if not state["ready"]:
            reason = textwrap.shorten(state["reason"], 200, placeholder=" ...")
            raise InfraError(f"The sandbox cannot judge on this machine ({reason}): see {log}.")
        if state["landlock_abi"] == 0:
            warn("warning: this kernel has no Landlock, so judged programs can read this user's files.")
        yield url


@contextlib.contextmanager
def _service(log: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "sandbox", "--host", "127.0.0.1", "--port", "0", "--runtime", "bare"]
    command += ["--workers", str(len(os.sched_getaffinity(0)))]
    with log.open("ab") as output:
        offset = output.tell()
        process = subprocess.Popen(
            command,
            cwd=FOLDER,
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=tie_to_parent(os.getpid()),  # the command line has no other thread yet
        )
    try:
        yield _wait_for_address(process, log, offset)
    finally:
        stop_group(process.pid, lambda: process.poll() is not None)


def _wait_for_address(process: "subprocess.Popen[bytes]", log: Path, offset: int) -> str:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        text = log.read_bytes()[offset:].decode(errors="replace")
        said = LISTENING.search(text)
        if said:
            return said[1]
        if ended:
            lines = text.strip().splitlines() or ["it said nothing"]
            raise InfraError(f"The sandbox ended before it listened ({lines[-1]}): see {log}.")
        time.sleep(0.05)
    raise InfraError(f"The sandbox did not listen within {SECONDS_TO_START:.0f} s: see {log}.")


def _wait_until_ready(url: str) -> dict[str, Any]:
    """The service's answer to /readyz: at once when it is ready, else the last within ten seconds."""
    http, deadline = urllib3.PoolManager(retries=False), time.monotonic() + SECONDS_TO_BE_READY
    state: dict[str, Any] = {"ready": False, "reason": "it does not answer"}
    while time.monotonic() < deadline:
        try:
            state = http.request("GET", url + "/readyz", timeout=5.0).json()
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            state = {"ready": False, "reason": f"no answer: {type(error).__name__}"}
        if state["ready"]:
            break
        time.sleep(0.05)
    return state
