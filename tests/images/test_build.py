"""Building without docker: the tag, what is refused; and that what is built from what is said in order."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli import images
from components.images import image
from components.shared.errors import UserError

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository of one commit, taken for ours."""
    for command in (
        ["init", "-q"],
        ["config", "user.email", "a@example.org"],
        ["config", "user.name", "a"],
        ["commit", "-q", "--allow-empty", "-m", "first"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(images, "ROOT", tmp_path)
    monkeypatch.delenv("TAG", raising=False)
    return tmp_path


def test_the_tag_is_the_commit_and_tells_when_the_tree_differs(repository: Path) -> None:
    head = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(head, cwd=repository, capture_output=True, text=True, check=True).stdout
    assert images.default_tag() == commit[:12]
    (repository / "new.py").write_text("1")
    first = images.default_tag()
    assert first.startswith(f"{commit[:12]}-dirty-")
    assert images.default_tag() == first
    (repository / "new.py").write_text("2")
    assert images.default_tag() != first
    assert images.settle_tag() == os.environ["TAG"] == images.default_tag()


def test_outside_a_checkout_a_tag_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "ROOT", tmp_path)
    monkeypatch.delenv("TAG", raising=False)
    with pytest.raises(UserError, match="TAG is not set"):
        images.settle_tag()


@pytest.mark.parametrize(
    ("arguments", "settings", "sentence"),
    [
        (["build"], {"TAG": "latest"}, "TAG latest says nothing about what is in an image"),
        (["push"], {"TAG": "1"}, "REGISTRY is not set: say where to push to"),
        (["push"], {"TAG": "1", "REGISTRY": "https://x"}, "REGISTRY 'https://x' is no registry: a host"),
        (["build"], {"TAG": "1", "REGISTRY": "ghcr.io/Me"}, "REGISTRY 'ghcr.io/Me' is no registry: a host"),
        (["build", "trian"], {"TAG": "1"}, "There is no image 'trian': use prepare, filter, train, evaluate, sandbox."),
        (["build"], {"TAG": "1", "PATH": "/nowhere"}, "docker is not installed"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    arguments: list[str], settings: dict[str, str], sentence: str
) -> None:
    command = [sys.executable, "-S", "-m", "cli.images", *arguments]
    environment = {"PATH": os.environ["PATH"], **settings}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1


def test_parents_are_built_first_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    monkeypatch.setattr(images, "_build", lambda name, tag, context, options: built.append(name))
    done: set[str] = set()
    for name in images.ALL:
        images._build_after_parent(name, done)
    assert built == ["base", "prepare", "model", "filter", "train", "evaluate", "sandbox"]


def test_an_empty_tag_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As make exports it; another name would keep a run of `make run` from reusing one of the command line."""
    monkeypatch.setenv("TAG", "")
    monkeypatch.delenv("REGISTRY", raising=False)
    assert image("train") == "grpo-code-train:dev"
