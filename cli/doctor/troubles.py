"""What can befall one pod, read from its state, its events, its node and its log. Pure functions over plain JSON.

The rules are tried in order; the first that applies names the trouble. `ended` troubles end a run, others hold it up.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from cli.cluster import Object
from cli.doctor.capacity import barring, name_of, shown_taint, tolerating
from cli.doctor.seen import IMAGE_REASONS, SIGKILL, SIGTERM, Seen, Trouble, option, short, step_of
from cli.namespaces import SANDBOX_NAMESPACE
from components.pods import MAIN, STEPS

CONFIG_REASONS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
STEPS_SENTENCE = re.compile(r"([a-z][a-z_-]*): (.+\.)")
DEFECT = re.compile(r"[\w.]+(Error|Exception)\b.*")
LAST_LINES = 25
# KFP's launcher, in front of the step: it ends with 1 whatever the step's own exit code was, and says that in its log.
LAUNCHER = re.compile(r"failed to execute component: (?:signal: (killed)|exit status (\d+))")
# What the client of the sandbox says, while it waits and when it gives up (components/shared/{sandbox,grading}.py).
SANDBOX_WAITS = re.compile(r"^sandbox: no verdicts from (\S+) \((.+)\); trying again")
SANDBOX_GIVES_UP = re.compile(r"The sandbox at \S+ is not ready|the sandbox gave no verdict")


def pod_trouble(
    pod: Object,
    events: Sequence[Object],
    log: str = "",
    nodes: Sequence[Object] = (),
    failure: Mapping[str, object] | None = None,
) -> Trouble | None:
    """What is wrong with a pod, None when nothing is. log: its main container's last lines; failure: the step's own."""
    seen = Seen(pod, events, log, nodes, failure)
    if seen.status.get("phase") == "Succeeded":
        return None
    for rank, rule in enumerate(RULES):
        told = rule(seen)
        if told:
            what, mend, ended = told
            return Trouble(step_of(pod), what.strip().rstrip("."), mend, ended, rank)
    return None


Told = tuple[str, str, bool] | None  # what, mend, whether the pod has ended


def _node_lost(seen: Seen) -> Told:
    node = str(seen.pod["spec"].get("nodeName") or "")
    disruption = seen.condition("DisruptionTarget")
    lost = seen.status.get("reason") == "NodeLost" or (
        disruption.get("status") == "True" and disruption.get("reason") in ("DeletionByTaintManager", "DeletionByPodGC")
    )
    known = {each["metadata"]["name"]: each for each in seen.nodes}
    ready = next(
        (
            each["status"]
            for each in known.get(node, {}).get("status", {}).get("conditions", [])
            if each["type"] == "Ready"
        ),
        "True" if not known or node in known else "gone",
    )
    if node and (lost or ready in ("Unknown", "gone")):
        return (
            f"its node {node} was lost ({ready if ready == 'gone' else 'not heard of'})",
            f"kubectl get node {node}",
            lost,
        )
    return None


def _evicted(seen: Seen) -> Told:
    message = str(seen.status.get("message") or "")
    if seen.status.get("reason") == "Evicted":
        more = f"{option(seen, 'memory')} with what it uses" if "memory" in message else "a node with more disk"
        return f"evicted: {message}", more, True
    disruption = seen.condition("DisruptionTarget")
    if disruption.get("status") != "True":
        return None
    words = {
        "EvictionByEvictionAPI": ("evicted on request, as by a node's drain", "kubectl get nodes"),
        "PreemptionByScheduler": ("preempted by a pod of higher priority", "kubectl get priorityclasses"),
        "TerminationByKubelet": ("ended by its node, which was short of something", "kubectl get nodes"),
    }
    what, mend = words.get(
        str(disruption.get("reason")), (f"disrupted: {disruption.get('message')}", "kubectl get nodes")
    )
    return what, mend, True


def _deadline(seen: Seen) -> Told:
    if seen.status.get("reason") != "DeadlineExceeded":
        return None
    limit = seen.pod["spec"].get("activeDeadlineSeconds")
    return f"stopped after its time limit of {limit} s", "allow the step more time (--timeout)", True


def _out_of_memory(seen: Seen) -> Told:
    for name, state in seen.containers():
        ended = state.get("terminated") or {}
        if ended.get("reason") == "OOMKilled":
            limit = _memory_limit(seen.pod, name)
            mend = f"{option(seen, 'memory')} with more, or a smaller --micro-batch-size"
            return f"killed for using more than its memory limit of {limit} (OOMKilled)", mend, True
    return None


def _memory_limit(pod: Object, container: str) -> str:
    for each in [*(pod["spec"].get("containers") or []), *(pod["spec"].get("initContainers") or [])]:
        if each["name"] == container:
            return str(((each.get("resources") or {}).get("limits") or {}).get("memory", "the node"))
    return "the node"


def _image(seen: Seen) -> Told:
    for name, state in seen.containers():
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in IMAGE_REASONS:
            image = next(
                (
                    each["image"]
                    for group in ("containers", "initContainers")
                    for each in seen.pod["spec"].get(group) or []
                    if each["name"] == name
                ),
                "?",
            )
            why = seen.event("Failed", containing="pull image") or waiting.get("message", "")
            return f"the image {image} cannot be pulled: {short(why)}", "make images push REGISTRY=… TAG=…", False
    return None


def _config(seen: Seen) -> Told:
    for _, state in seen.containers():
        waiting = state.get("waiting") or {}
        message = str(waiting.get("message") or "")
        if waiting.get("reason") not in CONFIG_REASONS:
            continue
        secret = re.search(r'secret "([^"]+)" not found', message)
        key = re.search(r"couldn't find key (\S+) in Secret (\S+)/(\S+)", message)
        if secret:
            create = f"kubectl create secret generic {secret[1]} -n {seen.namespace} --from-literal=KEY=…"
            return f"the Secret {secret[1]} does not exist in {seen.namespace}", create, False
        if key:
            mend = f"kubectl edit secret {key[3]} -n {key[2]}"
            return f"the Secret {key[3]} in {key[2]} has no key {key[1]}", mend, False
        return f"{waiting['reason']}: {short(message)}", f"kubectl describe pod {seen.name} -n {seen.namespace}", False
    return None


def _unschedulable(seen: Seen) -> Told:
    scheduled = seen.condition("PodScheduled")
    if seen.status.get("phase") != "Pending" or scheduled.get("status") != "False":
        return None
    message = str(scheduled.get("message") or "")
    see = "kubectl describe nodes"
    if scheduled.get("reason") == "SchedulingGated":
        return "held in a queue that has not admitted it", f"kubectl get workloads -n {seen.namespace}", False
    short = re.findall(r"Insufficient ([\w./-]*\w)", message)
    gpu = next((name for name in short if "/" in name), "")
    if gpu:
        asked = _asked(seen.pod, gpu)
        mend = f"free one ({see} | grep -A9 Allocated), or --gpus with less"
        return f"waits for {asked} {gpu}, which no node has free", mend, False
    if short:
        asked = " and ".join(f"{_asked(seen.pod, name)} {name}" for name in short)
        return (
            f"waits for {asked}, which no node has free",
            f"free some ({see}), or a smaller {option(seen, short[0])}",
            False,
        )
    return _no_fitting_node(seen, message)


def _no_fitting_node(seen: Seen, message: str) -> Told:
    """Labels or taints. Kubernetes 1.34 no longer names taints, so that the nodes themselves are looked at."""
    spec = seen.pod["spec"]
    wanted = spec.get("nodeSelector") or {}
    fitting = [node for node in seen.nodes if wanted.items() <= (node["metadata"].get("labels") or {}).items()]
    by_label = "selector" in message or "affinity" in message
    if by_label and wanted and not (fitting or ("taint" in message and not seen.nodes)):
        shown = ",".join(f"{key}={value}" for key, value in wanted.items())
        return f"no node has the labels {shown}", "kubectl get nodes --show-labels, and another --node-selector", False
    taints = [taint for node in fitting for taint in barring(node, spec.get("tolerations") or [])]
    if not taints:
        return f"no node takes it: {short(message)}", "kubectl describe nodes", False
    name, shown = name_of(fitting[0]), ", ".join(sorted({shown_taint(taint) for taint in taints}))
    return f"node {name} has {shown}, which it does not tolerate", tolerating(taints), False


def _asked(pod: Object, resource: str) -> str:
    for each in pod["spec"].get("containers") or []:
        resources = each.get("resources") or {}
        amount = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.get(resource)
        if amount:
            return str(amount)
    return "more"


def _mount(seen: Seen) -> Told:
    if seen.status.get("phase") != "Pending":
        return None
    why = seen.event("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")
    if not why:
        return None
    return f"cannot start: {short(why)}", f"kubectl describe pod {seen.name} -n {seen.namespace}", False


def _failed(seen: Seen) -> Told:
    """The step's own sentence, from the failure that it left in the store or from the end of its log."""
    code = next((state["terminated"]["exitCode"] for name, state in seen.containers() if _bad(name, state)), None)
    if code is None:
        return None
    sentence = _own_sentence(seen)
    if SANDBOX_GIVES_UP.search(sentence):
        return f"gave up for want of the sandbox: {sentence}", f"kubectl get pods,events -n {SANDBOX_NAMESPACE}", True
    if sentence:
        return sentence, "", True
    see = f"kubectl logs {seen.name} -n {seen.namespace} -c {MAIN}"
    launched = LAUNCHER.search(seen.log)
    if launched and (launched[1] or int(launched[2]) == SIGKILL):  # under a shell, which says it in its exit status
        return "killed (SIGKILL), most likely for want of memory", f"{option(seen, 'memory')} with more", True
    if launched:
        code = int(launched[2])
    words = {SIGKILL: "killed from outside (SIGKILL)", SIGTERM: "stopped from outside (SIGTERM), as when it is deleted"}
    return words.get(code, f"ended with exit code {code} and no word of its own"), see, True


def _bad(name: str, state: Object) -> bool:
    return name == MAIN and (state.get("terminated") or {}).get("exitCode", 0) != 0


def _own_sentence(seen: Seen) -> str:
    """What the step said last; a line of progress, which has no full stop, is no reason to end."""
    steps = {step_of(seen.pod), *STEPS}
    if seen.failure and seen.failure.get("step") in steps:
        return str(seen.failure.get("message", ""))
    for line in reversed([line.strip() for line in seen.log.splitlines() if line.strip()][-LAST_LINES:]):
        if DEFECT.match(line):  # a traceback ends so
            return line
        told = STEPS_SENTENCE.fullmatch(line)
        if told and told[1] in steps:
            return told[2]
    return ""


def _waits_for_sandbox(seen: Seen) -> Told:
    lines = [line.strip() for line in seen.log.splitlines() if line.strip()]
    found = SANDBOX_WAITS.match(lines[-1]) if lines else None
    if not found or seen.status.get("phase") != "Running":
        return None
    return f"waits for the sandbox at {found[1]}: {found[2]}", f"kubectl get pods,events -n {SANDBOX_NAMESPACE}", False


RULES: tuple[Callable[[Seen], Told], ...] = (
    _out_of_memory,
    _node_lost,
    _evicted,
    _deadline,
    _image,
    _config,
    _unschedulable,
    _mount,
    _failed,
    _waits_for_sandbox,
)
