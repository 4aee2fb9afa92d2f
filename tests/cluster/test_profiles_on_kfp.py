"""The verbs on a real Kubeflow Pipelines for several users: in a profile, and where a user has no place or no token.

Behind a gateway as Kubeflow has one (gateway.py). Nothing is deployed in the profiles, so that a run there ends with
its first step.
"""

import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from cli.uploading import DEMO_PODS
from components.pods import RUN_LABEL
from tests.cluster.cluster import ROOT, Cluster, eventually, forwarded
from tests.cluster.conftest import Images
from tests.cluster.gateways import ISTIO, gateway_to_kfp
from tests.cluster.kfp_place import as_options
from tests.cluster.profile import EDITOR, SECRET, profile_of_its_own, token_of
from tests.kfp_at_hand import for_several_users

pytestmark = [pytest.mark.kfp, pytest.mark.cluster, pytest.mark.timeout(900)]
RUN = ["--model-name", "s3://no-store/model", "--dataset", "s3://no-store/problems", "--regression-dataset", ""]
RUN += as_options(DEMO_PODS)
NEEDS_A_NAMESPACE = "serves several users: name your profile's namespace with --namespace or KFP_NAMESPACE"
SECONDS_TO_END = 300.0


@dataclass
class Users:
    """Two profiles of one KFP. `ran` is a verb as the user of the first would run it, with variables changed."""

    cluster: Cluster
    mine: str
    other: str
    environment: dict[str, str] = field(repr=False)

    def ran(self, *words: str, code: int = 0, **changed: str) -> str:
        """What a verb prints, both streams; AssertionError when it ends with another exit code."""
        command = [sys.executable, "pipeline.py", *words]
        environment = {**self.environment, **changed}
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300)
        said = done.stdout + done.stderr
        assert done.returncode == code, f"{' '.join(words)}: exit code {done.returncode}\n{said}"
        return said


@pytest.fixture(scope="module")
def users(cluster: Cluster, images: Images, python_image: str, tmp_path_factory) -> Iterator[Users]:
    for_several_users()
    with (
        profile_of_its_own(cluster) as mine,
        profile_of_its_own(cluster) as other,
        gateway_to_kfp(cluster, python_image, tmp_path_factory.mktemp("tls"), **ISTIO) as (space, authority),
        forwarded(cluster, space, "gateway", 443) as port,
    ):
        own = {key: value for key, value in cluster.environment.items() if not key.startswith(("KFP_", "S3_", "GRPO_"))}
        own |= {"KFP_ENDPOINT": f"https://localhost:{port}/pipeline", "KFP_CA_CERT": str(authority)}
        own |= {"KFP_NAMESPACE": mine, "KFP_TOKEN": token_of(cluster, mine)}
        own |= {"REGISTRY": images.registry, "TAG": images.tag}
        yield Users(cluster, mine, other, own)


def test_a_profile_has_its_own_pipeline_and_one_version_of_it(users: Users) -> None:
    first, again = users.ran("upload"), users.ran("upload")
    assert first.startswith("Uploaded grpo-code, version ")
    assert again == first.replace("Uploaded", "There already:")
    theirs = users.ran("upload", KFP_NAMESPACE=users.other, KFP_TOKEN=token_of(users.cluster, users.other))
    assert theirs.startswith("Uploaded grpo-code, version ")
    assert theirs.splitlines()[1] != first.splitlines()[1], "a pipeline of another profile is another"


@pytest.mark.parametrize(
    "words",
    [("upload",), ("run", *RUN), ("schedule", "list"), ("schedule", "create", "--cron", "1 2 * * *", *RUN)],
    ids=lambda words: " ".join(words[:2]),
)
def test_who_is_not_let_in_is_told_in_a_sentence(users: Users, words: tuple[str, ...]) -> None:
    assert users.ran(*words, code=2, KFP_NAMESPACE="").splitlines()[-1].endswith(f"{NEEDS_A_NAMESPACE}.")
    foreign = users.ran(*words, code=2, KFP_NAMESPACE=users.other).splitlines()[-1]
    assert f" does not let system:serviceaccount:{users.mine}:{EDITOR} list " in foreign
    assert f" in namespace {users.other}: name the namespace of a profile of yours with --namespace" in foreign
    assert "asks for a login (HTTP 401" in users.ran(*words, code=2, KFP_TOKEN="").splitlines()[-1]
    for another in ("no-token", users.cluster.kubectl("create", "token", EDITOR, "-n", users.mine).strip()):
        assert "does not accept this token (HTTP 401" in users.ran(*words, code=2, KFP_TOKEN=another).splitlines()[-1]


def test_the_doctor_says_whether_the_profile_is_the_tokens(users: Users) -> None:
    asked = ("doctor", "--no-probe", "--gpus", "0")
    (seen, *_) = users.ran(*asked, code=1).splitlines()
    assert seen.startswith("ok      kfp: version ")
    assert seen.endswith(f", for the profile {users.mine}")
    for changed, words in (
        ({"KFP_NAMESPACE": ""}, NEEDS_A_NAMESPACE),
        ({"KFP_NAMESPACE": users.other}, f"list runs in namespace {users.other}"),
        ({"KFP_TOKEN": "no-token"}, "does not accept this token"),
    ):
        (seen, *_) = users.ran(*asked, code=1, **changed).splitlines()
        assert seen.startswith("FAIL    kfp: ")
        assert words in seen
        assert "-> export KFP_NAMESPACE=PROFILE KFP_TOKEN=$(kubectl create token" in seen


def test_a_schedule_from_its_making_to_its_end(users: Users) -> None:
    made = users.ran("schedule", "create", "--name", "nightly", "--cron", "30 2 * * *", *RUN)
    schedule = made.split("Created schedule ")[1].split(":")[0]
    theirs = {"KFP_NAMESPACE": users.other, "KFP_TOKEN": token_of(users.cluster, users.other)}
    assert f"{schedule}  enabled   nightly  At 02:30 every day" in users.ran("schedule", "list")
    assert users.ran("schedule", "list", **theirs) == "There are no schedules.\n"
    for verb, right in (("disable", "disable"), ("delete", "delete")):
        refused = users.ran("schedule", verb, schedule, code=2, **theirs)
        assert f"{EDITOR} {right} recurring runs in namespace {users.mine}" in refused
    users.ran("schedule", "disable", schedule)
    assert f"{schedule}  disabled  nightly" in users.ran("schedule", "list")
    users.ran("schedule", "delete", schedule)
    assert users.ran("schedule", "list") == "There are no schedules.\n"


def test_a_run_and_its_logs_when_its_pods_are_gone(users: Users) -> None:
    """The archive of a profile's logs is a place of its own, which its ConfigMap kfp-launcher names."""
    run = users.ran("run", *RUN).split("Started run ")[1].split()[0]
    assert "The run failed" in users.ran("watch", run, code=1)
    assert users.ran("doctor", "--run", run, code=1).startswith("FAIL    run: check: ")
    theirs = {"KFP_NAMESPACE": users.other, "KFP_TOKEN": token_of(users.cluster, users.other)}
    for verb in ("watch", "logs"):
        assert f"get runs in namespace {users.mine}" in users.ran(verb, run, code=2, **theirs)
    nobody = users.ran("doctor", "--run", run, code=1, **{**theirs, "KFP_TOKEN": "no-token"})
    assert f"nothing is known of a run {run}, and KFP cannot be asked: " in nobody
    printed = users.ran("logs", run, "check")
    assert printed.startswith("==> check (grpo-code-")
    users.cluster.kubectl("delete", "pods", "-n", users.mine, "-l", f"{RUN_LABEL}={run}", "--grace-period=0", "--force")
    theirs = users.cluster.get("-n", "kubeflow", "secret", SECRET)["data"]
    keys = {f"S3_{kind.upper()}_KEY": b64decode(theirs[f"{kind}key"]).decode() for kind in ("access", "secret")}
    with forwarded(users.cluster, "kubeflow", "seaweedfs", 9000) as port:
        store = {"S3_ENDPOINT": f"localhost:{port}", "S3_SECURE": "false", **keys}
        archived = eventually(lambda: users.ran("logs", run, "check", **store), "archived logs", SECONDS_TO_END)
    assert archived.startswith(
        f"==> check (from s3://mlpipeline/private-artifacts/{users.mine}/v2/artifacts/grpo-code/"
    )
