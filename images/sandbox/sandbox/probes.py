"""The self-test: every layer is tried by code that must fail, on the path that all verdicts take.

Each probe is an ordinary item. For a layer of the program's jail, the program reports what it was let do and the test
says what should have come of it; for a layer of the tests' jail the test tries by itself. So a probe holds only if the
layer, the judge and the channel between them work.
"""

from dataclasses import dataclass
from typing import Any

from sandbox.layers import LANDLOCK_LAYERS, LAYERS, Finding
from sandbox.pool import Pool

CLIENT = "the self-test"
WRITABLE = "<writable>"  # stands for the folder where scratch folders lie: a read-only root would prove nothing
PATIENT_SECONDS, LIMIT_SECONDS = 10.0, 0.2  # the second for probes that must run into their limit

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
_LARGE_FILE = """
def attempt():
    with open("large", "wb") as file:
        return file.write(bytes(1 << 21))
"""
_DENIED = "assert attempt() in ('EPERM', 'EACCES', 'ENOSYS')"
_TRIVIAL = "def attempt():\n    return 1"
_TEST_ATTEMPT = """
import errno
try:
    {action}
except OSError as error:
    assert error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS), error
else:
    assert attempt() == 'denied'
"""


@dataclass(frozen=True)
class Probe:
    """One attempt: the layer it tries, what it does, its program, the test, and the outcome that proves the layer."""

    layer: str
    action: str
    program: str
    test: str
    expected: tuple[str, ...] = ("passed",)


def _forbidden(layer: str, action: str) -> Probe:
    return Probe(layer, action, f"def action():\n    {action}\n{_ATTEMPT}", _DENIED)


def _forbidden_to_tests(layer: str, action: str) -> Probe:
    return Probe(f"tests: {layer}", action, _TRIVIAL, _TEST_ATTEMPT.format(action=action))


def _ends(layer: str, action: str, *expected: str, imports: str = "") -> Probe:
    return Probe(layer, action, f"{imports}\ndef attempt():\n    {action}", "assert attempt()", expected)


_ACTIONS = {
    "network": ("import socket; socket.socket()",),
    "processes": ("import os; os.fork()", "import os; os.execv('/bin/true', ['true'])"),
    "signals": ("import os; os.kill(os.getppid(), 0)",),
    "privileges": ("import os; os.setuid(0)", "import os; os.chroot('/')"),
    "writing": (f"open('{WRITABLE}/probe', 'w')", f"import os; os.mkdir('{WRITABLE}/probe')"),
    "reading": ("open('/etc/passwd')", "import os; os.listdir('/')", "open('/proc/self/environ')"),
    "other processes": ("import os; open(f'/proc/{os.getppid()}/mem', 'rb')",),
}
PROBES = (
    Probe("verdicts", "pass", _TRIVIAL, "assert attempt() == 1"),
    Probe("verdicts", "be wrong", _TRIVIAL, "assert attempt() == 2", ("failed",)),
    Probe("verdicts", "os._exit(0)", f"import os\nos._exit(0)\n{_TRIVIAL}", "assert attempt() == 1", ("error",)),
    *(_forbidden(layer, action) for layer, actions in _ACTIONS.items() for action in actions),
    *(_forbidden_to_tests(layer, action) for layer, actions in _ACTIONS.items() for action in actions),
    _forbidden("kernel", "import os; os.memfd_create('probe')"),
    _forbidden("kernel", "import os; os.sched_setaffinity(0, [0])"),
    _forbidden("kernel", "import socket; socket.socketpair(socket.AF_INET)"),
    Probe("environment", "read", "import os\ndef attempt():\n    return dict(os.environ)", "assert attempt() == {}"),
    Probe("tests: environment", "read", _TRIVIAL, "import os\nassert dict(os.environ) == {}"),
    Probe("descriptors", "look for more", _OPEN_DESCRIPTORS, "assert attempt() == [0, 1, 2, 3, 4]"),
    _ends("memory", "return len(bytearray(1 << 46))", "memory"),
    Probe("tests: memory", "bytearray(1 << 46)", _TRIVIAL, "bytearray(1 << 46)", ("memory",)),
    Probe("file size", "write 2 MiB", _LARGE_FILE, "attempt()", ("error",)),
    _ends("CPU time", "while True: pass", "timeout"),
    _ends("wall time", "time.sleep(99)", "timeout", imports="import time"),
)


def run_probes(pool: Pool) -> dict[str, Finding]:
    """Try every layer; what Landlock keeps is absent where the pool goes without it."""
    findings = {layer.name: Finding("absent", "it was not tried") for layer in LAYERS}
    probes = list(PROBES)
    if not pool.settings.use_landlock:
        findings |= dict.fromkeys(LANDLOCK_LAYERS, Finding("absent", "Landlock is not in use"))
        probes = [probe for probe in probes if probe.layer not in LANDLOCK_LAYERS]
    items = [_item(index, probe, pool.settings.scratch_parent) for index, probe in enumerate(probes)]
    for probe, future in zip(probes, pool.submit(CLIENT, items), strict=True):
        verdict = future.result()
        if verdict["outcome"] not in probe.expected:
            came_to = f"{probe.action!r} came to {verdict['outcome']}: {verdict['detail']}"
            others = findings[probe.layer].detail if findings[probe.layer].state == "leaks" else ""
            findings[probe.layer] = Finding("leaks", f"{others}; {came_to}" if others else came_to)
        elif findings[probe.layer].state == "absent":
            findings[probe.layer] = Finding("holds")
    return findings


def _item(index: int, probe: Probe, writable: str) -> dict[str, Any]:
    path = repr(writable)[1:-1]  # it stands within quotes
    return {
        "id": f"probe-{index}",
        "program": probe.program.replace(WRITABLE, path),
        "entry_point": "attempt",
        "setup": "",
        "tests": [probe.test.replace(WRITABLE, path)],
        "timeout_s": LIMIT_SECONDS if probe.expected == ("timeout",) else PATIENT_SECONDS,
    }
