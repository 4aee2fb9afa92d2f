"""What only a pod can tell: images, the store, the sandbox, and whether the policies are more than paper.

Four kinds of pods run at once: one an image; a *client* of the sandbox, labelled as a step's pod is; a *stranger*
without that label; and a *captive* in the sandbox's namespace, held by its policies and selected by no Service.
What a captive or a stranger cannot reach counts only where a pod that may has reached it: the positive control.
"""

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from cli.cluster import Forbidden, Object
from cli.doctor.capacity import name_of
from cli.doctor.finding import Finding, fail, ok, skipped, warn
from cli.doctor.inside_findings import hub_finding, layer_findings, replica_findings, store_finding, wanted_from_hub
from cli.doctor.installation import SANDBOX_KEY, Installation, selected_pods
from cli.doctor.needs import steps_of
from cli.doctor.pods import UNFINISHED, Order, Outcome, Probe, ProbePods, secret_env
from cli.doctor.seen import IMAGE_REASONS
from components.pods import SANDBOX_CLIENT, STORE_KEYS, labels_of
from components.pods import STEPS as PODS
from components.shared.sandbox import TOKEN_VARIABLE
from components.shared.store import in_bucket

OPENING_SECONDS = 10.0  # for a way that must be open: a policy's exceptions take a moment to know a new pod
HUB = "https://huggingface.co"
CLOSING_SECONDS = 12.0  # for a way that must be closed: a new pod is unguarded until the policies have seen it
Targets = dict[str, list[Any]]
ENFORCE = "install a network plug-in that enforces NetworkPolicy (kube-router, Calico, Cilium), then: make deploy"


def probe_findings(place: Installation, pods: ProbePods, key: str) -> Iterator[Finding]:
    """Run all probes at once and read them. key: the object to write to the store and remove again."""
    inner, outer = sandbox_targets(place), outside_targets(place)
    probes = image_probes(place)
    probes["client"] = client_probe(place, key, inner, outer)
    if inner:
        probes["stranger"] = stranger_probe(place, {**inner, **outer})
    captive = captive_probe(place, outer)
    if captive:
        probes["captive"] = captive
    with ThreadPoolExecutor(max_workers=len(probes)) as pool:
        outcomes = dict(zip(probes, pool.map(pods.run, probes.values()), strict=True))
    for name, probe in probes.items():
        if name.startswith("image "):
            yield image_finding(name, probe.image, outcomes[name], place.namespace)
    client = outcomes["client"]
    yield image_finding("image prepare", probes["client"].image, client, place.namespace)
    if client.trouble and not client.found:
        for check in ("store", "sandbox", "sandbox layers", "hub", "policy in", "policy out"):
            yield skipped(check, f"no pod could look: {client.trouble}")
        return
    yield from client_findings(client, place)
    yield strangers_kept_out(inner, client, outcomes.get("stranger"))
    yield captives_kept_in(outer, client, outcomes.get("stranger"), outcomes.get("captive"))


def client_findings(client: Outcome, place: Installation) -> Iterator[Finding]:
    """What the client saw; what it did not come to, because something before it gave no answer, is a failure."""
    seen = f"gave no answer while the probe ran ({client.trouble})"
    if "sandbox" in client.found:
        yield from replica_findings(client.found["sandbox"], place)
        yield from layer_findings(client.found["sandbox"], place)
    else:
        yield fail("sandbox", f"{place.parameters['sandbox_url']} {seen}", "kubectl get pods,networkpolicies -A")
    if "store" in client.found:
        yield store_finding(client.found["store"], place)
        yield from model_finding(client.found.get("model"))
    else:
        secret = place.parameters["store_secret"]
        mend = f"kubectl get secret {secret} -n {place.namespace} -o yaml  # is S3_ENDPOINT right, and let through?"
        yield fail("store", f"the store {seen}", mend)
    if wanted_from_hub(place.parameters):
        yield hub_finding(client.found.get("hub", {"url": HUB, "error": f"it {seen}"}), place)


def image_probes(place: Installation) -> dict[str, Probe]:
    """A pod an image, but for the prepare image, which the client runs; on the nodes that the step would use."""
    probes: dict[str, Probe] = {}
    for step in steps_of(place.parameters):
        if step != "prepare":
            on_gpu = PODS[step].gpu
            probes[f"image {step}"] = _step_probe(
                place,
                step,
                step,
                [],
                node_selector=dict(place.parameters["node_selector"]) if on_gpu else {},
                tolerations=list(place.parameters["tolerations"]) if on_gpu else [],
            )
    return probes


def client_probe(place: Installation, key: str, inner: Targets, outer: Targets) -> Probe:
    """The pod that does what steps do: use the store, the sandbox and the hub, for which it has prepare's labels."""
    given, known = place.parameters, list(inner.values())
    orders: list[Order] = [
        ("sandbox", {"urls": given["sandbox_url"].split(","), "known": known, "seconds": OPENING_SECONDS}),
        ("reach", {"targets": {**inner, **outer}, "wanted": True, "seconds": OPENING_SECONDS / 2}),
        ("store", {"key": key, "seconds": OPENING_SECONDS}),
    ]
    if in_bucket(given["model_name"]):
        orders.append(("model", {"address": given["model_name"]}))
    if wanted_from_hub(given):
        orders.append(("hub", {"url": HUB, "seconds": OPENING_SECONDS / 2}))
    env = [secret_env(name, given["store_secret"], name) for name in STORE_KEYS]
    env.append(secret_env(TOKEN_VARIABLE, given["sandbox_secret"], SANDBOX_KEY))
    return _step_probe(place, "client", "prepare", orders, labels=labels_of("prepare"), env=env)


def stranger_probe(place: Installation, targets: Targets) -> Probe:
    """The pod that the sandbox must not let in, labelled like a step that judges nothing."""
    return _step_probe(place, "stranger", "prepare", [_closed(targets)], labels=labels_of("finish"))


def captive_probe(place: Installation, targets: Targets) -> Probe | None:
    """The pod that must not get out, in the sandbox's own image; None where no pod of it is there to copy."""
    pods = sandbox_pods(place)
    if place.sandbox is None or not targets or not pods:
        return None
    spec = pods[0]["spec"]
    pulled_with = tuple(each["name"] for each in spec.get("imagePullSecrets") or [])
    return Probe(
        name="captive",
        namespace=place.sandbox[1],
        image=spec["containers"][0]["image"],
        orders=[_closed(targets)],
        pull_secrets=pulled_with,
        runtime_class=spec.get("runtimeClassName") or "",
        names=False,
    )


def _closed(targets: Targets) -> Order:
    return "reach", {"targets": targets, "wanted": False, "seconds": CLOSING_SECONDS}


def _step_probe(place: Installation, name: str, step: str, orders: list[Order], **more: Any) -> Probe:
    """A pod in the pipeline's namespace, with a step's image and the account of runs."""
    return Probe(
        name=name,
        namespace=place.namespace,
        image=place.images[step],
        orders=orders,
        service_account=place.service_account,
        pull_secrets=place.pull_secrets,
        **more,
    )


def sandbox_pods(place: Installation) -> list[Object]:
    """The pods behind the sandbox's Service; none where one may not look at them."""
    if place.sandbox is None:
        return []
    service, space = place.sandbox
    with contextlib.suppress(Forbidden):
        return selected_pods(place.cluster, place.cluster.get("services", service, namespace=space), space) or []
    return []


def sandbox_targets(place: Installation) -> Targets:
    """The address of every running pod of the sandbox, by name; ready or not, since it listens."""
    port = urlsplit(place.parameters["sandbox_url"].split(",")[0]).port or 80
    running = [pod for pod in sandbox_pods(place) if pod["status"].get("phase") == "Running"]
    return {name_of(pod): [pod["status"]["podIP"], port] for pod in running if pod["status"].get("podIP")}


def outside_targets(place: Installation) -> Targets:
    """What a judged program must never reach, by plain address: the API server, and the cluster's DNS over TCP."""
    found: Targets = {}
    with contextlib.suppress(Forbidden):
        api = place.cluster.get("services", "kubernetes", namespace="default")
        if api:
            found["the API server"] = [api["spec"]["clusterIP"], api["spec"]["ports"][0]["port"]]
    with contextlib.suppress(Forbidden):
        for dns in place.cluster.list("services", namespace="kube-system", labelSelector="k8s-app=kube-dns"):
            found["DNS"] = [dns["spec"]["clusterIP"], 53]
    return {name: target for name, target in found.items() if target[0] not in ("", "None")}


def image_finding(check: str, used: str, outcome: Outcome, space: str) -> Finding:
    """Whether a pod with the image came so far as to run; space: the namespace in which it was to."""
    mend = "make images push REGISTRY=… TAG=…  # and the same REGISTRY and TAG here"
    if not outcome.trouble or outcome.found:
        return ok(check, f"{used} was pulled and runs")
    if outcome.trouble.startswith(IMAGE_REASONS):
        return fail(check, f"{used} cannot be pulled: {outcome.trouble}", mend)
    if "Unschedulable" in outcome.trouble:
        return warn(check, f"{used}: {outcome.trouble}", "no node took its pod: the lines about nodes say why")
    if outcome.trouble.startswith(UNFINISHED):
        return warn(check, f"{used}: {outcome.trouble}", "run the doctor again: pulling a large image takes minutes")
    if "refused POST" in outcome.trouble:
        mend = f"kubectl describe quota,limitrange -n {space}"
    return fail(check, f"no pod with {used} could run: {outcome.trouble}", mend)


def model_finding(found: Mapping[str, str] | None) -> Iterator[Finding]:
    """What the client saw of a model in the store; nothing for one that is not there."""
    if found and found["error"]:
        yield fail(
            "model", f"{found['address']}: {found['error']}", "upload the model there, or name another --model-name"
        )
    elif found:
        yield ok("model", f"{found['address']} is in the store")


def open_to(probe: Outcome, targets: Targets) -> list[str]:
    """Which of the targets a probe, which has tried them, reached."""
    return [name for name in targets if probe.found["reach"].get(name) == "open"]


def strangers_kept_out(targets: Targets, client: Outcome, stranger: Outcome | None) -> Finding:
    """Whether a pod without the client's label was refused by every replica that let the client in."""
    check = "policy in"
    if stranger is None:
        return skipped(check, "no running pod of the sandbox can be seen to try it on")
    if stranger.trouble and not stranger.found:
        return skipped(check, f"no pod could try: {stranger.trouble}")
    let_in = open_to(client, targets) if "reach" in client.found else []
    through = open_to(stranger, targets)
    if through:
        return fail(check, f"a pod without the label {SANDBOX_CLIENT} reached {', '.join(through)}", ENFORCE)
    if not let_in:
        return skipped(check, "a pod with the label was refused as well, so that a refusal proves nothing")
    return ok(check, f"a pod without the label {SANDBOX_CLIENT} is refused by {', '.join(let_in)}, one with it let in")


def captives_kept_in(targets: Targets, client: Outcome, stranger: Outcome | None, captive: Outcome | None) -> Finding:
    """Whether a pod held by the sandbox's policies was kept from everything that some other pod could reach."""
    check = "policy out"
    if captive is None:
        return skipped(check, "no pod of the sandbox can be seen whose image a probe could use")
    if captive.trouble and not captive.found:
        return skipped(check, f"no pod could try: {captive.trouble}")
    tried = [each for each in (client, stranger) if each and "reach" in each.found]
    free = {name for each in tried for name in open_to(each, targets)}
    reachable, through = [name for name in targets if name in free], open_to(captive, targets)
    if through:
        return fail(check, f"a pod in the sandbox's namespace reached {', '.join(through)}", ENFORCE)
    if not reachable:
        return skipped(check, "no other pod reached anything either, so that a refusal proves nothing")
    return ok(check, f"a pod in the sandbox's namespace cannot reach {', '.join(reachable)}, another pod can")
