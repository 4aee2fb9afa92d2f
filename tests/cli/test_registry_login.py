"""Registries that want a token: anybody's, that of `docker login`, or none; and one without TLS elsewhere."""

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from cli.registry import NoDigest, by_digest
from cli.registry_login import Login, docker_login

DIGEST = "sha256:" + "cd" * 32
BASIC = "Basic " + base64.b64encode(b"me:secret").decode()


class Registry(BaseHTTPRequestHandler):
    """Sells tokens for team/public to anybody, for team/private to me; `old` wants me itself; keeps what is asked."""

    asked: list

    def do_HEAD(self):
        repository, allowed = self.path.split("/")[3], self.headers.get("Authorization")
        if repository == "old":
            challenge = 'Basic realm="old"'
            fits = allowed == BASIC
        else:
            scope = f"repository:team/{repository}:pull"
            realm = f"http://{self.headers['Host']}/token"
            challenge = f'Bearer realm="{realm}",service="registry",scope="{scope}"'
            fits = allowed == f"Bearer token-for-{scope}"
        self.send_response(200 if fits else 401)
        self.send_header(*(("Docker-Content-Digest", DIGEST) if fits else ("WWW-Authenticate", challenge)))
        self.end_headers()

    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)
        self.sell(query["service"][0], query["scope"][0], self.headers.get("Authorization") == BASIC)

    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        mine = (form["grant_type"], form["refresh_token"]) == (["refresh_token"], ["identity"])
        self.sell(form["service"][0], form["scope"][0], mine)

    def sell(self, service, scope, mine):
        self.asked.append((self.command, service, scope, self.headers.get("Authorization")))
        body = json.dumps({"token": f"token-for-{scope}"} if mine or "public" in scope else {"errors": []}).encode()
        self.send_response(200 if mine or "public" in scope else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


@contextmanager
def serving(address):
    handler = type("Own", (Registry,), {"asked": []})
    with ThreadingHTTPServer((address, 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"{address}:{server.server_port}", handler.asked
        server.shutdown()


@pytest.fixture
def registry():
    with serving("127.0.0.1") as served:
        yield served


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    """Writes docker's config.json."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("REGISTRY_PLAIN_HTTP", raising=False)
    return lambda **parts: (tmp_path / "config.json").write_text(json.dumps(parts))


def login():
    return {"auth": BASIC.removeprefix("Basic ")}


def test_a_token_for_anybody_is_fetched_and_used(registry):
    host, asked = registry
    assert by_digest(f"{host}/team/public:1") == f"{host}/team/public@{DIGEST}"
    assert asked == [("GET", "registry", "repository:team/public:pull", None)]


def test_a_private_image_needs_dockers_credentials(registry, config):
    host, asked = registry
    with pytest.raises(NoDigest, match="wants a login"):
        by_digest(f"{host}/team/private:1")
    config(auths={host: login()})
    assert by_digest(f"{host}/team/private:1").endswith(DIGEST)
    assert asked[-1][3] == BASIC


def test_an_identity_token_buys_one_too(registry, config):
    host, asked = registry
    config(auths={f"https://{host}": {"identitytoken": "identity"}})
    assert by_digest(f"{host}/team/private:1").endswith(DIGEST)
    assert asked[-1][0] == "POST"


def test_a_registry_with_basic_authentication(registry, config):
    host, _ = registry
    with pytest.raises(NoDigest, match="wants a login"):
        by_digest(f"{host}/team/old:1")
    config(auths={host: login()})
    assert by_digest(f"{host}/team/old:1").endswith(DIGEST)


def test_a_credential_helper_is_asked(tmp_path, config, monkeypatch):
    helper = tmp_path / "docker-credential-small"
    helper.write_text('#!/bin/sh\nread name\n[ "$name" = a.example ] && echo \'{"Username": "me", "Secret": "s"}\'\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    config(credsStore="small")
    assert docker_login("a.example") == Login("me", "s")
    assert docker_login("b.example") is None
    config(credsStore="absent")
    assert docker_login("a.example") is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"auths": {"a.example": {"auth": "%%%"}}}'])
def test_a_config_that_says_nothing_is_none(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    assert docker_login("a.example") is None


def test_docker_hub_has_a_name_of_its_own(config):
    config(auths={"https://index.docker.io/v1/": login()})
    assert docker_login("docker.io") == Login("me", "secret")


def test_a_registry_without_tls_elsewhere_must_be_named_as_one(monkeypatch):
    with serving("127.0.0.2") as (host, _):  # not one of the names for this machine
        with pytest.raises(NoDigest, match="does not answer"):
            by_digest(f"{host}/team/public:1")
        monkeypatch.setenv("REGISTRY_PLAIN_HTTP", "true")
        assert by_digest(f"{host}/team/public:1").endswith(DIGEST)
