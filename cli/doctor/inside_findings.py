"""What the client probe saw of the store and the sandbox, as findings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cli.doctor.finding import Finding, fail, ok, warn
from cli.doctor.installation import Installation
from components.pods import HUB_CLIENT
from components.settings import ADDRESSES
from components.shared.store import in_bucket


def store_finding(found: Mapping[str, str], place: Installation) -> Finding:
    """Whether an object could be written, read and deleted from where steps run."""
    where = f"{found['root']} at {found['endpoint'] or 'no endpoint'}"
    if not found["error"]:
        return ok("store", f"{where} can be written and read")
    secret, error = place.parameters["store_secret"], found["error"].rstrip(".")
    mend = f"kubectl get secret {secret} -n {place.namespace} -o yaml"
    if "NoSuchBucket" in error:
        mend = f"mc mb STORE/{found['root'].removeprefix('s3://').split('/')[0]}"
    return fail("store", f"{where}: {error}", f"{mend}  # and is {found['endpoint'] or 'the endpoint'} up?")


def wanted_from_hub(given: Mapping[str, Any]) -> dict[str, str]:
    """What these parameters name on the hub, by parameter: of model and data sets those that are not in the store."""
    return {name: given[name] for name in ADDRESSES if given[name] and not in_bucket(given[name])}


def hub_finding(found: Mapping[str, str], place: Installation) -> Finding:
    """Whether steps with the hub's label reach the hub, for what this run wants from it."""
    wanted = wanted_from_hub(place.parameters)
    asked = " and ".join(wanted.values())
    if not found["error"]:
        return ok("hub", f"{found['url']} answers steps that fetch from it ({asked})")
    seen = f"steps that fetch {asked} from {found['url']}: {found['error']}"
    options = " ".join(f"--{name.replace('_', '-')} s3://…" for name in wanted)
    mend = f"{options}  # put there before; or let pods labelled {HUB_CLIENT} out: kubectl get networkpolicies"
    return fail("hub", seen, f"{mend} -n {place.namespace}")


def replica_findings(replicas: Sequence[Mapping[str, Any]], place: Installation) -> Iterator[Finding]:
    """Whether each replica lets a client in, is ready, takes the token, and judges a right program as right."""
    space = place.sandbox[1] if place.sandbox else ""
    see = f"kubectl get pods,networkpolicies -n {space}" if space else "look after the service at sandbox_url"
    for replica in replicas:
        url = replica["url"]
        if replica["reached"] != "open":
            yield fail("sandbox", f"{url} cannot be reached from {place.namespace}: {replica['reached']}", see)
            continue
        ready, verdict = replica["ready"], replica["verdict"]
        state = ready["body"] if isinstance(ready["body"], dict) else {}
        if ready["status"] != 200:
            log = f"kubectl logs -n {space} -l app.kubernetes.io/name=sandbox" if space else see
            yield fail("sandbox", f"{url} is not ready: {state.get('reason') or ready['body']}", log)
        elif verdict["status"] == 401:
            mend = f"make deploy  # or copy the sandbox's token into {place.parameters['sandbox_secret']}"
            yield fail("sandbox", f"{url} does not accept the token in {place.parameters['sandbox_secret']}", mend)
        elif not _passed(verdict):
            yield fail("sandbox", f"{url} did not pass a right program: {verdict['body']}", see)
        else:
            yield ok("sandbox", f"{url} is ready and judges")


def _passed(answer: Mapping[str, Any]) -> bool:
    """Whether this is a sandbox's answer, and says that the one program passed."""
    body = answer["body"]
    if answer["status"] != 200 or not isinstance(body, dict):
        return False
    return [verdict["outcome"] for verdict in body.get("verdicts") or ()] == ["passed"]


def layer_findings(replicas: Sequence[Mapping[str, Any]], place: Installation) -> Iterator[Finding]:
    """Whether the layers of containment hold: a required one must, and what an optional one lacks is said."""
    space = place.sandbox[1] if place.sandbox else ""
    for replica in replicas:
        body = (replica.get("ready") or {}).get("body")
        if not isinstance(body, dict) or not body.get("layers"):
            continue
        layers = body["layers"]
        lacking = {name: layer for name, layer in layers.items() if layer["state"] != "holds"}
        broken = [_shown(name, layer) for name, layer in lacking.items() if layer["required"]]
        loose = [_shown(name, layer) for name, layer in lacking.items() if not layer["required"]]
        if broken:
            mend = "kubectl exec into it: python -m sandbox --self-test; images/sandbox/README.md says what each needs"
            yield fail("sandbox layers", f"{replica['url']}: {'; '.join(broken)}", mend)
        elif loose:
            seen = f"{replica['url']}: {'; '.join(loose)} (not required of it, on {body['runtime']})"
            mend = "on a kernel with Landlock take --without-landlock, --optional-layer and --runtime out of its args"
            yield warn("sandbox layers", seen, f"{mend}: kubectl edit deployment -n {space}" if space else mend)
        else:
            yield ok("sandbox layers", f"{replica['url']}: all {len(layers)} hold")


def _shown(name: str, layer: Mapping[str, Any]) -> str:
    detail = f": {layer['detail']}" if layer.get("detail") else ""
    return f"{name} {layer['state']} (kept by {layer['kept_by']}){detail}"
