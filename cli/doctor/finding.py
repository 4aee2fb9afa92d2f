"""What the doctor says: one line a finding, with its state, what was seen, and the command that mends it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cli.cluster import Forbidden
from components.shared.errors import InfraError, UserError

State = Literal["ok", "warn", "FAIL", "skipped"]
WIDTH = max(len(state) for state in ("ok", "warn", "FAIL", "skipped"))


@dataclass(frozen=True)
class Finding:
    """One finding. check: a short name, the same in every run; mend: a command or what else to do, needed by FAIL."""

    check: str
    state: State
    seen: str
    mend: str = ""

    def __post_init__(self) -> None:
        if self.state == "FAIL" and not self.mend:
            raise ValueError(f"the failure {self.check!r} says nothing of how to mend it")

    @property
    def line(self) -> str:
        """The finding as a person reads it, in one line."""
        whole = f"{self.state:<{WIDTH}} {self.check}: {self.seen}"
        return " ".join((f"{whole} -> {self.mend}" if self.mend else whole).split("\n"))


def ok(check: str, seen: str) -> Finding:
    return Finding(check, "ok", seen)


def warn(check: str, seen: str, mend: str = "") -> Finding:
    return Finding(check, "warn", seen, mend)


def fail(check: str, seen: str, mend: str) -> Finding:
    return Finding(check, "FAIL", seen, mend)


def skipped(check: str, why: str, mend: str = "") -> Finding:
    return Finding(check, "skipped", why, mend)


def guarded(check: str, examine: Callable[[], Iterable[Finding]], mend: str) -> list[Finding]:
    """The findings of a check; what kept it from being made is one too: a failure, or skipped for want of rights."""
    findings: list[Finding] = []
    try:
        findings.extend(examine())  # which keeps those that came before an error
    except Forbidden as error:
        findings.append(skipped(check, str(error).rstrip(".")))
    except (InfraError, UserError) as error:
        findings.append(fail(check, str(error).rstrip("."), mend))
    return findings


def has_failed(findings: Sequence[Finding]) -> bool:
    return any(finding.state == "FAIL" for finding in findings)


def as_json(findings: Sequence[Finding], seconds: float) -> dict[str, Any]:
    """All findings for a program to read; seconds: how long they took."""
    return {
        "ok": not has_failed(findings),
        "seconds": round(seconds, 1),
        "findings": [asdict(finding) for finding in findings],
    }
