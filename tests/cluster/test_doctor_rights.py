"""The doctor of somebody with few rights, and of somebody whose cluster is away: what it may not see is no fault."""

import subprocess

import pytest
import yaml

from tests.cluster.doctoring import command
from tests.cluster.installation import findings_of

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "create", "delete"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events", "serviceaccounts"], "verbs": ["get", "list"]},
]


@pytest.fixture
def colleague(cluster, installed, tmp_path) -> str:
    """The kubeconfig of an account that may start pods in the runs' namespace and see little else."""
    space, _ = installed
    metadata = {"name": "colleague", "namespace": space}
    group = "rbac.authorization.k8s.io"
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": RULES},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "colleague"},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        },
    )
    token = cluster.kubectl("create", "token", "colleague", "-n", space).strip()
    configuration = yaml.safe_load(cluster.kubectl("config", "view", "--raw", "--minify", "--flatten"))
    configuration["users"] = [{"name": configuration["users"][0]["name"], "user": {"token": token}}]
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(configuration))
    return str(file)


def test_what_one_may_not_look_at_is_skipped(cluster, installed, colleague):
    line, environment = command(cluster, *installed)
    done = subprocess.run(line, env={**environment, "KUBECONFIG": colleague}, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    findings = findings_of(done.stdout)
    for check in ("namespace", "rbac", "secrets", "capacity", "sandbox pods"):
        (found,) = findings[check]
        assert found["state"] == "skipped", found
        assert "You may not do this on the cluster" in found["seen"]
        assert "colleague" in found["seen"]
    for check in ("store", "sandbox", "image train"):  # what its probes see needs no rights of its own
        assert findings[check][0]["state"] == "ok", findings[check]
    assert findings["policy out"][0]["state"] == "skipped"


def test_a_cluster_that_does_not_answer(cluster, installed, tmp_path, free_port):
    configuration = yaml.safe_load(cluster.kubectl("config", "view", "--raw", "--minify", "--flatten"))
    configuration["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_port}"
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(configuration))
    line, environment = command(cluster, *installed)
    done = subprocess.run(line, env={**environment, "KUBECONFIG": str(file)}, capture_output=True, text=True)
    assert done.returncode == 1
    (found,) = findings_of(done.stdout)["namespace"]
    assert found["state"] == "FAIL"
    assert "does not answer" in found["seen"]
    assert found["mend"] == "kubectl cluster-info"
