"""The one home of the connection to Kubernetes: which cluster, which namespace, and what its refusals mean in words.

Objects are the plain JSON that `kubectl get -o json` prints, so that a newer cluster than this client knows is no
obstacle. The official client does the rest: kubeconfig, exec plug-ins, certificates, tokens.
"""

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from cli.namespaces import POD_NAMESPACE_FILE, pipeline_namespace
from components.shared.errors import InfraError, UserError

SECONDS = 10.0  # for one answer of the API server

Object = dict[str, Any]
# plural name of a kind: (the path of its API group, whether its objects belong to a namespace)
KINDS: dict[str, tuple[str, bool]] = {
    "namespaces": ("/api/v1", False),
    "nodes": ("/api/v1", False),
    "pods": ("/api/v1", True),
    "events": ("/api/v1", True),
    "secrets": ("/api/v1", True),
    "configmaps": ("/api/v1", True),
    "services": ("/api/v1", True),
    "serviceaccounts": ("/api/v1", True),
    "resourcequotas": ("/api/v1", True),
    "limitranges": ("/api/v1", True),
    "deployments": ("/apis/apps/v1", True),
    "networkpolicies": ("/apis/networking.k8s.io/v1", True),
    "workflows": ("/apis/argoproj.io/v1alpha1", True),
    "subjectaccessreviews": ("/apis/authorization.k8s.io/v1", False),
    "selfsubjectaccessreviews": ("/apis/authorization.k8s.io/v1", False),
}


def kubeconfig(environment: Mapping[str, str]) -> tuple[str, str | None]:
    """The kubeconfig's files and the context that is current in them, None if none is, both as kubectl finds them.

    The official client reads the variable only once, when it is imported, and where several files name a current
    context it takes the last one's, kubectl the first's.
    """
    files = environment.get("KUBECONFIG") or "~/.kube/config"
    for file in files.split(os.pathsep):
        try:
            content = yaml.safe_load(Path(file).expanduser().read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError):
            continue  # kubectl passes over what is not there; what is broken the client names
        if isinstance(content, dict) and content.get("current-context"):
            return files, str(content["current-context"])
    return files, None


class Forbidden(InfraError):
    """The API server knows who asks and does not allow it."""


class Refused(InfraError):
    """The API server understood the request and turned it down (quota, admission, a broken object).

    reason is Kubernetes' own word for it, for example `Forbidden` or `Invalid`; message what it said.
    """

    def __init__(self, sentence: str, reason: str, message: str) -> None:
        super().__init__(sentence)
        self.reason, self.message = reason, message


class Cluster:
    """A connected cluster. `namespace` is the pipeline's; safe to use from several threads."""

    def __init__(self, settings: client.Configuration, namespace: str, name: str) -> None:
        """name: what the user calls the cluster, a kubeconfig's context or `in-cluster`."""
        settings.retries = 1
        settings.connection_pool_maxsize = 32
        self.api = client.ApiClient(settings)
        self.server, self.namespace, self.name = str(settings.host), namespace, name

    @classmethod
    def connect(cls, context: str | None = None, namespace: str | None = None) -> Self:
        """The cluster of $KUBECONFIG's current or named context, or the one this pod runs in.

        UserError when no cluster is configured or there is no such context. Nothing is asked of the cluster yet.
        """
        settings = client.Configuration()
        settings.host = ""
        in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and POD_NAMESPACE_FILE.is_file()
        if in_pod and not context and "KUBECONFIG" not in os.environ:
            config.load_incluster_config(client_configuration=settings)
            return cls(settings, pipeline_namespace(namespace), "in-cluster")
        files, current = kubeconfig(os.environ)
        try:
            contexts, _ = config.list_kube_config_contexts(files)
        except (ConfigException, OSError, ValueError) as error:
            raise UserError(
                f"No Kubernetes cluster is configured ({_first_line(error)}): set KUBECONFIG to a kubeconfig file."
            ) from None
        names = [each["name"] for each in contexts]
        if context and context not in names:
            raise UserError(f"There is no context {context!r} in the kubeconfig: use one of {', '.join(names)}.")
        name = context or current or ""
        try:
            config.load_kube_config(files, context=name, client_configuration=settings)
        except (ConfigException, OSError, ValueError) as error:
            raise UserError(
                f"The kubeconfig's context {name} cannot be used ({_first_line(error)}): "
                "log in again, or name another with --context."
            ) from None
        return cls(settings, pipeline_namespace(namespace), name)

    @cached_property
    def core(self) -> client.CoreV1Api:
        """The official typed client of the core group, for what streams (following logs, exec)."""
        return client.CoreV1Api(self.api)

    def get(self, kind: str, name: str = "", *, namespace: str | None = None, **query: Any) -> Object | None:
        """One object, None when there is none. An empty namespace means the pipeline's."""
        return self.request("GET", self._path(kind, namespace, name), query=query)

    def list(self, kind: str, *, namespace: str | None = None, everywhere: bool = False, **query: Any) -> list[Object]:
        """All objects of a kind in a namespace (the pipeline's by default) or everywhere; none if the kind is unknown.

        query: labelSelector and fieldSelector, as the API spells them.
        """
        group, _ = KINDS[kind]
        path = f"{group}/{kind}" if everywhere else self._path(kind, namespace)
        answer = self.request("GET", path, query=query)
        return list(answer.get("items") or []) if answer else []

    def create(self, kind: str, body: Object, *, namespace: str | None = None, dry_run: bool = False) -> Object:
        """Create an object, or only ask whether it could be; Refused when the API server turns it down.

        What comes back is the object as admission has completed it.
        """
        query = {"dryRun": "All"} if dry_run else {}
        answer = self.request("POST", self._path(kind, namespace), query=query, body=body)
        if answer is None:
            raise InfraError(f"The cluster {self.name} has no namespace {namespace or self.namespace} or no {kind}.")
        return answer

    def delete(self, kind: str, name: str, *, namespace: str | None = None, grace_seconds: int = 0) -> None:
        """Delete an object; no error when there is none."""
        self.request("DELETE", self._path(kind, namespace, name), query={"gracePeriodSeconds": grace_seconds})

    def log(self, pod: str, *, namespace: str | None = None, container: str = "main", **query: Any) -> str | None:
        """What a container printed, None when there is no such pod.

        query: tailLines and previous, as the API spells them. Refused while the container has not started.
        """
        path = self._path("pods", namespace, pod) + "/log"
        answer = self._call("GET", path, {"container": container, **query}, None)
        return None if answer is None else answer.decode(errors="replace")

    def version(self) -> str:
        """The API server's version, for example `v1.34.4`."""
        answer = self.request("GET", "/version")
        return str((answer or {}).get("gitVersion", "unknown"))

    def request(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Object | None = None
    ) -> Object | None:
        """Any JSON request to the API server; None for what does not exist. Failures become one sentence each."""
        answer = self._call(method, path, query or {}, body)
        return None if answer is None else dict(json.loads(answer))

    def _path(self, kind: str, namespace: str | None, name: str = "") -> str:
        group, namespaced = KINDS[kind]
        place = f"{group}/namespaces/{namespace or self.namespace}/{kind}" if namespaced else f"{group}/{kind}"
        return f"{place}/{name}" if name else place

    def _call(self, method: str, path: str, query: Mapping[str, Any], body: Object | None) -> bytes | None:
        try:
            answer = self.api.call_api(
                path,
                method,
                query_params=list(query.items()),
                header_params={"Accept": "application/json, */*", "Content-Type": "application/json"},
                body=body,
                auth_settings=["BearerToken"],
                _return_http_data_only=True,
                _preload_content=False,
                _request_timeout=SECONDS,
            )
            return bytes(answer.data)
        except ApiException as error:
            if error.status == 404:
                return None
            raise self._failure(error, f"{method} {path}") from None
        except (HTTPError, OSError) as error:
            raise InfraError(
                f"The Kubernetes API server {self.server} does not answer ({_reason(error)}): "
                f"is the cluster {self.name} up, and within this machine's reach?"
            ) from error

    def _failure(self, error: ApiException, what: str) -> InfraError:
        said = self._said(error)
        message = str(said.get("message") or error.reason or "no reason given").rstrip(".")
        if error.status == 401:
            return InfraError(f"The cluster {self.name} does not accept your credentials: log in to it again.")
        if error.status == 403 and "cannot" in message:
            return Forbidden(f"You may not do this on the cluster {self.name}: {message}.")
        reason = str(said.get("reason") or error.status)
        return Refused(f"The cluster {self.name} refused {what}: {message}.", reason, message)

    @staticmethod
    def _said(error: ApiException) -> Object:
        try:
            said = json.loads(error.body or "")
        except ValueError:
            return {}
        return said if isinstance(said, dict) else {}


def _reason(error: BaseException) -> str:
    inner = getattr(error, "reason", None)
    return type(inner).__name__ if isinstance(inner, BaseException) else type(error).__name__


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
