"""The tests on a cluster side by side: in lanes, each the work of one process of pytest-xdist's.

They wait more than they work, for Kubernetes' own delays and for the time limits of what they provoke. What would get
in each other's way is in one lane: there is one deployment under the product's own names, a training fills a core and
is measured by its end, and an installation that a doctor looks at must not change meanwhile. In a lane the files come
in the order in which they stand here, and what they share (an installation) is made once. The longest lane is first.
Three processes keep two cores busy, so that there are not as many as lanes.
"""

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LANES = {
    # one training at a time, and nothing beside it that fills a core
    "training": ("test_chaos.py", "test_steps_in_pods.py"),
    # what is deployed by `make deploy`, its admission policy and its namespaces, and that nothing is left of it; then
    # images are built, and kfp's Docker runner asks for each that docker lists, which a build may have removed by then
    "deployment": (
        "test_sandbox_deployed.py",
        "test_sandbox_network.py",
        "test_sandbox_admission.py",
        "test_deploying.py",
        "test_hub_policy.py",
        "test_images.py",
        "test_docker_runner.py",
    ),
    # doctors and their probes at one installation, which the tests change for a moment
    "probes": ("test_doctor.py", "test_doctor_probes.py"),
    # the same at another one, pods in trouble, and nodes on which nothing runs: few at a time, for where most are
    # lost Kubernetes evicts nobody any more
    "troubles": (
        "test_doctor_run.py",
        "test_doctor_reading.py",
        "test_doctor_layers.py",
        "test_doctor_rights.py",
        "test_debugging_page.py",
    ),
}
LANE_OF = {file: lane for lane, files in LANES.items() for file in files}
ORDER = {file: place for place, file in enumerate(LANE_OF)}


def arrange(items: list[pytest.Item]) -> None:
    """Put the tests of the lanes' files in their order; others come behind, as they were."""
    items.sort(key=lambda item: ORDER.get(item.path.name, len(ORDER)))


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands a whole lane to the next process that is free; files that are in none by themselves.

    pytest-xdist's own way, by marks that name groups, does nothing with pytest 9.2 (pytest-xdist's issue 1386).
    """
    from xdist.scheduler import LoadScopeScheduling  # not before pytest has seen its plugins

    class InLanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return LANE_OF.get(Path(file).name, file)

    return InLanes(config, log)


class Once:
    """What all processes of one run of the tests need and one of them makes, one thing at a time; the others wait."""

    def __init__(self, folder: Path) -> None:
        """folder: the same for all of them, and empty at the beginning."""
        self.folder = folder

    def __call__(self, name: str, make: Callable[[], object]) -> None:
        """Call `make`, unless that was done under this name before."""
        with (self.folder / "once.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # goes with the process that holds it
            done = self.folder / f"{name}.done"
            if not done.exists():
                make()
                done.touch()
