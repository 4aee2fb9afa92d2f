"""Where Kubeflow Pipelines is, and how to talk to it: the one home of the connection.

`KFP_ENDPOINT` (or --endpoint) is the API's address: a port-forward, an ingress, or, unset within a cluster, the service
itself. `KFP_TOKEN` and `KFP_NAMESPACE` serve multi-user installations. Every failure is one sentence.
"""

import contextlib
import io
import json
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import urllib3

from cli.namespaces import named_namespace
from components.shared.errors import InfraError, UserError
from components.shared.replicas import is_address

IN_CLUSTER = "http://ml-pipeline.kubeflow.svc.cluster.local:8888"
PORT_FORWARD = "kubectl port-forward -n kubeflow svc/ml-pipeline-ui 8080:80"
# Where Kubeflow projects the token of a notebook's or job's ServiceAccount.
TOKEN_PATH_VARIABLE, TOKEN_PATH = "KF_PIPELINES_SA_TOKEN_PATH", "/var/run/secrets/kubeflow/pipelines/token"
TIMEOUT = urllib3.Timeout(connect=10.0, read=60.0)  # seconds; kfp's own client would wait for ever
# How the API of an installation with several users says no to somebody whom it knows.
DENIED = re.compile(
    r"User '(?P<user>[^']+)' is not authorized.*?"
    r"ResourceAttributes{Namespace:(?P<namespace>[^,]*),Verb:(?P<verb>\w+),[^}]*?Resource:(?P<kind>\w+)"
)


class NotThere(UserError):
    """KFP has nothing of the id that was asked for."""


class NoEntry(UserError):
    """KFP wants another token, or a namespace in which its account may work."""


@dataclass(frozen=True)
class Health:
    """What the API says of itself; version is empty where it does not say."""

    version: str
    multi_user: bool


@dataclass(frozen=True)
class Endpoint:
    """An installation of Kubeflow Pipelines. url has no `/` at its end; ui is where a browser finds the runs."""

    url: str
    ui: str
    token: str
    namespace: str
    ca_cert: str
    verify_tls: bool

    @classmethod
    def of(
        cls,
        endpoint: str | None = None,
        token: str | None = None,
        namespace: str | None = None,
        ui: str | None = None,
        ca_cert: str | None = None,
        verify_tls: bool = True,
    ) -> "Endpoint":
        """From options, the environment, or a pod's surroundings, in this order; UserError when nothing names it."""
        url = (endpoint or os.environ.get("KFP_ENDPOINT") or _in_cluster()).strip()
        url = url if url.endswith("://") else url.rstrip("/")
        if not url:
            raise UserError(
                "No Kubeflow Pipelines is known: set KFP_ENDPOINT or --endpoint, for example http://localhost:8080 "
                f"after `{PORT_FORWARD}`."
            )
        if "://" not in url:
            url = f"http://{url}" if url.split(":")[0] in ("localhost", "127.0.0.1") else f"https://{url}"
        if not is_address(url):
            raise UserError(f"--endpoint {url!r} is no address: write it like http://localhost:8080.")
        ca_cert = ca_cert or os.environ.get("KFP_CA_CERT") or ""
        if ca_cert and not Path(ca_cert).is_file():
            raise UserError(f"The CA certificate {ca_cert} does not exist: give --ca-cert a PEM file.")
        return cls(
            url=url,
            ui=(ui or os.environ.get("KFP_UI_ENDPOINT") or url).rstrip("/"),
            token=token or os.environ.get("KFP_TOKEN") or "",
            namespace=named_namespace(namespace),
            ca_cert=ca_cert,
            verify_tls=verify_tls,
        )

    @staticmethod
    def is_named(endpoint: str | None = None) -> bool:
        """Whether an option, the environment or a pod's surroundings name an installation."""
        return bool(endpoint or os.environ.get("KFP_ENDPOINT") or _in_cluster())

    @property
    def namespace_of_runs(self) -> str | None:
        """What the API wants as a namespace: the profile's with several users, none with one."""
        return self.namespace if self.health.multi_user else None

    def run_link(self, run_id: str) -> str:
        """The run's page in KFP's own UI."""
        return f"{self.ui}/#/runs/details/{run_id}"

    def schedule_link(self, schedule_id: str) -> str:
        return f"{self.ui}/#/recurringrun/details/{schedule_id}"

    @cached_property
    def health(self) -> Health:
        """Ask the API who it is; InfraError when nobody answers, UserError when it wants a login."""
        options: dict[str, Any] = {"retries": False, "timeout": TIMEOUT}
        if self.url.startswith("https://"):
            options |= {
                "ca_certs": self.ca_cert or None,
                "cert_reqs": "CERT_REQUIRED" if self.verify_tls else "CERT_NONE",
            }
        headers = {"Authorization": f"Bearer {self._bearer}"} if self._bearer else {}
        http = urllib3.PoolManager(**options)
        try:
            with _quiet():
                answer = http.request("GET", f"{self.url}/apis/v2beta1/healthz", headers=headers, redirect=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.unreachable(error) from None
        if answer.status in (301, 302, 303, 307, 401, 403):
            raise self._no_entry(answer.status)
        try:
            told = json.loads(answer.data)
            return Health(str(told.get("tag_name") or ""), bool(told.get("multi_user")))
        except (ValueError, AttributeError):
            raise UserError(
                f"{self.url} is no Kubeflow Pipelines API (HTTP {answer.status}, not its health): set KFP_ENDPOINT to "
                "the address of the API or its UI; behind Kubeflow's gateway that ends in /pipeline."
            ) from None

    @cached_property
    def client(self) -> Any:
        """kfp's client, once the API has answered. In a multi-user installation a namespace is a must."""
        from kfp import Client
        from kfp.client import ServiceAccountTokenVolumeCredentials

        if self.health.multi_user and not self.namespace:
            raise NoEntry(
                "This Kubeflow Pipelines serves several users: name your profile's namespace with --namespace or "
                "KFP_NAMESPACE."
            )
        options: dict[str, Any] = {"existing_token": self.token or None}
        if not self.token and _token_file().is_file():
            options["credentials"] = ServiceAccountTokenVolumeCredentials(str(_token_file()))
        if self.health.multi_user:
            options["namespace"] = self.namespace
        with self.spoken(), _quiet():
            client = Client(
                self.url, ui_host=self.ui, ssl_ca_cert=self.ca_cert or None, verify_ssl=self.verify_tls, **options
            )
        client._run_api.api_client.rest_client.pool_manager.connection_pool_kw["timeout"] = TIMEOUT
        return client

    def check_profile(self) -> None:
        """UserError unless, where there are several users, the token's account may see the runs of the namespace."""
        with self.spoken():
            self.client.list_runs(page_size=1, namespace=self.namespace_of_runs)

    @contextlib.contextmanager
    def spoken(self) -> Iterator[None]:
        """Turn what the API answers or does not answer into one sentence.

        UserError for a request that it refuses, InfraError when it fails or cannot be reached.
        """
        from kfp_server_api import ApiException

        try:
            with contextlib.redirect_stdout(io.StringIO()):  # kfp's client prints links of its own
                yield
        except ApiException as error:
            raise self._refusal(error.status or 0, error.body) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.unreachable(error) from None

    def _refusal(self, status: int, body: Any) -> UserError | InfraError:
        """What an answer of the API means that is no success."""
        said = _message(body)
        denied = DENIED.search(_text(body)) if status == 403 else None
        if denied:
            kind = "recurring runs" if denied["kind"] == "jobs" else denied["kind"]
            return NoEntry(
                f"Kubeflow Pipelines at {self.url} does not let {denied['user']} {denied['verb']} {kind} in "
                f"namespace {denied['namespace']}: name the namespace of a profile of yours with --namespace or "
                "KFP_NAMESPACE, or set KFP_TOKEN to a token of an account that may."
            )
        if status in (401, 403):
            return self._no_entry(status, said)
        if 400 <= status < 500:
            return (NotThere if status == 404 else UserError)(f"Kubeflow Pipelines refuses this: {said}")
        return InfraError(f"Kubeflow Pipelines at {self.url} failed (HTTP {status}): {said}")

    def unreachable(self, error: Exception) -> InfraError:
        reason = getattr(error, "reason", None) or error
        text = str(reason).split(": ", 1)[-1].rstrip(".")
        return InfraError(
            f"Kubeflow Pipelines cannot be reached at {self.url} ({type(reason).__name__}: {text}): check the address, "
            f"or forward a port with `{PORT_FORWARD}`."
        )

    @property
    def _bearer(self) -> str:
        if self.token or not _token_file().is_file():
            return self.token
        return _token_file().read_text(encoding="utf-8").strip()

    def _no_entry(self, status: int, said: str = "") -> NoEntry:
        what = "does not accept this token" if self._bearer else "asks for a login"
        details = f"; it said: {said.rstrip('.')}" if said else ""
        return NoEntry(
            f"Kubeflow Pipelines at {self.url} {what} (HTTP {status}{details}): set KFP_TOKEN to a fresh token of an "
            "account that may use it (docs/kubernetes.md says how)."
        )


def endpoint_options() -> list[click.Option]:
    """The options of the connection; `Endpoint.of` takes their values by name."""
    return [
        click.Option(["--endpoint"], help="Address of Kubeflow Pipelines [$KFP_ENDPOINT]."),
        click.Option(["--token"], help="Bearer token, where the endpoint wants one [$KFP_TOKEN]."),
        click.Option(["--namespace"], help="Namespace of the runs; a must with several users [$KFP_NAMESPACE]."),
        click.Option(["--ui"], help="Address of the UI for links, if it is another [$KFP_UI_ENDPOINT]."),
        click.Option(["--ca-cert"], help="PEM file of the authority that signed the endpoint [$KFP_CA_CERT]."),
        click.Option(["--verify-tls/--no-verify-tls"], default=True, help="Check the endpoint's certificate."),
    ]


def take_endpoint(options: dict[str, Any]) -> Endpoint:
    """The endpoint that a verb's options name; they are taken out of `options`."""
    return Endpoint.of(**{option.name: options.pop(option.name) for option in endpoint_options() if option.name})


def _in_cluster() -> str:
    return IN_CLUSTER if os.environ.get("KUBERNETES_SERVICE_HOST") else ""


def _token_file() -> Path:
    return Path(os.environ.get(TOKEN_PATH_VARIABLE) or TOKEN_PATH)


def _text(body: Any) -> str:
    return body.decode(errors="replace") if isinstance(body, bytes) else str(body or "it gave no reason")


def _message(body: Any) -> str:
    """The words for people in an answer of the API, of its several forms, in one line."""
    text = _text(body)
    try:
        told = json.loads(text)
        text = str(told.get("message") or told.get("error_message") or told.get("error") or text)
    except (ValueError, AttributeError):
        pass
    return " ".join(text.split())[:600].rstrip(".") + "."


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without kfp's note on old servers and urllib3's on certificates that the user chose not to check."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
