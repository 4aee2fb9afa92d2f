"""Canaries: two programs whose verdicts are known. A worker that gives other verdicts is damaged."""

from typing import Any

from sandbox.worker import Worker, WorkerLost

CPU_SECONDS = 2.0
NEEDED_BYTES = 16 << 20  # that a program must be able to have


def _item(name: str, body: str) -> dict[str, Any]:
    return {
        "id": f"canary-{name}",
        "program": f"def canary(values):\n    room = bytearray({NEEDED_BYTES})\n    {body}",
        "entry_point": "canary",
        "setup": "",
        "tests": ["assert canary([3, 1, 2]) == [1, 2, 3]", "assert canary([]) == []"],
        "timeout_s": CPU_SECONDS,
    }


CANARIES = ((_item("right", "return sorted(values)"), "passed"), (_item("wrong", "return values"), "failed"))


def damage(worker: Worker) -> str:
    """What is wrong with a worker, "" when it knows right from wrong. Afterwards a lost one has been stopped."""
    for item, expected in CANARIES:
        try:
            answer = worker.judge(item)
        except WorkerLost as error:
            return f"it was lost ({error})"
        if answer["outcome"] != expected:
            return f"{item['id']} came to {answer['outcome']} instead of {expected}: {answer['detail']}"
    return ""
