"""One pod as the diagnosis sees it: its state, its events, its node and its log; plain JSON, nothing asked for."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cli.cluster import Object
from components.pods import MAIN, STEP_LABEL, STEPS

IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")  # a kubelet's words
SIGKILL, SIGTERM = 137, 143  # exit codes of what a signal has ended
LABEL_OF_EXECUTOR = re.compile(r'"executorLabel"\s*:\s*"exec-([\w-]+)"')


@dataclass(frozen=True)
class Trouble:
    """What befell a pod. step: whose; mend: what to do; ended: the pod is over; rank: lower is nearer to the cause."""

    step: str
    what: str
    mend: str
    ended: bool
    rank: int = 0


@dataclass(frozen=True)
class Seen:
    """A pod with what is known about it."""

    pod: Object
    events: Sequence[Object]
    log: str
    nodes: Sequence[Object]
    failure: Mapping[str, object] | None

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"].get("namespace", "default"))

    @property
    def status(self) -> Object:
        return dict(self.pod.get("status") or {})

    def containers(self) -> Iterator[tuple[str, Object]]:
        """(name, state) of every container, the initial ones first."""
        for group in ("initContainerStatuses", "containerStatuses"):
            for each in self.status.get(group) or []:
                yield each["name"], each.get("state") or {}

    def condition(self, kind: str) -> Object:
        found = (each for each in self.status.get("conditions") or [] if each["type"] == kind)
        return dict(next(found, {}))

    def event(self, *reasons: str, containing: str = "") -> str:
        """The newest message of this very pod's events with one of the reasons, empty when there is none."""
        identity = self.pod["metadata"].get("uid")
        mine = [
            event
            for event in self.events
            if event.get("reason") in reasons
            and event.get("involvedObject", {}).get("uid") == identity
            and containing in str(event.get("message"))
        ]
        mine.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
        return str(mine[-1].get("message", "")) if mine else ""


def step_of(pod: Object) -> str:
    """The step that a pod belongs to, by the pipeline's label, KFP's name of the executor, or the pod's own name."""
    labelled = (pod["metadata"].get("labels") or {}).get(STEP_LABEL)
    if labelled:
        return str(labelled)
    for container in pod["spec"].get("containers") or []:
        if container["name"] == MAIN:
            words = " ".join([*(container.get("command") or []), *(container.get("args") or [])])
            found = LABEL_OF_EXECUTOR.search(words)
            if found:
                return found[1]
    return str(pod["metadata"]["name"])


def option(seen: Seen, kind: str) -> str:
    """The parameter that sizes a pod: `--train-memory`; fetch_model, for one, goes by prepare's."""
    return option_of(step_of(seen.pod), kind)


def option_of(step: str, kind: str) -> str:
    return f"--{STEPS[step].size if step in STEPS else step}-{kind}"


def short(text: str, longest: int = 240) -> str:
    """One line of a text, cut between words where it is longer."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[:longest].rsplit(" ", 1)[0] + " …"
