"""One worker as the service sees it: a judge, its zygote and its nursery, started together, ended together."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
from dataclasses import dataclass
from typing import Any

from sandbox import launch, supervise, wire

START_SECONDS = 30.0
SPARE_SECONDS = 10.0  # wall time for a verdict beyond what the judge itself enforces; past it the judge is stuck
STOP_SECONDS = 2.0


@dataclass(frozen=True)
class Settings:
    """What all workers share: bytes of address space for each jailed process, Landlock or not, where scratch lies.

    packages: folders of third-party packages that programs and tests may import.
    """

    memory_bytes: int
    use_landlock: bool
    scratch_parent: str
    packages: tuple[str, ...] = ()


class WorkerLost(Exception):
    """The worker died or hangs; whatever it was judging has no verdict."""


class Worker:
    """A running judge with its zygote and nursery. The thread that makes it must also outlive it (see launch.start)."""

    def __init__(self, settings: Settings) -> None:
        """Start both processes and wait until they are warm. Raises WorkerLost."""
        self._scratch = os.path.join(settings.scratch_parent, f"sandbox-{os.getpid()}-{secrets.token_hex(6)}")
        self._connection, service = socket.socketpair()
        self._processes: list[subprocess.Popen[bytes]] = []
        shared = {
            "memory_bytes": settings.memory_bytes,
            "use_landlock": settings.use_landlock,
            "packages": settings.packages,
        }
        with service:
            self._launch(shared, service)
        self._reader = wire.Reader(self._connection, limit=wire.MAX_ITEM_BYTES)
        hello = self._exchange(None, START_SECONDS)
        self.landlock_abi = int(hello["landlock_abi"])
        self._forked: list[int] = hello["forked"]

    def _launch(self, shared: dict[str, Any], service: socket.socket) -> None:
        """Start the processes, the one that answers at `service` last. shared: settings of all of them."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            self._processes.append(launch.start("zygote", {"scratch": self._scratch, **shared}, [theirs]))
            self._processes.append(launch.start("judge", shared, [service, ours]))

    @property
    def pids(self) -> list[int]:
        """All processes that fork others: the zygote's, the judge's and the nursery's."""
        return [*(process.pid for process in self._processes), *self._forked]

    def judge(self, item: dict[str, Any]) -> dict[str, Any]:
        """The verdict on one item. Raises WorkerLost."""
        verdict: dict[str, Any] = self._exchange(item, supervise.WALL_FACTOR * item["timeout_s"] + SPARE_SECONDS)
        return verdict

    def _exchange(self, message: Any, seconds: float) -> Any:
        try:
            self._connection.settimeout(seconds)
            if message is not None:
                self._connection.sendall(wire.frame(message, limit=wire.MAX_ITEM_BYTES))
            return self._reader.read()
        except (OSError, EOFError, wire.WireError) as error:
            self.stop()
            raise WorkerLost(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None

    def interrupt(self) -> None:
        """From another thread: make a running or later `judge` end with WorkerLost."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """End all processes, their children with them, and remove the scratch folder. May be called twice."""
        self._connection.close()
        self._processes[-1].terminate()  # the judge: the zygote sees it end, cleans up, and ends too
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._scratch)
