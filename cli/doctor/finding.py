"""What the doctor says: one line a finding, with its state, what was seen, and the command that mends it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

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
    """The findings of a check; what keeps it from being made is itself a failure, said in one sentence."""
    try:
        return list(examine())
    except (InfraError, UserError) as error:
        return [fail(check, str(error).rstrip("."), mend)]


def has_failed(findings: Sequence[Finding]) -> bool:
    return any(finding.state == "FAIL" for finding in findings)


def as_json(findings: Sequence[Finding], seconds: float) -> dict[str, Any]:
    """All findings for a program to read; seconds: how long they took."""
    return {
        "ok": not has_failed(findings),
        "seconds": round(seconds, 1),
        "findings": [asdict(finding) for finding in findings],
    }
