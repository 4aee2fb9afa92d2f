"""Why a run is stuck or failed, in one sentence, from what Kubernetes, Argo and KFP say of it. Pure functions.

`pod_trouble` reads one pod; `diagnose` weighs all that is known of a run. Objects are plain JSON, so that real ones can
be kept and tried again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cli.cluster import Object
from cli.doctor.argo import ended_trouble, refusal_trouble
from cli.doctor.finding import Finding, fail, ok, warn
from cli.doctor.seen import Trouble, step_of
from cli.doctor.troubles import pod_trouble
from components.pods import RUN_LABEL
from components.shared.run import resume_command

OVER = {"Succeeded": "SUCCEEDED", "Failed": "FAILED", "Error": "FAILED"}  # Argo's phases and KFP's word for each
UNDER_WAY = ("PENDING", "RUNNING", "CANCELING")  # KFP's words for a run that has not ended


@dataclass(frozen=True)
class Evidence:
    """What is known of a run. run_state: KFP's word, empty when KFP was not asked, `unknown` when it knows no such run.

    not_asked: why KFP could not be asked, a sentence, where it was tried;
    logs: the last lines of each pod's main container, by the pod's name; failure: what the failed step left in the
    store; workflow: Argo's object, None when it is gone.
    """

    run_id: str
    namespace: str
    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()
    logs: Mapping[str, str] = field(default_factory=dict)
    workflow: Object | None = None
    nodes: Sequence[Object] = ()
    run_state: str = ""
    not_asked: str = ""
    failure: Mapping[str, object] | None = None


def diagnose(evidence: Evidence) -> Finding:
    """One finding named `run`: what holds it up or ended it, and what to do, the resume command included."""
    if not evidence.pods and evidence.workflow is None and evidence.run_state in ("", "unknown"):
        see = f"kubectl get pods -n {evidence.namespace} -L {RUN_LABEL}  # shows whose runs are there; or --namespace"
        why = f", and KFP cannot be asked: {evidence.not_asked.rstrip('.')}" if evidence.not_asked else ""
        return fail("run", f"nothing is known of a run {evidence.run_id}{why}", see)
    phase = str(((evidence.workflow or {}).get("status") or {}).get("phase") or "")
    troubles = _troubles(evidence)
    stale = _stale(evidence, phase)
    if stale and not (troubles and OVER.get(phase) == "FAILED"):
        return stale
    if phase == "Succeeded" or evidence.run_state == "SUCCEEDED":
        return ok("run", f"{evidence.run_id} has succeeded")
    failed = OVER.get(phase) == "FAILED" or evidence.run_state in ("FAILED", "CANCELED")
    if troubles:
        worst = min(troubles, key=lambda trouble: (not trouble.ended if failed else trouble.ended, trouble.rank))
        return _told(evidence, worst, failed)
    if failed:
        return _failed_without_a_pod(evidence)
    return _under_way(evidence)


def _troubles(evidence: Evidence) -> list[Trouble]:
    found = []
    # the oldest first: the last step fails as well where it was the store that the first one wanted
    for pod in sorted(evidence.pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp"))):
        name = str(pod["metadata"]["name"])
        trouble = pod_trouble(pod, evidence.events, evidence.logs.get(name, ""), evidence.nodes, evidence.failure)
        if trouble:
            found.append(trouble)
    refused = refusal_trouble(evidence.workflow)
    return [*found, *([refused] if refused else [])]


def _told(evidence: Evidence, trouble: Trouble, failed: bool) -> Finding:
    mend = trouble.mend
    if trouble.ended or failed:
        mend = f"{mend}; then: {resume_command(evidence.run_id)}" if mend else resume_command(evidence.run_id)
    return fail("run", f"{trouble.step}: {trouble.what}", mend)


def _stale(evidence: Evidence, phase: str) -> Finding | None:
    """KFP's word against Argo's: a run that KFP shows as under way while its workflow is over or gone."""
    if evidence.run_state not in UNDER_WAY:
        return None
    restart = "kubectl rollout restart -n kubeflow deployment/ml-pipeline-persistenceagent"
    if phase in OVER:
        then = "" if phase == "Succeeded" else f"; then: {resume_command(evidence.run_id)}"
        seen = f"KFP shows {evidence.run_state}, but the workflow is {phase}: its persistence agent lags behind"
        return fail("run", seen, restart + then)
    if evidence.workflow is None and not evidence.pods:
        seen = f"KFP shows {evidence.run_state}, but there is neither a workflow nor a pod of it"
        # KFP cannot end such a run: terminating it fails, and leaves it CANCELING for ever
        return fail("run", seen, f"kfp run archive {evidence.run_id}; then: {resume_command(evidence.run_id)}")
    return None


def _failed_without_a_pod(evidence: Evidence) -> Finding:
    """The pods are gone or say nothing: the step's own words in the store, then the workflow's."""
    if evidence.failure:
        step, message = evidence.failure.get("step"), str(evidence.failure.get("message", "")).rstrip(".")
        return fail("run", f"{step}: {message}", resume_command(evidence.run_id))
    ended = ended_trouble(evidence.workflow)
    if ended:
        return _told(evidence, ended, failed=True)
    status = (evidence.workflow or {}).get("status") or {}
    seen = str(status.get("message") or "its pods are gone, and nothing says why")
    return fail("run", f"{evidence.run_id} failed: {seen.rstrip('.')}", resume_command(evidence.run_id))


def _under_way(evidence: Evidence) -> Finding:
    running = [pod for pod in evidence.pods if pod["status"].get("phase") == "Running"]
    if running:
        steps = ", ".join(sorted({step_of(pod) for pod in running}))
        return ok("run", f"{evidence.run_id} is under way: {steps}")
    if evidence.workflow is not None and not (evidence.workflow.get("status") or {}).get("phase"):
        see = "kubectl get pods -n kubeflow -l app=workflow-controller"
        return warn("run", f"{evidence.run_id} has not begun: Argo's controller has not taken up its workflow", see)
    mend = f"kubectl get workflows,pods,events -n {evidence.namespace}"
    return warn("run", f"{evidence.run_id} has no running pod, and nothing holds it up that could be seen", mend)
