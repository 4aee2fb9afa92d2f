"""What both warm parents (judge and zygote) do first, and last before their loop.

Every module that they import is carried through every fork, at a price: hence `launch` is kept apart.
"""

import contextlib
import gc
import importlib
import json
import os
import socket
import sys
from typing import Any

from sandbox.jail import clear_of_channels, give_up_privileges

PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def arrive() -> tuple[dict[str, Any], list[socket.socket]]:
    """In the new process: its settings and its sockets, after giving up what it must not have."""
    sys.path.remove(PACKAGE_ROOT)
    settings = json.loads(sys.argv[1])
    offer_packages(settings.pop("packages", []))
    os.environ.clear()
    channels = [socket.socket(fileno=clear_of_channels(int(descriptor))) for descriptor in sys.argv[2:]]
    sys.argv[:] = [""]
    give_up_privileges()
    return settings, channels


def offer_packages(folders: list[str]) -> None:
    """Let programs and tests import what lies in these folders; numpy is loaded here, so that no fork has to.

    Before the environment is cleared: its libraries read there that they may start no threads, which a fork would lose.
    """
    sys.path += folders
    if folders:
        with contextlib.suppress(ImportError):
            importlib.import_module("numpy")


def settle() -> None:
    """Right before the loop: what exists now is shared with every fork, untouched by their garbage collectors."""
    gc.collect()
    gc.freeze()
