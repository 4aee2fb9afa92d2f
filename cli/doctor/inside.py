"""What a probe pod runs: looks at the cluster from where a step or a judged program would, and prints JSON lines.

The text of this file is the pod's program (`python -c`), in the step's or the sandbox's image, whatever its version.
So it stands alone: the standard library, and within `store` and `model` what every step's image holds.
"""

import json
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

CONNECT_SECONDS = 2.0
BETWEEN_SECONDS = 0.3
PROGRAM = {"program": "def f(n):\n    return n + 1", "entry_point": "f", "setup": "", "tests": ["assert f(1) == 2"]}


def connects(host: str, port: int) -> str:
    """`open`, or why no connection came about."""
    try:
        with socket.create_connection((host, port), timeout=CONNECT_SECONDS):
            return "open"
    except OSError as error:
        return f"{type(error).__name__}: {error.strerror or error}"


def reach(targets: dict[str, list[Any]], wanted: bool, seconds: float) -> dict[str, str]:
    """Of each target [host, port] the last answer, once it is as wanted or the time is up.

    A policy takes hold a few seconds after a pod has started, so that the first answers prove nothing. A target that
    is to be closed must have been so twice in a row.
    """
    deadline, closed = time.monotonic() + seconds, dict.fromkeys(targets, 0)
    answers: dict[str, str] = {}
    open_ones = list(targets)
    while open_ones:
        for name in list(open_ones):
            answers[name] = connects(*targets[name])
            closed[name] = 0 if answers[name] == "open" else closed[name] + 1
            if (answers[name] == "open") if wanted else (closed[name] >= 2):
                open_ones.remove(name)
        if time.monotonic() > deadline:
            break
        if open_ones:
            time.sleep(BETWEEN_SECONDS)
    return answers


def addresses(url: str) -> list[tuple[str, int]]:
    """Every address behind a URL's name."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    rows = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    return sorted({(str(row[4][0]), port) for row in rows})


def ask(url: str, body: dict[str, Any] | None = None, token: str = "", seconds: float = 5.0) -> dict[str, Any]:
    """An HTTP answer as {"status", "body"}; body is JSON, or text where it is none; status 0 without an answer."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            status, data = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, data = error.code, error.read()
    except OSError as error:
        return {"status": 0, "body": str(getattr(error, "reason", error))}
    try:
        return {"status": status, "body": json.loads(data)}
    except ValueError:
        return {"status": status, "body": data.decode(errors="replace")[:300]}


def sandbox(urls: list[str], known: list[list[Any]], seconds: float) -> list[dict[str, Any]]:
    """Each replica's state, and its verdict on a program that is right; waits for a policy that lets in late.

    known: [host, port] of replicas, asked where a name is unknown, as it is while none of them is ready.
    """
    found: list[dict[str, Any]] = []
    places: list[tuple[str, str, int]] = []
    for url in urls:
        try:
            behind = addresses(url)
        except OSError as error:
            found.append({"url": url, "reached": f"its name is unknown: {error}"})
            behind = [(host, port) for host, port in known]
        plain = urlsplit(url).scheme == "http"
        places += [(f"http://{host}:{port}" if plain else url, host, port) for host, port in behind]
    if places:
        with ThreadPoolExecutor(max_workers=min(32, len(places))) as pool:  # one that hangs holds up no other
            found += pool.map(lambda place: replica(*place, seconds=seconds), places)
    return found


def replica(place: str, host: str, port: int, *, seconds: float) -> dict[str, Any]:
    """One replica's state and verdict; a service that does not answer about itself is not asked for a verdict."""
    reached = reach({"": [host, port]}, wanted=True, seconds=seconds)[""]
    told: dict[str, Any] = {"url": place, "reached": reached}
    if reached == "open":
        told["ready"] = told["verdict"] = ask(place + "/readyz")
        if told["ready"]["status"]:
            item = {"id": "doctor", **PROGRAM, "timeout_s": 5}
            token = os.environ.get("GRPO_SANDBOX_TOKEN", "")
            told["verdict"] = ask(place + "/v1/verdicts", {"items": [item]}, token, seconds=12.0)
    return told


def store(key: str, seconds: float) -> dict[str, str]:
    """Write, read and delete one object; error is empty when all three worked. The object never stays.

    seconds: how long the endpoint may stay closed; the store's client would try for minutes.
    """
    from components.shared.errors import InfraError, UserError
    from components.shared.store import open_store

    root, endpoint = os.environ.get("GRPO_STORE", ""), os.environ.get("S3_ENDPOINT", "")
    if root.startswith("s3://") and endpoint:
        secure = os.environ.get("S3_SECURE", "true").lower() not in ("false", "0", "no")
        parts = urlsplit(f"//{endpoint.split('://', 1)[-1]}")
        target = [parts.hostname, parts.port or (443 if secure else 80)]
        reached = reach({"": target}, wanted=True, seconds=seconds)[""]
        if reached != "open":
            return {"root": root, "endpoint": endpoint, "error": f"it cannot be reached: {reached}"}
    try:
        place = open_store()
        try:
            place.write(key, b"doctor")
            error = "" if place.read(key) == b"doctor" else "what was written could not be read again"
        finally:
            place.delete(key)
    except (UserError, InfraError) as failure:
        error = str(failure)
    except Exception as failure:  # the client's own checks (a bucket's name, an endpoint's form) have many types
        error = f"{type(failure).__name__}: {failure}"
    return {"root": root, "endpoint": endpoint, "error": error}


def model(address: str) -> dict[str, str]:
    """Whether a model at s3://bucket/prefix has a config.json; error is empty when it has."""
    from components.shared.errors import InfraError, UserError
    from components.shared.store import open_store

    try:
        found = open_store(address.rstrip("/")).exists("config.json")
        error = "" if found else "there is no config.json below it"
    except (UserError, InfraError) as failure:
        error = str(failure)
    return {"address": address, "error": error}


def hub(url: str, seconds: float) -> dict[str, str]:
    """Whether the model hub answers HTTP here, whatever it answers; error is empty when it does.

    url: the hub's, where the image's environment names no other. seconds: how long its port may stay closed.
    """
    url = os.environ.get("HF_ENDPOINT") or url
    try:
        target = list(addresses(url)[0])
    except (OSError, IndexError) as error:
        return {"url": url, "error": f"its name is unknown: {error}"}
    reached = reach({"": target}, wanted=True, seconds=seconds)[""]
    if reached != "open":
        return {"url": url, "error": f"it cannot be reached: {reached}"}
    answer = ask(url)
    return {"url": url, "error": "" if answer["status"] else f"it does not answer: {answer['body']}"}


CHECKS: dict[str, Callable[..., Any]] = {
    "reach": reach,
    "sandbox": sandbox,
    "store": store,
    "model": model,
    "hub": hub,
}


def main() -> None:
    """Run what the first argument asks for, a JSON list of [check, keyword arguments]; a line for each."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # so that `finally` removes the object
    for check, arguments in json.loads(sys.argv[1]):
        print(json.dumps({"check": check, "found": CHECKS[check](**arguments)}), flush=True)


if __name__ == "__main__":
    main()
