"""The tests on a real cluster, with the time of each part: `python -m tests.e2e cluster` or `kfp` (make e2e, e2e-kfp).

They run on the cluster of kubectl, or on the one that $GRPO_TEST_CLUSTER_UP brings up, and push images to $REGISTRY. A
part is a file of tests; what its fixtures made (images, a deployment) is timed by itself, too. What was skipped or left
out is said, with the reason. Those that need no Kubeflow Pipelines run side by side, see tests/cluster/lanes.py; `-n 0`
among the arguments runs them one after the other. When all have ended nothing of theirs may be left on the cluster.
"""

import os
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import brought_up
from tests.cluster.lanes import arrange, scheduler
from tests.cluster.leftovers import left, was_deployed
from tests.cluster.told import Told

MARKED = {"cluster": "cluster and not (kfp or gpu)", "kfp": "kfp and not gpu"}
PROCESSES = {"cluster": ["-n", "3", "--dist", "loadscope", "--no-loadscope-reorder"], "kfp": ["-n", "0"]}
FOLDERS = ("tests/cluster", "tests/kfp")
ELSEWHERE = {
    "kfp": "make e2e-kfp KFP_ENDPOINT=…",
    "cluster": "make e2e",
    "gpu": "on a machine with a GPU: pytest -m gpu",
}
OUTCOMES = ("passed", "failed", "skipped")
ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)  # rather than interrupted, or never begun
UP = "GRPO_TEST_CLUSTER_UP"


class Parts:
    """A pytest plug-in: seconds and outcomes by file, what was skipped or is another half's, what is left at the end.

    It is there in each process: those that run tests side by side tell the one that started them what only they know.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.begun = config, time.monotonic()
        self.seconds: dict[str, float] = defaultdict(float)
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self.reasons: Counter[str] = Counter()
        self.elsewhere: Counter[str] = Counter()
        self.told, self.cleared = Told.of(config), ""

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

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Tell the process that started this one; or, when all have ended, look at what they have left."""
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput |= {"elsewhere": dict(self.elsewhere), "told": self.told.packed()}
        elif exitstatus in ENDED and self.told.before is not None and not self.nothing_is_left(self.told.before):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def nothing_is_left(self, before: list[str]) -> bool:
        """Whether the cluster is as it was before the first test; what is said of it goes to `cleared`."""
        try:
            with self.told.timed("wait until all is gone"):
                remaining = left(brought_up(os.environ[UP]), before)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            self.cleared = f"FAILED  what is left on the cluster cannot be seen: {error}"
            return False
        if remaining:
            self.cleared = f"FAILED  left on the cluster: {', '.join(remaining)}"
        elif was_deployed(before):
            self.cleared = "left on the cluster: the product, which was there before, with the images of the tests"
        else:
            self.cleared = "left on the cluster: nothing that was not there before"
        return not remaining

    def pytest_testnodedown(self, node: Any) -> None:
        told = getattr(node, "workeroutput", {})  # none of one that has crashed
        self.elsewhere |= Counter(told.get("elsewhere", {}))  # each has collected the same tests
        self.told.add(told.get("told", Told().packed()))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("parts")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        """One line a part, the sum, what was made and cleared away, then what was skipped or left out and why."""
        width = max(map(len, self.seconds), default=0)
        shown = []
        for part, seconds in self.seconds.items():
            counts = ", ".join(f"{self.outcomes[part][each]} {each}" for each in OUTCOMES if self.outcomes[part][each])
            shown.append(f"{part:<{width}}  {seconds:6.0f} s  {counts}")
        clock = time.monotonic() - self.begun
        shown.append(f"{'together':<{width}}  {sum(self.seconds.values()):6.0f} s, in {clock:.0f} s by the clock")
        shown += self.told.lines()
        shown += [f"skipped {count}: {reason}" for reason, count in self.reasons.items()]
        shown += [f"left out {count} marked {mark}: {ELSEWHERE[mark]}" for mark, count in self.elsewhere.items()]
        return shown + ([self.cleared] if self.cleared else [])


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
    os.environ.setdefault(UP, shutil.which("true") or "/bin/true")
    folders = [folder for folder in FOLDERS if not any(Path(each.partition("::")[0]).exists() for each in more)]
    return int(pytest.main(["-p", "tests.e2e", "-m", MARKED[half], *PROCESSES[half], "-rs", *folders, *more]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
