"""What must be there before a run: Kubeflow Pipelines, namespace, accounts and rights, Secrets, quota, the sandbox.

Everything here is read through the API server; what only a pod can see is in `probes`.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cli.cluster import Cluster, Forbidden, Object, Refused
from cli.doctor.capacity import name_of, place_findings
from cli.doctor.finding import Finding, fail, ok, skipped, warn
from cli.doctor.needs import needs_of, step_pod
from cli.doctor.troubles import pod_trouble
from cli.endpoint import Endpoint, NoEntry
from cli.namespaces import PIPELINE_LABEL
from components.shared.store import S3_SETTINGS

OLDEST_KFP = (2, 15)  # optional Secrets; older backends refuse the compiled pipeline
SANDBOX_SECRET, SANDBOX_KEY = "grpo-code-sandbox", "TOKEN"
# What Argo's executor and KFP's launcher do with the account of a run: (verb, API group, resource, name).
RIGHTS = (
    ("create", "argoproj.io", "workflowtaskresults", ""),
    ("patch", "argoproj.io", "workflowtaskresults", ""),
    ("get", "", "configmaps", "kfp-launcher"),
    ("get", "", "secrets", "mlpipeline-minio-artifact"),
)
OWN_ACCOUNT = "grpo-code-runner"  # made by manifests/base/pipeline
SINGLE_USER_ACCOUNT, PROFILE_ACCOUNT = "pipeline-runner", "default-editor"
LOGIN = (
    f"export KFP_NAMESPACE=PROFILE KFP_TOKEN=$(kubectl create token {PROFILE_ACCOUNT} -n PROFILE --audience=AUDIENCE)"
)


@dataclass(frozen=True)
class Installation:
    """What the doctor looks at. endpoint is None when none is named, and no_endpoint says so."""

    cluster: Cluster
    parameters: Mapping[str, Any]
    images: Mapping[str, str]  # by step
    service_account: str
    pull_secrets: tuple[str, ...] = ()
    endpoint: Endpoint | None = None
    no_endpoint: str = ""

    @property
    def namespace(self) -> str:
        return self.cluster.namespace

    @property
    def sandbox(self) -> tuple[str, str] | None:
        """Service and namespace in sandbox_url, None when it names no Service of a cluster."""
        return service_of(self.parameters["sandbox_url"].split(",")[0])


def service_of(url: str) -> tuple[str, str] | None:
    """`http://sandbox.grpo-code-sandbox:8080` -> ("sandbox", "grpo-code-sandbox"); None for any other host."""
    name, _, rest = (urlsplit(url.strip()).hostname or "").partition(".")
    namespace, _, domain = rest.partition(".")
    inside = domain in ("", "svc") or domain.startswith("svc.")
    return (name, namespace) if namespace and inside and not namespace.isdigit() else None


def kfp_findings(place: Installation) -> Iterator[Finding]:
    """Whether the API of Kubeflow Pipelines answers, and is new enough."""
    if place.endpoint is None:
        yield fail("kfp", place.no_endpoint.rstrip("."), "kubectl port-forward -n kubeflow svc/ml-pipeline-ui 8080:80")
        return
    try:
        health = place.endpoint.health
        if health.multi_user:
            place.endpoint.check_profile()
    except NoEntry as error:
        yield fail("kfp", str(error).rstrip("."), LOGIN)
        return
    numbers = tuple(int(number) for number in re.findall(r"\d+", health.version)[:2])
    seen = f"version {health.version or 'unknown'} at {place.endpoint.url}"
    needed = ".".join(map(str, OLDEST_KFP))
    if not numbers:
        yield warn("kfp", f"{seen}: {needed} or newer is needed", "kubectl get deploy -n kubeflow ml-pipeline -o yaml")
    elif numbers < OLDEST_KFP:
        yield fail("kfp", f"{seen} is older than {needed}", "upgrade Kubeflow Pipelines to 2.17")
    else:
        yield ok("kfp", f"{seen}, for the profile {place.endpoint.namespace}" if health.multi_user else seen)


def namespace_findings(place: Installation) -> Iterator[Finding]:
    """Whether the runs' namespace exists and may use the sandbox."""
    check, name = "namespace", place.namespace
    found = place.cluster.get("namespaces", name)
    if found is None:
        yield fail(check, f"there is no namespace {name}", f"kubectl create namespace {name}  # or another --namespace")
    elif (found["metadata"].get("labels") or {}).get(PIPELINE_LABEL) != "true":
        seen = f"{name} lacks the label {PIPELINE_LABEL}=true, so the sandbox lets none of its pods in"
        yield fail(check, seen, f"kubectl label namespace {name} {PIPELINE_LABEL}=true")
    else:
        yield ok(check, f"{name} is labelled {PIPELINE_LABEL}=true")


def account_findings(place: Installation) -> Iterator[Finding]:
    """Whether the account that runs use exists and may do what KFP does in its name."""
    check, account, space = "rbac", place.service_account, place.namespace
    if place.cluster.get("serviceaccounts", account) is None:
        mend = f"kubectl create serviceaccount -n {space} {account}  # or another --service-account"
        yield fail(check, f"there is no ServiceAccount {account} in {space}", mend)
        return
    user = f"system:serviceaccount:{space}:{account}"
    refused = []
    for verb, group, resource, name in RIGHTS:
        asked = {"namespace": space, "verb": verb, "group": group, "resource": resource, "name": name}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": _groups(space), "resourceAttributes": asked},
        }
        answer = place.cluster.create("subjectaccessreviews", body)
        if not answer["status"].get("allowed"):
            refused.append(f"{verb} {resource}{'.' + group if group else ''}{'/' + name if name else ''}")
    if refused:
        own = f"make deploy NAMESPACE={space} and --service-account {OWN_ACCOUNT}, or give {account} KFP's role"
        mend = f"{own}; then: kubectl auth can-i {refused[0]} -n {space} --as={user}"
        yield fail(check, f"{account} may not {', '.join(refused)} in {space}", mend)
    else:
        yield ok(check, f"{account} may do what KFP does in its name")


def _groups(namespace: str) -> list[str]:
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


def secret_findings(place: Installation) -> Iterator[Finding]:
    """Whether the Secrets and their keys are there; their values are never shown."""
    space, given = place.namespace, place.parameters
    try:
        store = place.cluster.get("secrets", given["store_secret"])
        token, hub = (
            place.cluster.get("secrets", given["sandbox_secret"]),
            place.cluster.get("secrets", given["hf_secret"]),
        )
    except Forbidden as error:
        yield skipped("secrets", str(error), f"kubectl auth can-i get secrets -n {space}")
        return
    yield _store_secret(store, given["store_secret"], space)
    yield from _sandbox_secret(place, token)
    if hub is None or not _value(hub, "HF_TOKEN"):
        yield ok("secret hub", f"no Secret {given['hf_secret']} with HF_TOKEN: public models only")
    else:
        yield ok("secret hub", f"{given['hf_secret']} has HF_TOKEN")


def _store_secret(secret: Object | None, name: str, space: str) -> Finding:
    missing = [key for key in S3_SETTINGS if not _value(secret, key)]
    if not missing:
        return ok("secret store", f"{name} has {', '.join(S3_SETTINGS)}")
    literals = " ".join(f"--from-literal={key}=…" for key in S3_SETTINGS)
    create = f"kubectl create secret generic {name} -n {space} {literals}"
    if secret is None:
        return fail("secret store", f"there is no Secret {name} in {space}", create)
    mend = f"kubectl delete secret {name} -n {space} && {create}"
    return fail("secret store", f"the Secret {name} in {space} lacks {', '.join(missing)}", mend)


def _sandbox_secret(place: Installation, secret: Object | None) -> Iterator[Finding]:
    """The token must be there, and be the one that the sandbox asks for."""
    check, name, space = "secret sandbox", place.parameters["sandbox_secret"], place.namespace
    if place.sandbox is None:
        yield skipped(check, "the sandbox is not one of this cluster's Services")
        return
    theirs = place.cluster.get("secrets", SANDBOX_SECRET, namespace=place.sandbox[1])
    wanted, given = _value(theirs, SANDBOX_KEY), _value(secret, SANDBOX_KEY)
    copy = (
        f"kubectl get secret {SANDBOX_SECRET} -n {place.sandbox[1]} -o json | jq '.metadata = "
        f'{{"name": "{name}", "namespace": "{space}"}}\' | kubectl apply -f -'
    )
    if not wanted:
        yield fail(check, f"{place.sandbox[1]} has no Secret {SANDBOX_SECRET} with {SANDBOX_KEY}", "make deploy")
    elif not given:
        yield fail(check, f"there is no Secret {name} with {SANDBOX_KEY} in {space}", copy)
    elif given != wanted:
        yield fail(check, f"{name} in {space} holds another token than the sandbox's own", copy)
    else:
        yield ok(check, f"{name} holds the sandbox's token")


def _value(secret: Object | None, key: str) -> bytes:
    return base64.b64decode((secret or {}).get("data", {}).get(key) or "")


def capacity_findings(place: Installation) -> Iterator[Finding]:
    """For each kind of step: would the API server take its pod, and would a node."""
    nodes = place.cluster.list("nodes")
    pods = place.cluster.list("pods", everywhere=True)
    for need in needs_of(place.parameters):
        check = f"{need.step} admission"
        try:
            body = step_pod(need, place.images[need.step.split("+")[0]], place.namespace, place.service_account)
            taken = place.cluster.create("pods", body, dry_run=True)
        except Forbidden as error:
            yield skipped(check, str(error), f"kubectl auth can-i create pods -n {place.namespace}")
            taken = body
        except Refused as error:
            mend = f"kubectl describe quota,limitrange -n {place.namespace}"
            yield fail(check, f"its pod would be refused: {error.message}", mend)
            taken = body
        else:
            yield ok(check, f"quota and policies of {place.namespace} let its pod in")
        # admission may have added tolerations, as clouds do for their GPUs
        tolerations = taken["spec"].get("tolerations") or []
        yield from place_findings(need.tolerating(tolerations), nodes, pods)


def selected_pods(cluster: Cluster, service: Object | None, namespace: str) -> list[Object] | None:
    """The pods that a Service selects; None when there is no Service, or when it selects none by labels."""
    selector = ((service or {}).get("spec") or {}).get("selector") or {}
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    return cluster.list("pods", namespace=namespace, labelSelector=labels) if labels else None


def sandbox_findings(place: Installation) -> Iterator[Finding]:
    """Whether the sandbox's pods are ready and held by policies, as far as the API server knows."""
    if place.sandbox is None:
        yield skipped("sandbox pods", f"{place.parameters['sandbox_url']} is not one of this cluster's Services")
        return
    service, space = place.sandbox
    found = place.cluster.get("services", service, namespace=space)
    pods = selected_pods(place.cluster, found, space)
    if pods is None:
        what = f"there is no Service {service} in {space}" if found is None else f"Service {service} selects no pods"
        yield fail("sandbox pods", what, "make deploy")
        return
    ready = [pod for pod in pods if is_ready(pod)]
    see = f"kubectl get pods,events -n {space}"
    if ready:
        yield (ok if len(ready) == len(pods) else warn)("sandbox pods", f"{len(ready)} of {len(pods)} ready")
    elif pods:
        trouble = pod_trouble(pods[0], place.cluster.list("events", namespace=space))
        said = trouble.what if trouble else "not ready"
        yield fail("sandbox pods", f"none of {len(pods)} is ready: {name_of(pods[0])}: {said}", see)
    else:
        yield fail("sandbox pods", f"Service {service} in {space} has no pods", see)
    yield _policy(place.cluster.list("networkpolicies", namespace=space), space)


def is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _policy(policies: list[Object], space: str) -> Finding:
    """Whether one policy holds every pod of a namespace in both directions, and no other lets all out."""
    check, denied = "sandbox policy", set[str]()
    for policy in policies:
        spec = policy["spec"]
        if not spec.get("podSelector"):
            denied |= {kind for kind in spec.get("policyTypes") or [] if not spec.get(kind.lower())}
        if spec.get("egress"):
            mend = f"kubectl delete networkpolicy {name_of(policy)} -n {space}"
            return fail(check, f"NetworkPolicy {name_of(policy)} in {space} lets judged programs out", mend)
    missing = sorted({"Ingress", "Egress"} - denied)
    if missing:
        return fail(
            check, f"no NetworkPolicy in {space} denies {' and '.join(missing).lower()} to all pods", "make deploy"
        )
    return ok(check, f"every pod in {space} is denied ingress and egress by default")
