"""What both warm parents (judge and zygote) do first, and last before their loop.

Every module that they import is carried through every fork, at a price: hence `launch` is kept apart.
"""

import gc
import json
import os
import socket
import sys
from typing import Any

from sandbox.jail import give_up_privileges

PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def arrive() -> tuple[dict[str, Any], list[socket.socket]]:
    """In the new process: its settings and its sockets, after giving up what it must not have."""
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
