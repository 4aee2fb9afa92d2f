"""Starting the warm parents: the judge and the zygote.

They run the service's own interpreter without `site`: no third-party package, no environment, a fixed hash seed, and
sys.path holding the standard library alone once everything needed is imported.
"""

import json
import socket
import subprocess
import sys
from typing import Any

from sandbox.warm import PACKAGE_ROOT

# A fixed seed makes the order of sets, and so a verdict, the same every time.
ENVIRONMENT = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def start(module: str, settings: dict[str, Any], channels: list[socket.socket]) -> subprocess.Popen[bytes]:
    """Start `python -m`-like the `main` of a module of this package, in a session of its own, with these sockets.

    The thread that calls this must outlive the process: Linux ends it with its parent thread.
    """
    return start_code(
        f"import sys; sys.path.append({PACKAGE_ROOT!r}); from sandbox import {module}; {module}.main()",
        settings,
        channels,
    )


def start_code(code: str, settings: dict[str, Any], channels: list[socket.socket]) -> subprocess.Popen[bytes]:
    """The same for any Python text, which finds settings and descriptors in sys.argv."""
    descriptors = [channel.fileno() for channel in channels]
    return subprocess.Popen(
        [sys.executable, "-S", "-s", "-P", "-X", "utf8", "-c", code, json.dumps(settings), *map(str, descriptors)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT,
        cwd="/",
        pass_fds=descriptors,
        start_new_session=True,
    )
