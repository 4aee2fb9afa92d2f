"""What the manifests say: the sandbox's hardening, who may talk to whom, no secrets; and that every overlay builds."""

import json
import re
from typing import Any

import pytest
import yaml

from tests.manifests import schema
from tests.manifests.rendering import COMPONENTS, MANIFESTS, OVERLAYS, Objects, base, built, one, overlay, rendered

SANDBOX, OWN = "grpo-code-sandbox", "grpo-code"
WORKLOADS = ("Deployment", "Job")


def pod_specs(objects: Objects) -> list[dict[str, Any]]:
    return [thing["spec"]["template"]["spec"] for thing in objects if thing["kind"] in WORKLOADS]


def sandbox_arguments(objects: Objects) -> list[str]:
    arguments: list[str] = one(objects, "Deployment", "sandbox")["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments


def test_all_overlays_are_there() -> None:
    assert OVERLAYS == ["gvisor", "kubeflow-multiuser", "local", "minio", "monitoring", "seaweedfs"]
    assert set(OVERLAYS) < set(COMPONENTS)


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_builds_and_is_what_the_schemas_say(name: str) -> None:
    objects = overlay(name)
    assert len(objects) > 15
    for thing in objects:
        assert schema.check(thing) == []


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_fits_on_the_base(name: str, tmp_path: Any) -> None:
    where = MANIFESTS.parent / "build/tests" / name  # kustomize takes relative paths only
    where.mkdir(parents=True, exist_ok=True)
    kustomization = {"resources": ["../../../manifests/base"], "components": [f"../../../manifests/components/{name}"]}
    (where / "kustomization.yaml").write_text(json.dumps(kustomization))
    for thing in built(where):
        assert schema.check(thing) == []


def test_the_schemas_find_what_is_wrong() -> None:
    deployment = one(base(), "Deployment", "sandbox")
    assert schema.check(deployment) == []
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container["readinessprobe"] = container.pop("readinessProbe")
    container["ports"][0]["containerPort"] = "8080"
    del deployment["spec"]["selector"]
    found = " ".join(schema.check(deployment))
    for text in ("readinessprobe does not exist", "containerPort is '8080'", "selector"):
        assert text in found


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_pod_is_hardened_in_every_overlay(name: str) -> None:
    specs = pod_specs(overlay(name))
    assert specs
    for spec in specs:
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & set(spec)
        for container in spec["containers"] + spec.get("initContainers", []):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert {"cpu", "memory"} <= set(container["resources"]["limits"])
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])


@pytest.mark.parametrize("name", OVERLAYS)
def test_pods_beside_the_sandbox_are_what_its_admission_policy_asks_for(name: str) -> None:
    """What it is beyond the test above, which holds for the pods of every namespace."""
    workloads = [thing for thing in overlay(name) if thing["kind"] in WORKLOADS]
    specs = pod_specs([thing for thing in workloads if thing["metadata"]["namespace"] == SANDBOX])
    assert specs
    for spec in specs:
        assert (spec["dnsPolicy"], spec["dnsConfig"]) == ("None", {"nameservers": ["127.0.0.1"]})
        assert spec["securityContext"]["runAsGroup"] > 0
        for volume in spec["volumes"]:
            assert volume["emptyDir"]["medium"] == "Memory"
            assert memory(volume["emptyDir"]["sizeLimit"]) > 0
        assert all("ephemeral-storage" in container["resources"]["limits"] for container in spec["containers"])


def test_the_admission_policy_holds_whatever_makes_pods_beside_the_sandbox() -> None:
    policy = one(base(), "ValidatingAdmissionPolicy", "grpo-code-sandbox")["spec"]
    held = {kind for rule in policy["matchConstraints"]["resourceRules"] for kind in rule["resources"]}
    assert held == {"pods", "deployments", "replicasets", "statefulsets", "daemonsets", "jobs"}
    assert policy["failurePolicy"] == "Fail"
    binding = one(base(), "ValidatingAdmissionPolicyBinding", "grpo-code-sandbox")["spec"]
    assert (binding["policyName"], binding["validationActions"]) == ("grpo-code-sandbox", ["Deny"])
    assert binding["matchResources"] == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SANDBOX}}}


def memory(text: str) -> float:
    match = re.fullmatch(r"(\d+)(Mi|Gi)", text)
    assert match
    return int(match[1]) * {"Mi": 1, "Gi": 1024}[match[2]]


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_memory_limit_has_room_for_the_worst_case(name: str) -> None:
    spec = one(overlay(name), "Deployment", "sandbox")["spec"]["template"]["spec"]
    arguments = dict(argument.removeprefix("--").split("=", 1) for argument in spec["containers"][0]["args"])
    limits = spec["containers"][0]["resources"]["limits"]
    programs = 2 * int(arguments["workers"]) * int(arguments["memory-mib"])
    scratch = memory(spec["volumes"][0]["emptyDir"]["sizeLimit"])
    assert memory(limits["memory"]) >= programs + scratch + 256
    assert int(limits["cpu"]) == int(arguments["workers"])
    assert scratch >= 64 * int(arguments["workers"])


def test_the_sandbox_has_time_to_finish_and_waits_for_its_policies() -> None:
    spec = one(base(), "Deployment", "sandbox")["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert "--must-not-reach=$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)" in container["args"]
    grace = next(int(text.split("=")[1]) for text in container["args"] if text.startswith("--grace="))
    assert spec["terminationGracePeriodSeconds"] > container["lifecycle"]["preStop"]["sleep"]["seconds"] + grace + 5
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/healthz", "readiness": "/readyz", "liveness": "/healthz"}
    assert container["env"] == [
        {"name": "SANDBOX_TOKEN", "valueFrom": {"secretKeyRef": {"name": "grpo-code-sandbox", "key": "TOKEN"}}}
    ]


def test_the_pipelines_name_for_the_sandbox_finds_every_replica() -> None:
    assert one(base(), "Service", "sandbox")["spec"]["clusterIP"] == "None"
    assert "clusterIP" not in one(base(), "Service", "sandbox-balanced")["spec"]
    for name in ("sandbox", "sandbox-balanced"):
        ports = {port["name"]: port for port in one(base(), "Service", name)["spec"]["ports"]}
        assert ports["http"]["port"] == 8080


@pytest.mark.parametrize("namespace", [SANDBOX, OWN])
def test_everything_is_denied_by_default(namespace: str) -> None:
    spec = one(base(), "NetworkPolicy", "deny-all", namespace)["spec"]
    assert spec == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_one_rule_lets_clients_into_the_sandbox_and_none_lets_anything_out() -> None:
    policies = [thing for thing in base() if thing["kind"] == "NetworkPolicy"]
    policies = [thing for thing in policies if thing["metadata"].get("namespace") == SANDBOX]
    assert {thing["metadata"]["name"] for thing in policies} == {"deny-all", "sandbox-clients"}
    assert not any("egress" in thing["spec"] for thing in policies)
    rules = [rule for thing in policies for rule in thing["spec"].get("ingress", [])]
    peer = {
        "namespaceSelector": {"matchLabels": {"grpo-code/pipeline": "true"}},
        "podSelector": {"matchLabels": {"grpo-code/sandbox-client": "true"}},
    }
    assert rules == [{"from": [peer], "ports": [{"protocol": "TCP", "port": 8080}]}]  # one peer with both: AND, not OR


def test_only_scrapes_come_in_besides_and_only_with_monitoring() -> None:
    policies = [thing for thing in overlay("monitoring") if thing["kind"] == "NetworkPolicy"]
    ports = {thing["metadata"]["name"]: thing["spec"]["ingress"][0]["ports"] for thing in policies
             if thing["metadata"]["namespace"] == SANDBOX and "ingress" in thing["spec"]}  # fmt: skip
    assert [port["port"] for port in ports["sandbox-metrics"]] == [9090]
    assert set(ports) == {"sandbox-clients", "sandbox-metrics"}


def test_each_label_of_a_step_allows_what_it_is_for() -> None:
    selected = {
        thing["metadata"]["name"]: thing["spec"]["podSelector"].get("matchLabels")
        for thing in base()
        if thing["kind"] == "NetworkPolicy" and "namespace" not in thing["metadata"]
    }
    assert selected == {
        "grpo-code-steps": {"app.kubernetes.io/part-of": "grpo-code"},
        "grpo-code-sandbox-clients": {"grpo-code/sandbox-client": "true"},
        "grpo-code-hub": {"grpo-code/hub-client": "true"},
    }


def test_steps_reach_no_public_address_without_the_hub_label() -> None:
    for thing in overlay("minio"):
        if thing["kind"] == "NetworkPolicy" and thing["metadata"]["name"] != "grpo-code-hub":
            for rule in thing["spec"].get("egress", []):
                assert rule["to"], f"{thing['metadata']['name']} lets everything out"
                assert "0.0.0.0/0" not in json.dumps(rule)
    hub = one(base(), "NetworkPolicy", "grpo-code-hub")["spec"]
    assert hub["podSelector"] == {"matchLabels": {"grpo-code/hub-client": "true"}}
    assert "169.254.0.0/16" in hub["egress"][0]["to"][0]["ipBlock"]["except"]  # where clouds keep credentials


@pytest.mark.parametrize("namespace", [SANDBOX, OWN])
def test_namespaces_are_guarded_and_bounded(namespace: str) -> None:
    labels = one(base(), "Namespace", namespace)["metadata"]["labels"]
    enforced = labels["pod-security.kubernetes.io/enforce"]
    assert enforced == ("restricted" if namespace == SANDBOX else "baseline")
    assert labels["pod-security.kubernetes.io/warn"] == labels["pod-security.kubernetes.io/audit"] == "restricted"
    assert (labels.get("grpo-code/pipeline") == "true") == (namespace == OWN)
    assert one(base(), "ServiceAccount", "default", namespace)["automountServiceAccountToken"] is False
    kinds = {thing["kind"] for thing in base() if thing["metadata"].get("namespace") == namespace}
    assert {"ResourceQuota", "LimitRange"} <= kinds


def test_the_runs_account_may_do_little() -> None:
    rules = one(base(), "Role", "grpo-code-runner")["rules"]
    for rule in rules:
        assert "*" not in json.dumps(rule)
        assert rule["resources"] not in (["secrets"], ["configmaps"]) or rule["resourceNames"]
    assert not [thing for thing in base() if thing["kind"].startswith("ClusterRole")]


def test_no_secret_and_no_token_is_in_any_file() -> None:
    files = [path for path in MANIFESTS.rglob("*") if path.is_file()]
    assert len(files) > 30
    for path in files:
        if path.suffix == ".yaml":
            kinds = [thing.get("kind") for thing in yaml.safe_load_all(path.read_text()) if thing]
            assert "Secret" not in kinds, path
        assert "secretGenerator" not in path.read_text()
        assert not re.search(r":latest\b", path.read_text()), path


def test_gvisor_and_site_packages_tell_the_sandbox() -> None:
    gvisor = overlay("gvisor")
    assert sandbox_arguments(gvisor)[-1] == "--runtime=gvisor"
    spec = one(gvisor, "Deployment", "sandbox")["spec"]["template"]["spec"]
    assert spec["runtimeClassName"] == one(gvisor, "RuntimeClass", "grpo-code-gvisor")["metadata"]["name"]


def test_istio_leaves_the_sandbox_alone_on_kubeflow() -> None:
    objects = overlay("kubeflow-multiuser")
    template = one(objects, "Deployment", "sandbox")["spec"]["template"]
    assert template["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
    assert one(objects, "Namespace", SANDBOX)["metadata"]["labels"]["istio-injection"] == "disabled"
    assert [thing["metadata"]["name"] for thing in objects if thing["kind"] == "Namespace"] == [SANDBOX]


def test_deploy_renders_images_overlays_and_the_runs_namespace() -> None:
    done = rendered(REGISTRY="registry.example/me", TAG="1.2.3", OVERLAY="local, minio", NAMESPACE="team-a")
    assert done.returncode == 0, done.stderr
    objects = list(yaml.safe_load_all(done.stdout))
    images = {container["image"] for spec in pod_specs(objects) for container in spec["containers"]}
    assert {"registry.example/me/grpo-code-sandbox:1.2.3", "registry.example/me/grpo-code-prepare:1.2.3"} < images
    assert all(re.search(r"[:@](?!latest)[\w.:-]+$", image) for image in images)
    places = {thing["metadata"].get("namespace") for thing in objects}
    assert places == {SANDBOX, "grpo-code-store", "team-a", None}
    assert OWN not in {thing["metadata"]["name"] for thing in objects if thing["kind"] == "Namespace"}
    assert one(objects, "NetworkPolicy", "grpo-code-minio")["metadata"]["namespace"] == "team-a"


def test_in_a_namespace_that_others_use_no_policy_selects_their_pods() -> None:
    """KFP's own pods, above all: a policy for egress that selects them cuts KFP off from its database."""
    everything = ",".join(set(COMPONENTS) - {"gvisor", "site-packages"})
    done = rendered(TAG="1", OVERLAY=everything, NAMESPACE="kubeflow")
    assert done.returncode == 0, done.stderr
    shared = [thing for thing in yaml.safe_load_all(done.stdout) if thing["metadata"].get("namespace") == "kubeflow"]
    policies = {each["metadata"]["name"]: each["spec"] for each in shared if each["kind"] == "NetworkPolicy"}
    assert {"grpo-code-steps", "grpo-code-minio", "grpo-code-external-store"} < set(policies)
    for name, spec in policies.items():
        own = {"app.kubernetes.io/part-of", "grpo-code/sandbox-client", "grpo-code/hub-client"}
        if "Egress" in spec["policyTypes"]:
            assert set(spec["podSelector"].get("matchLabels", {})) & own, f"{name} selects pods that are not ours"
        assert spec["podSelector"], f"{name} selects all pods"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"OVERLAY": "loca"}, "There is no overlay 'loca': use one or more of"),
        ({"OVERLAY": "kubeflow-multiuser"}, "NAMESPACE is not set: with kubeflow-multiuser it is the profile's"),
        ({"TAG": "latest"}, "TAG latest says nothing about what is in an image"),
        ({"TAG": "a b"}, "TAG 'a b' is no tag"),
    ],
)
def test_what_cannot_be_deployed_is_refused_in_one_sentence(settings: dict[str, str], sentence: str) -> None:
    done = rendered(**settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
