"""What the surroundings must keep from this service: addresses that nothing in its container may reach.

The jail has no sockets, and a container without a way out is a second wall. On Kubernetes a NetworkPolicy takes effect
some seconds after a pod starts, and never where nothing enforces it. So the service tries, and is not ready before it
has failed; it goes on trying, for policies are deleted too.
"""

import logging
import socket
import threading

log = logging.getLogger("sandbox")

TRY_SECONDS = 2.0  # for a connection that is dropped rather than refused
OPEN_SECONDS, CLOSED_SECONDS = 0.5, 15.0  # between two tries, after one that succeeded and after one that failed


def parse_address(text: str) -> tuple[str, int]:
    """host:port, an IPv6 host in brackets; ValueError for anything else."""
    host, _, port = text.rpartition(":")
    if not host.strip("[]") or not 0 < int(port) < 65536:
        raise ValueError(text)
    return host.strip("[]"), int(port)


def reachable(address: tuple[str, int]) -> bool:
    """Whether a TCP connection to the address comes about."""
    try:
        socket.create_connection(address, TRY_SECONDS).close()
    except OSError:
        return False
    return True


class Surroundings:
    """Tries the addresses over and over in a thread of its own; `reason` says what stands against judging."""

    def __init__(self, addresses: tuple[tuple[str, int], ...]) -> None:
        self.reason = "it has not been tried yet what can be reached from here" if addresses else None
        self._addresses = addresses
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="surroundings", daemon=True)

    def start(self) -> None:
        """Begin, where there is anything to try."""
        if self._addresses:
            self._thread.start()

    def stop(self) -> None:
        """End; a try that is under way is not waited for."""
        self._stopped.set()

    def look(self) -> None:
        """Try every address once."""
        before = self.reason
        found = [f"{host} port {port}" for host, port in self._addresses if reachable((host, port))]
        self.reason = f"{found[0]} can be reached from here: no network policy holds this pod" if found else None
        if self.reason != before:
            level = logging.WARNING if found else logging.INFO
            log.log(level, self.reason or "what must not be reached cannot be reached")

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self.look()
            self._stopped.wait(OPEN_SECONDS if self.reason else CLOSED_SECONDS)
