"""The sandbox's own HTTP service around a bare fork server (see `forkserver_child`), for comparison only.

`python -m bench.forkserver` with images/sandbox on PYTHONPATH takes the options of `python -m sandbox`. Front, queue
and jail are the sandbox's; only what a worker does with an item differs. Its verdicts can be forged.
"""

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from sandbox import __main__ as service
from sandbox import keeper, launch, layers, probes, wire
from sandbox.warm import PACKAGE_ROOT
from sandbox.worker import START_SECONDS, STOP_SECONDS, Settings, Worker

HERE = str(Path(__file__).resolve().parent)
START = f"import sys; sys.path += [{PACKAGE_ROOT!r}, {HERE!r}]; import forkserver_child; forkserver_child.main()"


class BareWorker(Worker):
    """One warm process that forks, in place of a judge and a zygote."""

    def __init__(self, settings: Settings) -> None:
        self._scratch = os.path.join(settings.scratch_parent, f"forkserver-{os.getpid()}-{secrets.token_hex(6)}")
        self._connection, theirs = socket.socketpair()
        told = {
            "scratch": self._scratch,
            "memory_bytes": settings.memory_bytes,
            "use_landlock": settings.use_landlock,
        }
        options = ["-S", "-s", "-P", "-X", "utf8", "-c", START, json.dumps(told), str(theirs.fileno())]
        with theirs:
            self._processes = [
                subprocess.Popen(
                    [sys.executable, *options],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env=launch.ENVIRONMENT,
                    cwd="/",
                    pass_fds=[theirs.fileno()],
                )
            ]
        self._reader = wire.Reader(self._connection, limit=wire.MAX_ITEM_BYTES)
        self.landlock_abi = int(self._exchange(None, START_SECONDS)["landlock_abi"])

    def stop(self) -> None:
        """End the process, which sees its socket close, and remove the scratch folder."""
        self._connection.close()
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._scratch)


def main() -> int:
    """Run the service with bare workers. It has no self-test: nothing but the benchmark's programs goes in."""
    keeper.Worker = BareWorker  # type: ignore[attr-defined]
    probes.run_probes = lambda pool: dict.fromkeys(layers.BY_NAME, layers.Finding("holds", "not tried"))
    return service.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
