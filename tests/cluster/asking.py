"""The deployed sandbox: asking it from a pod of the test's own, and a replica more of it."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from cli.doctor.installation import is_ready
from tests.cluster.cluster import Cluster, eventually
from tests.cluster.conftest import Images
from tests.cluster.pods import run_python

HOME = "grpo-code-sandbox"  # the namespace it is deployed to
SQUARE = {"program": "def f(n):\n    return n * n", "entry_point": "f", "tests": ["assert f(3) == 9"], "timeout_s": 5}
# Posts a list of [path, body] to a URL, each until there is an answer of any kind; prints [status, body] of each.
ASKS = """
import json, os, sys, time, urllib.error, urllib.request
headers = {"Content-Type": "application/json"}
if os.environ.get("TOKEN"):
    headers["Authorization"] = "Bearer " + os.environ["TOKEN"]
deadline = time.monotonic() + float(sys.argv[2])
def posted(path, body):
    while time.monotonic() < deadline:
        try:
            request = urllib.request.Request(sys.argv[1] + path, json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=20) as reply:
                return [reply.status, json.load(reply)]
        except urllib.error.HTTPError as error:
            return [error.code, None]
        except OSError:
            time.sleep(0.5)
print(json.dumps([posted(path, body) for path, body in json.loads(sys.argv[3])]))
"""


def posted(
    cluster: Cluster, images: Images, namespace: str, url: str, *requests: tuple[str, Any], patience: int, **more: Any
) -> list[Any]:
    """[status, body] of each request (path, body) of a pod; None for one without an answer in `patience` seconds."""
    ended = run_python(cluster, namespace, images["sandbox"], ASKS, url, str(patience), json.dumps(requests), **more)
    assert ended.code == 0, ended.printed
    answers: list[Any] = json.loads(ended.printed)
    return answers


def asked(cluster: Cluster, images: Images, namespace: str, url: str, *, patience: int = 30, **more: Any) -> Any:
    """[status, outcome] of one verdict asked for by a pod, None when there was no answer."""
    request = ("/v1/verdicts", {"items": [{"id": "1", **SQUARE}]})
    (answer,) = posted(cluster, images, namespace, url, request, patience=patience, **more)
    return answer and [answer[0], answer[1]["verdicts"][0]["outcome"] if answer[1] else ""]


def let_in(cluster: Cluster, namespace: str) -> None:
    """Give a namespace the sandbox's token."""
    secret = cluster.get("-n", HOME, "secret", "grpo-code-sandbox")
    metadata = {"name": "grpo-code-sandbox", "namespace": namespace}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": secret["data"]})


@contextlib.contextmanager
def two_replicas(cluster: Cluster) -> Iterator[dict[str, str]]:
    """Two replicas that are ready, for as long as the block lasts: their pods' addresses by name."""

    def autoscale(least: int) -> None:
        patch = json.dumps({"spec": {"minReplicas": least}})
        cluster.kubectl("-n", HOME, "patch", "hpa", "sandbox", "--type=merge", "-p", patch)

    def ready() -> dict[str, str]:
        pods = cluster.get("-n", HOME, "pods", "-l", "app.kubernetes.io/name=sandbox")["items"]
        there = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and is_ready(pod)]
        return {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in there} if len(there) == 2 else {}

    autoscale(2)
    try:
        yield eventually(ready, "two replicas that are ready")
    finally:
        autoscale(1)
        cluster.kubectl("-n", HOME, "scale", "deployment/sandbox", "--replicas=1")
