"""The self-test: every layer of the jail is tried by a program that must fail, on the path that all verdicts take.

Each probe is an ordinary item. Its program reports what the jail let it do, and its test says what should have come
of it; so a probe holds only if the layer, the judge and the channel between them work.
"""

from dataclasses import dataclass
from typing import Any

from sandbox.pool import Pool

PATIENT_SECONDS, LIMIT_SECONDS = 10.0, 0.3  # the second for probes that must run into their limit

_ATTEMPT = """
def attempt():
    try:
        action()
    except OSError as error:
        import errno
        return errno.errorcode.get(error.errno, "?")
    return "done"
"""
_OPEN_DESCRIPTORS = """
import os
def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
def attempt():
    return [number for number in range(4096) if is_open(number)]
"""
_DENIED = "assert attempt() in ('EPERM', 'EACCES', 'ENOSYS')"


@dataclass(frozen=True)
class Probe:
    """One attempt: the layer it tries, its program, the test, and the outcome that proves the layer."""

    layer: str
    program: str
    test: str
    expected: str = "passed"
    needs_landlock: bool = False


def _forbidden(layer: str, action: str, *, needs_landlock: bool = False) -> Probe:
    return Probe(layer, f"def action():\n    {action}\n{_ATTEMPT}", _DENIED, needs_landlock=needs_landlock)


PROBES = (
    Probe("verdicts", "def attempt():\n    return 1", "assert attempt() == 1"),
    Probe("verdicts", "def attempt():\n    return 1", "assert attempt() == 2", "failed"),
    Probe("verdicts", "import os\nos._exit(0)\ndef attempt():\n    return 1", "assert attempt() == 1", "error"),
    _forbidden("network", "import socket; socket.socket()"),
    _forbidden("processes", "import os; os.fork()"),
    _forbidden("processes", "import os; os.execv('/bin/true', ['true'])"),
    _forbidden("signals", "import os; os.kill(os.getppid(), 0)"),
    _forbidden("privileges", "import os; os.setuid(0)"),
    _forbidden("privileges", "import os; os.unshare(0x10000000) if hasattr(os, 'unshare') else os.chroot('/')"),
    _forbidden("writing", "open('/tmp/probe', 'w')"),
    _forbidden("writing", "import os; os.mkdir('probe')"),
    _forbidden("reading", "open('/etc/passwd')", needs_landlock=True),
    _forbidden("reading", "import os; os.listdir('/')", needs_landlock=True),
    _forbidden("reading", "open('/proc/self/environ')", needs_landlock=True),
    _forbidden("other processes", "import os; open(f'/proc/{os.getppid()}/mem', 'rb')"),
    Probe("environment", "import os\ndef attempt():\n    return dict(os.environ)", "assert attempt() == {}"),
    Probe("descriptors", _OPEN_DESCRIPTORS, "assert attempt() == [0, 1, 2, 3]"),
    Probe("memory", "def attempt():\n    return len(bytearray(1 << 46))", "assert attempt()", "memory"),
    Probe("CPU time", "def attempt():\n    while True:\n        pass", "assert attempt()", "timeout"),
    Probe("wall time", "import time\ndef attempt():\n    time.sleep(99)", "assert attempt()", "timeout"),
)


def run_probes(pool: Pool) -> dict[str, str]:
    """Try every layer. By layer: "holds"; "absent" where the pool goes without Landlock; else what came of it."""
    probes = [probe for probe in PROBES if pool.settings.use_landlock or not probe.needs_landlock]
    items = [_item(index, probe) for index, probe in enumerate(probes)]
    layers = {probe.layer: "absent" for probe in PROBES}
    for probe, future in zip(probes, pool.submit(items), strict=True):
        verdict = future.result()
        if verdict["outcome"] != probe.expected:
            attempt = probe.program.strip().splitlines()[1].strip()
            layers[probe.layer] = f"leaks: {attempt!r} came to {verdict['outcome']}: {verdict['detail']}"
        elif layers[probe.layer] == "absent":
            layers[probe.layer] = "holds"
    return layers


def _item(index: int, probe: Probe) -> dict[str, Any]:
    return {
        "id": f"probe-{index}",
        "program": probe.program,
        "entry_point": "attempt",
        "setup": "",
        "tests": [probe.test],
        "timeout_s": LIMIT_SECONDS if probe.expected == "timeout" else PATIENT_SECONDS,
    }
