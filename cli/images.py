"""Build, check, describe and push the images: `python3 -m cli.images build|push`, behind `make images push`.

Only the standard library is imported and only docker and git are called, so that no environment has to be set up.
Settings come from the environment (make passes its variables on): REGISTRY, TAG, BASE_IMAGE, PIP_INDEX_URL,
TORCH_BACKEND, TORCH_INDEX, SITE_PACKAGES, and BUILD_OPTIONS for docker build.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from components.images import STEPS, image
from components.shared.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
SBOM = ROOT / "build/sbom"
SANDBOX = "sandbox"
ALL = (*STEPS, SANDBOX)
# image -> what it starts from; the first two are never pushed: their layers are the others'.
PARENTS = {"base": None, "model": "base", "prepare": "base", "filter": "model", "train": "model", "evaluate": "model"}
BUILD_ARGUMENTS = ("BASE_IMAGE", "PIP_INDEX_URL", "TORCH_BACKEND", "TORCH_INDEX", "SITE_PACKAGES")
# As Kubernetes will run them: nobody's user, no capability, no network, nothing to write to but /tmp.
HARDENED = ("--rm", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--network", "none")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
REGISTRY = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")  # a host, and a path there


def default_tag() -> str:
    """The commit's short name; where the working tree differs from it, with a suffix that says from what is there."""
    commit = _git("rev-parse", "--short=12", "HEAD").decode().strip()
    changed = _git("diff", "HEAD", "--binary")
    for name in sorted(_git("ls-files", "--others", "--exclude-standard", "-z").decode().split("\0")[:-1]):
        changed += name.encode() + b"\0" + (ROOT / name).read_bytes()
    return f"{commit}-dirty-{hashlib.sha256(changed).hexdigest()[:8]}" if changed else commit


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise UserError("TAG is not set and this is no git checkout: name the images' version, TAG=1.2.3.") from None


def settle_tag() -> str:
    """TAG from the environment or the commit, put where components.images finds it; UserError for `latest`."""
    tag = os.environ.get("TAG") or default_tag()
    if tag == "latest":
        raise UserError(
            "TAG latest says nothing about what is in an image: name a version, or leave it out for the commit."
        )
    if not TAG.fullmatch(tag):
        raise UserError(f"TAG {tag!r} is no tag: letters, digits, '.', '_' and '-' only, at most 128.")
    os.environ["TAG"] = tag
    return tag


def settle_registry() -> str:
    """REGISTRY from the environment, without a slash at its end; empty where none is set. UserError for a URL."""
    registry = os.environ.get("REGISTRY", "").rstrip("/")
    if registry and not REGISTRY.fullmatch(registry):
        raise UserError(
            f"REGISTRY {registry!r} is no registry: a host, and a path in small letters if need be, without https://, "
            "for example REGISTRY=ghcr.io/me."
        )
    return registry


def docker(*arguments: str, capture: bool = False) -> str:
    """Run docker; what it printed if `capture`. A failure of it ends this program with exit code 1 after its output."""
    if not shutil.which("docker"):
        raise UserError("docker is not installed: it builds the images.")
    done = subprocess.run(["docker", *arguments], cwd=ROOT, text=True, capture_output=capture)
    if done.returncode:
        print(done.stdout or "", done.stderr or "", sep="", file=sys.stderr)
        print(f"docker {shlex.join(arguments[:2])} failed; see the lines above.", file=sys.stderr)
        raise SystemExit(1)
    return done.stdout or ""


def build(names: tuple[str, ...]) -> None:
    """Build images with those that they start from, run the self-check of each, and describe each in build/sbom."""
    settle_tag()
    settle_registry()
    built: set[str] = set()
    for name in names:
        _build_after_parent(name, built)
    for name in names:
        check(name)
        describe(name)


def _build_after_parent(name: str, built: set[str]) -> None:
    parent = PARENTS.get(name)
    if parent and parent not in built:
        _build_after_parent(parent, built)
    if name not in built:
        options = ["--build-arg", f"PARENT={image(parent)}"] if parent else []
        _build(name, image(name), ROOT / "images/sandbox" if name == SANDBOX else ROOT, options)
        built.add(name)


def _build(name: str, tag: str, context: Path, options: list[str]) -> None:
    file = ROOT / "images" / name / "Dockerfile"
    declared = re.findall(r"(?m)^ARG (\w+)", file.read_text())
    for argument in BUILD_ARGUMENTS:
        if argument in declared and os.environ.get(argument):
            options = [*options, "--build-arg", argument]  # docker takes the value from the environment
    labels = {"title": f"grpo-code {name}", "licenses": "Apache-2.0"}
    if name in ALL:  # the layers below must stay the same from commit to commit
        labels["version"] = os.environ["TAG"]
    for key, value in labels.items():
        options += ["--label", f"org.opencontainers.image.{key}={value}"]
    print(f"images: building {tag}", flush=True)
    extra = shlex.split(os.environ.get("BUILD_OPTIONS", ""))
    docker("build", "--quiet", *extra, *options, "--tag", tag, "--file", str(file), str(context))


def check(name: str) -> None:
    """Run an image's self-check as locked down as it will be on a cluster; exit code 1 with what it printed."""
    print(f"images: checking {image(name)}", flush=True)
    if name == SANDBOX:
        docker("run", *HARDENED, image(name), "--self-test", capture=True)
    else:
        docker("run", *HARDENED, image(name), "python", "-m", "components.selfcheck", name)


def describe(name: str) -> Path:
    """Write an image's bill of materials to build/sbom/<image>.json: Python and Debian packages, CycloneDX 1.6."""
    tool = f"grpo-code-sbom:{name}"
    _build("sbom", tool, ROOT, ["--build-arg", f"IMAGE={image(name)}"])
    document = json.loads(docker("run", "--rm", "--network", "none", tool, capture=True))
    docker("image", "rm", tool, capture=True)
    SBOM.mkdir(parents=True, exist_ok=True)
    file = SBOM / f"grpo-code-{name}.json"
    file.write_text(json.dumps(document, indent=1) + "\n")
    print(f"images: {file.relative_to(ROOT)} lists {len(document['components'])} packages", flush=True)
    return file


def push(names: tuple[str, ...]) -> None:
    """Push images to $REGISTRY. Raises UserError when none is named."""
    settle_tag()
    if not settle_registry():
        raise UserError("REGISTRY is not set: say where to push to, for example make push REGISTRY=ghcr.io/me.")
    for name in names:
        print(f"images: pushing {image(name)}", flush=True)
        docker("push", "--quiet", image(name))


VERBS = {"build": build, "push": push}


@contextlib.contextmanager
def told() -> Iterator[None]:
    """End the program with a user's mistake in one sentence and its exit code."""
    try:
        yield
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def main(arguments: list[str]) -> None:
    """The verbs, for all images or for those that are named."""
    parser = argparse.ArgumentParser(prog="python3 -m cli.images", description="Build and push the images.")
    parser.add_argument("verb", choices=[*VERBS, "tag"], help="tag prints the tag that would be used")
    parser.add_argument("images", nargs="*", default=ALL, help=f"{' '.join(ALL)} (default: all)")
    options = parser.parse_args(arguments)
    with told():
        unknown = [name for name in options.images if name not in ALL]
        if unknown:
            raise UserError(f"There is no image {unknown[0]!r}: use {', '.join(ALL)}.")
        if options.verb == "tag":
            print(settle_tag())
        else:
            VERBS[options.verb](tuple(options.images))


if __name__ == "__main__":
    main(sys.argv[1:])
