"""An image's digest, asked from a registry as the registry API says; where there is none, the reason is told."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cli import compiling
from cli.registry import NoDigest, by_digest
from components.pods import STEPS
from components.shared.errors import UserError

DIGEST = "sha256:" + "ab" * 32


@pytest.fixture(autouse=True)
def no_logins(tmp_path, monkeypatch):
    """Nothing of what this machine's docker knows."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))


@pytest.fixture
def registry():
    """Answers HEAD for the tag `here` of any name; `locked` wants a login."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            tag = self.path.rpartition("/")[2]
            accepted = "application/vnd.oci.image.index.v1+json" in self.headers["Accept"]
            status = {"here": 200, "locked": 401}.get(tag, 404)
            self.send_response(status)
            if status == 200 and accepted and "/v2/team/grpo-code-" in self.path:
                self.send_header("Docker-Content-Digest", DIGEST)
            self.end_headers()

        def log_message(self, format, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"127.0.0.1:{server.server_port}/team"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_tag_becomes_a_digest(registry):
    assert by_digest(f"{registry}/grpo-code-train:here") == f"{registry}/grpo-code-train@{DIGEST}"


def test_an_image_that_was_never_pushed_is_refused_with_the_command_that_pushes_it(registry):
    with pytest.raises(UserError, match="make images push"):
        by_digest(f"{registry}/grpo-code-train:away")


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("grpo-code-train:here", "names no registry"),
        ("team/grpo-code-train:here", "names no registry"),
        ("127.0.0.1:9/grpo-code-train:here", "does not answer"),
    ],
)
def test_where_nobody_can_be_asked_the_reason_is_told(image, reason):
    with pytest.raises(NoDigest, match=reason):
        by_digest(image)


def test_a_registry_that_wants_a_login_gives_no_digest(registry):
    with pytest.raises(NoDigest, match="wants a login"):
        by_digest(f"{registry}/grpo-code-train:locked")


def test_every_step_gets_its_image_by_digest_or_all_by_tag(registry, monkeypatch, capsys):
    monkeypatch.setenv("REGISTRY", registry)
    monkeypatch.setenv("TAG", "here")
    images = compiling.step_images()
    assert set(images) == set(STEPS)
    assert images["check"] == images["prepare"] == f"{registry}/grpo-code-prepare@{DIGEST}"
    assert images["train"] == f"{registry}/grpo-code-train@{DIGEST}"
    monkeypatch.setenv("TAG", "locked")
    assert compiling.step_images()["train"] == f"{registry}/grpo-code-train:locked"
    assert "Images are named by tag, locked, not by digest" in capsys.readouterr().err
    monkeypatch.setenv("TAG", "latest")
    with pytest.raises(UserError, match="latest"):
        compiling.step_images()
