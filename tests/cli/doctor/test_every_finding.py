"""Every failure and warning of the doctor is provoked once and named: by which test stands here.

A finding that is not in the table, and a test that is not there, fail. A test must be marked `cluster` or `kfp`, or be
among those whose fault lies outside any cluster and is provoked over HTTP; what no test can bring about is said apart.
"""

import ast
import re
from pathlib import Path

import pytest

from tests.cli.doctor.findings import SOURCES, all_findings, fragments

TESTS = Path(__file__).resolve().parent.parent.parent
DOCTOR, READING, RUN = "cluster/test_doctor.py", "cluster/test_doctor_reading.py", "cluster/test_doctor_run.py"
PROBES, LAYERS, KFP = "cluster/test_doctor_probes.py", "cluster/test_doctor_layers.py", "cluster/test_doctor_on_kfp.py"
OUTSIDE = "cli/doctor/test_installation.py"  # against a KFP and a hub that answer over HTTP on this machine
NAMED = f"{RUN}::test_a_trouble_is_named"
IN_TROUBLE = f"{KFP}::test_a_run_in_trouble"
CASES = ("cluster/troubles.py", "cluster/kfp_troubles.py")  # the words that the two above look for

MODULES = {file.stem for file in SOURCES.glob("*.py")}

PROVOKED = {
    # before a run: what the API server knows
    "installation.kfp_findings: place.no_endpoint.rstrip('.')": f"{READING}::test_no_endpoint",
    "installation.kfp_findings: str(error).rstrip('.')": f"{OUTSIDE}::test_a_profile_and_its_token",
    "{}: {} or newer is needed": f"{OUTSIDE}::test_versions_of_kfp",
    "{} is older than {}": f"{OUTSIDE}::test_versions_of_kfp",
    "there is no namespace {}": f"{READING}::test_the_namespace_of_runs",
    "{} lacks the label {}=true, so the sandbox lets none of its pods in": f"{READING}::test_the_namespace_of_runs",
    "there is no ServiceAccount {} in {}": f"{READING}::test_accounts",
    "installation.account_findings: {} may not {} in {}": f"{READING}::test_accounts",
    "there is no Secret {} in {}": f"{READING}::test_secrets",
    "the Secret {} in {} lacks {}": f"{READING}::test_secrets",
    "there is no Secret {} with {} in {}": f"{READING}::test_secrets",
    "{} in {} holds another token than the sandbox's own": f"{READING}::test_secrets",
    "{} has no Secret {} with {}": f"{READING}::test_a_sandbox_of_which_a_part_is_ready_and_that_a_policy_lets_out",
    "its pod would be refused: {}": f"{READING}::test_quota",
    "no node offers {}": f"{READING}::test_nodes",
    "{}: {}; no node has the {} of {}": f"{READING}::test_nodes",
    "no node that could take {} has the labels {}": f"{READING}::test_nodes",
    "no node is large enough for {}: {} has {}": f"{READING}::test_nodes",
    "{} ({} is held by {})": f"{READING}::test_gpus_that_are_taken",
    "{} has {}, which {} does not tolerate": f"{READING}::test_a_tainted_and_a_cordoned_node",
    "{} is cordoned": f"{READING}::test_a_tainted_and_a_cordoned_node",
    "{} is unfit for new pods: {}": f"{READING}::test_a_node_that_is_ill",
    "there is no Service {} in {}": f"{DOCTOR}::test_a_store_out_of_reach_and_no_sandbox",
    "Service {} selects no pods": f"{READING}::test_a_service_that_selects_nothing",
    "Service {} in {} has no pods": f"{READING}::test_a_service_without_pods",
    "none of {} is ready: {}: {}": f"{DOCTOR}::test_a_sandbox_that_reaches_what_it_must_not",
    "installation.sandbox_findings: {} of {} ready": (
        f"{READING}::test_a_sandbox_of_which_a_part_is_ready_and_that_a_policy_lets_out"
    ),
    "no NetworkPolicy in {} denies {} to all pods": f"{DOCTOR}::test_policies_that_are_not_there",
    "NetworkPolicy {} in {} lets judged programs out": (
        f"{READING}::test_a_sandbox_of_which_a_part_is_ready_and_that_a_policy_lets_out"
    ),
    "asked with {}: {}": f"{OUTSIDE}::test_a_gated_model_without_a_token",
    "{} cannot be reached from this machine, so nothing is known of {}": (
        f"{OUTSIDE}::test_a_hub_out_of_reach_is_a_warning_since_the_cluster_may_reach_it"
    ),
    "finding.guarded: str(error).rstrip('.')": "cluster/test_doctor_rights.py::test_a_cluster_that_does_not_answer",
    "no answer within {} s": f"{PROBES}::test_a_kubeflow_pipelines_that_never_answers",
    # before a run: what a pod sees
    "{} pods of a doctor that was killed were removed": (
        f"{PROBES}::test_a_killed_doctors_pods_are_swept_and_that_is_said"
    ),
    "{} cannot be pulled: {}": f"{DOCTOR}::test_images_store_and_token_that_are_wrong",
    "probes.image_finding: {}: {}": f"{PROBES}::test_probes_that_no_node_takes_and_that_the_namespace_refuses",
    "no pod with {} could run: {}": f"{PROBES}::test_probes_that_no_node_takes_and_that_the_namespace_refuses",
    "inside_findings.store_finding: {}: {}": f"{DOCTOR}::test_a_bucket_that_is_not_there",
    "the store {}": f"{PROBES}::test_a_store_that_hangs",
    "probes.model_finding: {}: {}": f"{DOCTOR}::test_images_store_and_token_that_are_wrong",
    "steps that fetch {} from {}: {}": f"{PROBES}::test_a_hub_that_policies_keep_away",
    "{} cannot be reached from {}: {}": f"{DOCTOR}::test_a_store_out_of_reach_and_no_sandbox",
    "{} is not ready: {}": f"{LAYERS}::test_a_required_layer_that_is_missing",
    "{} does not accept the token in {}": f"{DOCTOR}::test_images_store_and_token_that_are_wrong",
    "{} did not pass a right program: {}": f"{PROBES}::test_a_service_that_is_no_sandbox",
    "inside_findings.layer_findings: {}: {}": f"{LAYERS}::test_a_required_layer_that_is_missing",
    "{}: {} (not required of it, on {})": f"{LAYERS}::test_a_layer_left_out_by_request",
    "a pod without the label {} reached {}": f"{DOCTOR}::test_policies_that_are_not_there",
    "a pod in the sandbox's namespace reached {}": f"{DOCTOR}::test_policies_that_are_not_there",
    # a run: one of its pods
    "waits for {} {}, which no node has free": IN_TROUBLE,
    "the image {} cannot be pulled: {}": IN_TROUBLE,
    "the Secret {} does not exist in {}": IN_TROUBLE,
    "killed for using more than its memory limit of {} (OOMKilled)": IN_TROUBLE,
    "killed (SIGKILL), most likely for want of memory": IN_TROUBLE,
    "evicted: {}": IN_TROUBLE,
    "stopped after its time limit of {} s": IN_TROUBLE,
    "its pod would exceed the quota: {}": IN_TROUBLE,
    "diagnosis._told: {}: {}": IN_TROUBLE,
    "troubles.pod_trouble: what.strip().rstrip('.')": IN_TROUBLE,
    "troubles._failed: sentence": IN_TROUBLE,
    "waits for {}, which no node has free": NAMED,
    "no node has the labels {}": NAMED,
    "node {} has {}, which it does not tolerate": NAMED,
    "no node takes it: {}": NAMED,
    "held in a queue that has not admitted it": NAMED,
    "the Secret {} in {} has no key {}": NAMED,
    "troubles._config: {}: {}": NAMED,
    "cannot start: {}": NAMED,
    "its node {} was lost ({})": NAMED,
    "evicted on request, as by a node's drain": NAMED,
    "killed from outside (SIGKILL)": NAMED,
    "stopped from outside (SIGTERM), as when it is deleted": NAMED,
    "ended with exit code {} and no word of its own": NAMED,
    "preempted by a pod of higher priority": f"{RUN}::test_a_pod_that_was_preempted",
    "waits for the sandbox at {}: {}": f"{KFP}::test_the_sandbox_goes_away_in_mid_run",
    "gave up for want of the sandbox: {}": f"{KFP}::test_the_sandbox_goes_away_in_mid_run",
    # a run: its workflow, and KFP's word for it
    "its pod was refused: {}": IN_TROUBLE,
    "stopped from outside (SIGTERM), as by an eviction, a drain or a deletion; its pod is gone": (
        f"{KFP}::test_a_step_that_is_stopped"
    ),
    "killed for want of memory (OOMKilled); its pod is gone": f"{KFP}::test_a_failed_run_whose_pods_are_gone",
    "diagnosis._failed_without_a_pod: {} failed: {}": f"{KFP}::test_a_failed_run_whose_pods_are_gone",
    "diagnosis._failed_without_a_pod: {}: {}": f"{KFP}::test_a_failed_run_whose_pods_are_gone",
    "KFP shows {}, but the workflow is {}: its persistence agent lags behind": (
        f"{KFP}::test_a_persistence_agent_that_is_away"
    ),
    "KFP shows {}, but there is neither a workflow nor a pod of it": f"{KFP}::test_a_run_whose_workflow_was_deleted",
    "{} has not begun: Argo's controller has not taken up its workflow": f"{KFP}::test_a_controller_that_is_away",
    "nothing is known of a run {}{}": f"{KFP}::test_a_run_that_kfp_does_not_know",
}
NOT_PROVOKED = {
    "ended by its node, which was short of something": (
        "a kubelet that evicts says so in the pod's reason as well, which comes first; alone it is a node's shutdown"
    ),
    "disrupted: {}": "a reason that Kubernetes does not have yet",
    "killed from outside (SIGKILL); its pod is gone": "KFP's launcher ends with 1; a container without it is not ours",
    "{} has no running pod, and nothing holds it up that could be seen": (
        "what is left when everything that is known was ruled out"
    ),
    "probes.client_findings: {} {}": "a probe that is cut short has come past the sandbox, whose answers are bounded",
}


def marked(file: Path) -> bool:
    """Whether a module's tests are marked cluster or kfp."""
    text = file.read_text(encoding="utf-8")
    return "pytest.mark.cluster" in text or "pytest.mark.kfp" in text


def test_every_finding_has_its_test():
    assert not set(PROVOKED) & set(NOT_PROVOKED)
    assert all_findings() == set(PROVOKED) | set(NOT_PROVOKED)


@pytest.mark.parametrize("finding", PROVOKED)
def test_the_test_is_there_and_looks_for_the_words(finding):
    name, _, test = PROVOKED[finding].partition("::")
    text = (TESTS / name).read_text(encoding="utf-8")
    assert test in {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    assert name == OUTSIDE or marked(TESTS / name)
    looked_for = text + "".join((TESTS / cases).read_text(encoding="utf-8") for cases in CASES)
    parts = [part for each in fragments(finding) for part in triples(each)]
    computed = finding.partition(":")[0].partition(".")[0] in MODULES
    assert name == OUTSIDE or computed or any(part in plain(looked_for) for part in parts), f"nobody looks for {parts}"


def triples(text: str) -> list[str]:
    """Every three words of a text in a row, or the whole of a shorter one; tests look for parts of sentences."""
    words = plain(text).split()
    return [" ".join(words[start : start + 3]) for start in range(max(1, len(words) - 2))]


def plain(text: str) -> str:
    return re.sub("[,:;()]", "", text)
