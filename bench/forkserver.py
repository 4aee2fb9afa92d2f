"""The sandbox's own HTTP service around a bare fork server (see `forkserver_child`), for comparison only.

`python -m bench.forkserver` with images/sandbox on PYTHONPATH takes the options of `python -m sandbox`. Front, queue
and jail are the sandbox's; only what a worker does with an item differs. Its verdicts can be forged.
"""

import socket
import sys
from pathlib import Path
from typing import Any

from sandbox import __main__ as service
from sandbox import keeper, launch, layers, probes
from sandbox.warm import PACKAGE_ROOT
from sandbox.worker import Worker

HERE = str(Path(__file__).resolve().parent)
START = f"import sys; sys.path += [{PACKAGE_ROOT!r}, {HERE!r}]; import forkserver_child; forkserver_child.main()"


class BareWorker(Worker):
    """One warm process that forks, in place of a judge and a zygote."""

    def _launch(self, shared: dict[str, Any], service: socket.socket) -> None:
        self._processes.append(launch.start_code(START, {"scratch": self._scratch, **shared}, [service]))


def main() -> int:
    """Run the service with bare workers. It has no self-test: nothing but the benchmark's programs goes in."""
    keeper.Worker = BareWorker  # type: ignore[attr-defined]
    probes.run_probes = lambda pool: dict.fromkeys(layers.BY_NAME, layers.Finding("holds", "not tried"))
    return service.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
