"""How a registry that wants a token is answered: its challenge, docker's own credentials, the token they buy.

Docker's registry protocol: a 401 names the service that sells tokens (`WWW-Authenticate: Bearer realm=...`), and many
public registries sell one for reading to anybody. Credentials are those of `docker login`.
"""

import base64
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

CONFIG_VARIABLE = "DOCKER_CONFIG"  # the folder of docker's config.json, as docker itself reads it
# Under which name docker keeps the credentials of Docker Hub, whose images are named docker.io/...
HUB, HUB_LOGIN = "docker.io", "https://index.docker.io/v1/"
IDENTITY = "<token>"  # what a credential helper gives as the user's name when the secret is an identity token
FIELD = re.compile(r'(\w+)="([^"]*)"')
HELPER_SECONDS = 10.0


@dataclass(frozen=True)
class Login:
    """Credentials for a registry; identity is a token that takes the place of user and password."""

    user: str = ""
    password: str = ""
    identity: str = ""

    @property
    def basic(self) -> dict[str, str]:
        """The header for HTTP's basic authentication."""
        return {"Authorization": "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()}


def authorization(http: urllib3.PoolManager, challenge: str, host: str, scope: str, *, plain: bool) -> dict[str, str]:
    """The header with which a request that was answered by this challenge is tried again; empty when there is none.

    scope: what is asked for, where the challenge does not say it. plain: the registry speaks plain HTTP; for any other
    one credentials leave over TLS alone. Raises urllib3's errors when the service that sells tokens is out of reach.
    """
    login = docker_login(host)
    kind, _, rest = challenge.strip().partition(" ")
    if kind.lower() == "basic":
        return login.basic if login and login.user else {}
    fields = dict(FIELD.findall(rest))
    realm = fields.get("realm", "")
    if kind.lower() != "bearer" or not realm.startswith(("http://", "https://")):
        return {}
    if realm.startswith("http://") and not plain:
        login = None
    asked = {"service": fields.get("service", host), "scope": fields.get("scope", scope)}
    token = _token(http, realm, asked, login)
    return {"Authorization": f"Bearer {token}"} if token else {}


def _token(http: urllib3.PoolManager, realm: str, asked: dict[str, str], login: Login | None) -> str:
    if login and login.identity:
        form = {**asked, "grant_type": "refresh_token", "refresh_token": login.identity, "client_id": "grpo-code"}
        answer = http.request(
            "POST", realm, body=urlencode(form), headers={"Content-Type": "application/x-www-form-urlencoded"}
        )
    else:
        address = f"{realm}{'&' if '?' in realm else '?'}{urlencode(asked)}"
        answer = http.request("GET", address, headers=login.basic if login else {})
    try:
        told = json.loads(answer.data)
        return str(told.get("token") or told.get("access_token") or "") if answer.status == 200 else ""
    except (ValueError, AttributeError):
        return ""


def docker_login(host: str) -> Login | None:
    """What `docker login` keeps for a registry: in its config.json, or in the helper that this names; None if nothing.

    A file or helper that cannot be read counts as none: the registry's own refusal says the rest.
    """
    file = Path(os.environ.get(CONFIG_VARIABLE) or Path.home() / ".docker") / "config.json"
    try:
        config: dict[str, Any] = dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    names = [HUB_LOGIN] if host == HUB else [host, f"https://{host}"]
    for name in names:
        helper = (config.get("credHelpers") or {}).get(name) or config.get("credsStore")
        found = _from_helper(helper, name) if helper else _from_file((config.get("auths") or {}).get(name) or {})
        if found:
            return found
    return None


def _from_file(entry: dict[str, Any]) -> Login | None:
    if entry.get("identitytoken"):
        return Login(identity=str(entry["identitytoken"]))
    try:
        user, _, password = base64.b64decode(entry.get("auth") or "").decode().partition(":")
    except ValueError:
        return None
    return Login(user, password.strip("\0")) if user else None


def _from_helper(helper: str, name: str) -> Login | None:
    try:
        done = subprocess.run(
            [f"docker-credential-{helper}", "get"], input=name, capture_output=True, text=True, timeout=HELPER_SECONDS
        )
        told = json.loads(done.stdout) if done.returncode == 0 else {}
        user, secret = str(told.get("Username") or ""), str(told.get("Secret") or "")
    except (OSError, ValueError, AttributeError, subprocess.TimeoutExpired):
        return None
    if not secret:
        return None
    return Login(identity=secret) if user == IDENTITY else Login(user, secret)
