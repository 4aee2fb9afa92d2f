"""Starting the warm parents (judge and zygote), and what both do first.

They run the service's own interpreter without `site`: no third-party package, no environment, a fixed hash seed, and
sys.path holding the standard library alone once everything needed is imported.
"""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

from sandbox import kernel
from sandbox.jail import give_up_privileges

PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# An unhashed seed makes the order of sets, and so a verdict, the same every time.
ENVIRONMENT = {"PYTHONHASHSEED": "0"}


def start(module: str, settings: dict[str, Any], channels: list[socket.socket]) -> subprocess.Popen[bytes]:
    """Start `python -m`-like the `main` of a module of this package, in a session of its own, with these sockets.

    The thread that calls this must outlive the process: Linux ends it with its parent thread.
    """
    descriptors = [channel.fileno() for channel in channels]
    code = f"import sys; sys.path.append({PACKAGE_ROOT!r}); from sandbox import {module}; {module}.main()"
    return subprocess.Popen(
        [sys.executable, "-S", "-s", "-P", "-X", "utf8", "-c", code, json.dumps(settings), *map(str, descriptors)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT,
        cwd="/",
        pass_fds=descriptors,
        start_new_session=True,
    )


def arrive() -> tuple[dict[str, Any], list[socket.socket]]:
    """In the new process: its settings and its sockets, after giving up what it must not have."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)
    os.environ.clear()
    sys.path.remove(PACKAGE_ROOT)
    settings = json.loads(sys.argv[1])
    channels = [socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[2:]]
    sys.argv[:] = [""]
    for channel in channels:
        channel.set_inheritable(False)
    give_up_privileges()
    return settings, channels


def settle() -> None:
    """Right before the loop: what exists now is shared with every fork, untouched by their garbage collectors."""
    gc.collect()
    gc.freeze()
