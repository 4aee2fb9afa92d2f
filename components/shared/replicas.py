"""Which replica of the sandbox to ask next: every address behind its names, and last those that were just lost."""

import random
import socket
import threading
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from components.shared.errors import UserError

RESOLVE_SECONDS = 5.0  # for how long the addresses behind a name are believed; pods come and go
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 0.2, 15.0  # of a replica that was lost once, or many times in a row
SHORTEST_REST_SECONDS = 0.1
SPREAD = 0.25  # rests are longer by up to this share, by chance, so that clients do not all come back at once


@dataclass
class _Trouble:
    """A replica that could not be had lately."""

    losses: int
    until: float


class Replicas:
    """The replicas behind a comma list of URLs; may be used from several threads."""

    def __init__(self, setting: str) -> None:
        """setting: parameter sandbox_url. Raises UserError when an address is none."""
        self.urls = addresses_in(setting)
        self._lock = threading.Lock()
        self._trouble: dict[str, _Trouble] = {}
        self._found: list[str] = []
        self._found_at = float("-inf")

    def all(self) -> list[str]:
        """One URL per address that the names resolve to; plain addresses stay as they are."""
        with self._lock:
            if time.monotonic() - self._found_at > RESOLVE_SECONDS:
                self._found = [url for part in self.urls for url in _addresses(part)]
                self._found_at = time.monotonic()
            return self._found

    def choose(self, turn: int) -> tuple[str, float]:
        """Whom to ask, and how many seconds to wait before: none while any replica is not resting.

        turn: spreads requests over the replicas; any number that differs between them.
        """
        urls, now = self.all(), time.monotonic()
        with self._lock:
            rests = {url: self._trouble[url].until - now for url in urls if url in self._trouble}
        awake = [url for url in urls if rests.get(url, 0.0) <= 0]
        if awake:
            return awake[turn % len(awake)], 0.0
        first = min(urls, key=lambda url: rests[url])
        return first, rests[first] * (1 + SPREAD * random.random())

    def lost(self, url: str) -> None:
        """A replica gave no answer: let it rest, the longer the more often in a row that happened."""
        with self._lock:
            before = self._trouble.get(url)
            if before and before.until > time.monotonic():
                return  # several requests were lost with it: that counts once
            losses = before.losses + 1 if before else 1
            self._rest(url, losses, min(LONGEST_REST_SECONDS, FIRST_REST_SECONDS * 2 ** (losses - 1)))

    def busy(self, url: str, seconds: float) -> None:
        """A replica asked to be left alone for so long (Retry-After)."""
        with self._lock:
            self._rest(url, 0, max(SHORTEST_REST_SECONDS, seconds))

    def answered(self, url: str) -> None:
        """A replica works."""
        with self._lock:
            self._trouble.pop(url, None)

    def _rest(self, url: str, losses: int, seconds: float) -> None:
        self._trouble[url] = _Trouble(losses, time.monotonic() + seconds * (1 + SPREAD * random.random()))


def addresses_in(setting: str) -> list[str]:
    """The addresses of a comma list, without a `/` at the end; UserError when one is none, or there are none."""
    urls = [part.strip().rstrip("/") for part in setting.split(",") if part.strip()]
    for part in urls:
        if not is_address(part):
            raise UserError(f"sandbox_url {part!r} is no address: write it like http://127.0.0.1:8080.")
    if not urls:
        raise UserError("sandbox_url is empty: write it like http://127.0.0.1:8080.")
    return urls


def is_address(text: str) -> bool:
    """Whether this is http:// or https:// with a host, and a port that can be one where there is one."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _addresses(url: str) -> list[str]:
    parts = urlsplit(url)
    try:
        rows = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except OSError:
        return [url]  # the request will fail with the reason, and be retried
    ipv4 = {str(row[4][0]) for row in rows if row[0] == socket.AF_INET}
    hosts = sorted(ipv4 or {str(row[4][0]) for row in rows})
    if len(hosts) == 1 or parts.scheme == "https":
        return [url]
    port = f":{parts.port}" if parts.port else ""
    return [f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}" for host in hosts]
