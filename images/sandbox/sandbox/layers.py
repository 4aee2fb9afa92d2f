"""The layers of containment as data: what each is for, what enforces it, and on which runtimes it may be missing.

The self-test tries every layer (see `probes`). A required layer that leaks or is absent means that nothing is judged;
an optional one is reported all the same.
"""

from dataclasses import dataclass
from typing import Literal

State = Literal["holds", "absent", "leaks"]

RUNTIMES = {
    "runc": "containers on a kernel with Landlock (5.13 or newer): every layer is required",
    "gvisor": "gVisor, which has no Landlock: files that the container's user can read may be read",
    "bare": "a machine of one's own whose kernel may lack Landlock: likewise",
}
NO_LANDLOCK = ("gvisor", "bare")


@dataclass(frozen=True)
class Layer:
    """One thing that a jailed process must not do. `optional_on` names the runtimes that cannot promise it."""

    name: str
    kept_by: str
    optional_on: tuple[str, ...] = ()
    needs_landlock: bool = False


LAYERS = (
    Layer("verdicts", "the judge: a record for every test, from a process that the program cannot reach"),
    Layer("network", "seccomp: no sockets"),
    Layer("processes", "seccomp: no fork, no exec"),
    Layer("signals", "seccomp: no signals to others"),
    Layer("privileges", "no capabilities, no-new-privileges, seccomp"),
    Layer("kernel", "seccomp: an allow list"),
    Layer("writing", "Landlock; seccomp where there is none"),
    Layer("reading", "Landlock", NO_LANDLOCK, needs_landlock=True),
    Layer("other processes", "warm parents that cannot be looked into"),
    Layer("environment", "emptied before anything else"),
    Layer("descriptors", "closed at the door"),
    Layer("memory", "a limit on the address space"),
    Layer("file size", "a limit on files"),
    Layer("CPU time", "the supervisor's clock, and a limit behind it"),
    Layer("wall time", "the supervisor's clock"),
    Layer("tests: network", "seccomp: no sockets"),
    Layer("tests: processes", "seccomp: no fork, no exec"),
    Layer("tests: signals", "seccomp: no signals to others"),
    Layer("tests: privileges", "no capabilities, no-new-privileges, seccomp"),
    Layer("tests: writing", "Landlock; seccomp where there is none"),
    Layer("tests: reading", "Landlock", NO_LANDLOCK, needs_landlock=True),
    Layer("tests: other processes", "warm parents that cannot be looked into"),
    Layer("tests: environment", "emptied before anything else"),
    Layer("tests: memory", "a limit on the address space"),
)
BY_NAME = {layer.name: layer for layer in LAYERS}
LANDLOCK_LAYERS = frozenset(layer.name for layer in LAYERS if layer.needs_landlock)
MAY_BE_OPTIONAL = tuple(layer.name for layer in LAYERS if layer.name != "verdicts")


def required_layers(runtime: str, optional: frozenset[str]) -> frozenset[str]:
    """Names of the layers without which nothing is judged: all but those optional on `runtime` or by request."""
    return frozenset(layer.name for layer in LAYERS if runtime not in layer.optional_on and layer.name not in optional)


@dataclass(frozen=True)
class Finding:
    """What the self-test found of one layer; `detail` says what leaked."""

    state: State
    detail: str = ""


def objection(findings: dict[str, Finding], required: frozenset[str]) -> str | None:
    """Why these findings forbid judging, None if they do not."""
    faults = []
    for name in sorted(required, key=list(BY_NAME).index):
        finding = findings.get(name, Finding("absent", "it was not tried"))
        if finding.state != "holds":
            faults.append(f"{name} {finding.state}: {finding.detail}")
    return "; ".join(faults) or None
