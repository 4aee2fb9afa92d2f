"""Rules that every Dockerfile keeps, read from the files; tests/cluster/test_images.py tries what they come to."""

import re
from pathlib import Path

import pytest

from cli.images import ALL, PARENTS, SANDBOX

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = sorted((ROOT / "images").glob("*/Dockerfile"))
STEPS = [name for name in ALL if name != SANDBOX]


def instructions(path: Path) -> list[tuple[str, str]]:
    """(INSTRUCTION, rest) of a Dockerfile, continued lines joined."""
    text = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", path.read_text()))
    return [(line.split()[0].upper(), line.split(None, 1)[1].strip()) for line in text.splitlines() if line.strip()]


def test_every_image_has_its_dockerfile() -> None:
    assert {path.parent.name for path in FILES} == {*ALL, "base", "model", "sbom"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_older_engines_can_build_it(path: Path) -> None:
    text = path.read_text()
    assert "syntax=" not in text.splitlines()[0]
    for instruction, rest in instructions(path):
        assert not (instruction == "RUN" and rest.startswith("--")), rest
        assert not re.match(r"--(link|chmod|parents|exclude)", rest), rest
        assert "<<" not in rest


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_what_it_starts_from_can_be_chosen_and_nothing_is_fetched_unpinned(path: Path) -> None:
    text = path.read_text()
    for instruction, rest in instructions(path):
        if instruction == "FROM":
            assert rest.startswith("${"), rest
        if instruction == "RUN" and "pip" in rest:
            assert "--no-cache-dir" in rest
            assert " -r " in rest
        assert "apt-get" not in rest
        assert instruction != "ADD"
    assert ":latest" not in text
    assert not re.search(r"(?i)(password|secret|token)\s*=", text)
    if "BASE_IMAGE" in text:
        assert "ARG BASE_IMAGE=python:3.11-slim\n" in text


@pytest.mark.parametrize("name", ["base", "model", *STEPS, SANDBOX])
def test_it_ends_as_nobody(name: str) -> None:
    users = [rest for instruction, rest in instructions(ROOT / f"images/{name}/Dockerfile") if instruction == "USER"]
    last_stage = (ROOT / f"images/{name}/Dockerfile").read_text().rsplit("\nFROM ", 1)[1]
    switched = re.findall(r"(?m)^USER (.*)", last_stage)
    assert not switched or switched[-1].startswith("65532:")
    assert switched or name in ("filter", "evaluate")  # as their parent
    assert users


@pytest.mark.parametrize("name", STEPS)
def test_the_code_is_the_last_layer(name: str) -> None:
    changing = [each for each in instructions(ROOT / f"images/{name}/Dockerfile") if each[0] in ("COPY", "RUN", "ADD")]
    assert changing[-1] == ("COPY", "--from=code /app/components components")
    assert PARENTS[name] == ("base" if name == "prepare" else "model")


def test_caches_lie_below_tmp() -> None:
    from components.selfcheck import CACHES

    text = (ROOT / "images/base/Dockerfile").read_text()
    for name in CACHES:
        assert re.search(rf"\b{name}=/tmp\b", text), name
    assert "GRPO_STORE=s3://grpo-code" in text


def test_the_contexts_let_in_only_what_is_named() -> None:
    for folder in (ROOT, ROOT / "images/sandbox"):
        lines = [line for line in (folder / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
        assert lines[0] == "*"
        named = [line for line in lines if line.startswith("!")]
        assert named
        assert not [line for line in named if re.search(r"\.env|\.git|\.venv|^!images$|^!\*", line)]
