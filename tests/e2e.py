"""The tests on a real cluster, with the time of each part: `python -m tests.e2e cluster` or `kfp` (make e2e, e2e-kfp).

They run on the cluster of $KUBECONFIG, or on the one that $GRPO_TEST_CLUSTER_UP brings up, and push images to
$REGISTRY. A part is a file of tests. What was skipped or left out is said, with the reason. Those that need no Kubeflow
Pipelines run side by side, see tests/cluster/lanes.py; `-n 0` among the arguments runs them one after the other.
"""

import os
import shutil
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.lanes import arrange, scheduler

MARKED = {"cluster": "cluster and not (kfp or gpu)", "kfp": "kfp and not gpu"}
PROCESSES = {"cluster": ["-n", "3", "--dist", "loadscope", "--no-loadscope-reorder"], "kfp": ["-n", "0"]}
FOLDERS = ("tests/cluster", "tests/kfp")
ELSEWHERE = {
    "kfp": "make e2e-kfp KFP_ENDPOINT=…",
    "cluster": "make e2e",
    "gpu": "on a machine with a GPU: pytest -m gpu",
}
OUTCOMES = ("passed", "failed", "skipped")


class Parts:
    """A pytest plug-in: seconds and outcomes by file, reasons of what was skipped, and what is another half's.

    It is there in each process: those that run tests side by side tell the one that started them what they left out.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.begun = config, time.monotonic()
        self.seconds: dict[str, float] = defaultdict(float)
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self.reasons: Counter[str] = Counter()
        self.elsewhere: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        part = report.nodeid.partition("::")[0]
        self.seconds[part] += report.duration  # set-up and tearing down count: images are built and pushed there
        if report.when == "call" or not report.passed:
            self.outcomes[part][report.outcome] += 1
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        for item in items:
            marks = [mark for mark in ("gpu", "kfp", "cluster") if item.get_closest_marker(mark)]
            if marks:
                self.elsewhere[marks[0]] += 1

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["elsewhere"] = dict(self.elsewhere)

    def pytest_testnodedown(self, node: Any) -> None:
        told = getattr(node, "workeroutput", {})  # none of one that has crashed
        self.elsewhere |= Counter(told.get("elsewhere", {}))  # each has collected the same tests

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("parts")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        """One line a part, then the sum, then what was skipped or left out and why."""
        width = max(map(len, self.seconds), default=0)
        shown = []
        for part, seconds in self.seconds.items():
            counts = ", ".join(f"{self.outcomes[part][each]} {each}" for each in OUTCOMES if self.outcomes[part][each])
            shown.append(f"{part:<{width}}  {seconds:6.0f} s  {counts}")
        clock = time.monotonic() - self.begun
        shown.append(f"{'together':<{width}}  {sum(self.seconds.values()):6.0f} s, in {clock:.0f} s by the clock")
        shown += [f"skipped {count}: {reason}" for reason, count in self.reasons.items()]
        shown += [f"left out {count} marked {mark}: {ELSEWHERE[mark]}" for mark, count in self.elsewhere.items()]
        return shown


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Parts(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # one of several processes
        arrange(items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return scheduler(config, log)


def main(arguments: list[str]) -> int:
    """Run one half, `cluster` or `kfp`, with further arguments for pytest; returns its exit code, 2 for wrong usage."""
    half, *more = arguments or [""]
    if half not in MARKED:
        print("tests.e2e: name a half, cluster or kfp.", file=sys.stderr)
        return 2
    if half == "kfp" and not os.environ.get("KFP_ENDPOINT"):
        print("tests.e2e: KFP_ENDPOINT is not set: give the address of a Kubeflow Pipelines.", file=sys.stderr)
        return 2
    # the cluster of the kubeconfig is up already
    os.environ.setdefault("GRPO_TEST_CLUSTER_UP", shutil.which("true") or "/bin/true")
    folders = [folder for folder in FOLDERS if not any(Path(each.partition("::")[0]).exists() for each in more)]
    return int(pytest.main(["-p", "tests.e2e", "-m", MARKED[half], *PROCESSES[half], "-rs", *folders, *more]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
