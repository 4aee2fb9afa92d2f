"""Every pin has one value in the whole project, and no file names a package index."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ("prepare", "filter", "train", "evaluate", "sandbox")
# The versions that the product is built and measured with.
CHOSEN = {
    "torch": "2.13.0",
    "transformers": "5.24.0",
    "trl": "1.16.0",
    "peft": "0.21.2",
    "datasets": "5.2.0",
    "accelerate": "1.15.0",
    "kfp": "2.17.3",
    "kfp-kubernetes": "2.17.3",
}
PIN = re.compile(r"([A-Za-z0-9._-]+)(\[[^]]*\])?==([^\s;]+)")
INDEX = re.compile(r"(?m)^\s*(--?(extra-)?index(-url)?|-i|--find-links|-f|--trusted-host)\b|simple/?\s*$|index-url\s*=")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: Path) -> dict[str, set[str]]:
    """Package -> its versions in a requirements file; more than one where a marker chooses."""
    found: dict[str, set[str]] = {}
    for line in path.read_text().splitlines():
        text = line.split("#")[0].strip()
        if text and not text.startswith("-r"):
            match = PIN.match(text)
            assert match, f"{path}: {text!r} is not pinned"
            found.setdefault(canonical(match[1]), set()).add(match[3])
    return found


def asked_for(path: Path) -> dict[str, set[str]]:
    """The pins of a requirements.in and of those it includes."""
    found = pins(path)
    for included in re.findall(r"(?m)^-r (\S+)", path.read_text()):
        found |= asked_for((path.parent / included).resolve())
    return found


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("image", IMAGES)
def test_an_images_pins_are_those_of_the_whole(image):
    whole = pins(ROOT / "tests/requirements.txt")
    own = pins(ROOT / f"images/{image}/requirements.txt")
    assert own
    assert {name: versions for name, versions in own.items() if whole.get(name) != versions} == {}


@pytest.mark.parametrize("folder", ["tests", "images/sbom", *(f"images/{image}" for image in IMAGES)])
def test_what_is_asked_for_is_what_is_locked(folder):
    locked = pins(ROOT / folder / "requirements.txt")
    wanted = asked_for(ROOT / folder / "requirements.in")
    assert wanted
    assert {name: versions for name, versions in wanted.items() if locked.get(name) != versions} == {}


def test_the_versions_are_the_chosen_ones():
    whole = pins(ROOT / "tests/requirements.txt")
    assert {name: whole.get(name) for name in CHOSEN} == {name: {version} for name, version in CHOSEN.items()}
    assert pins(ROOT / "images/kfp.txt") == {"kfp": {CHOSEN["kfp"]}}
    train = pins(ROOT / "images/train/requirements.txt")
    assert {"torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes"} <= set(train)


def test_images_without_a_model_stay_without_torch():
    for image in ("prepare", "sandbox"):
        assert not {"torch", "transformers", "trl"} & set(pins(ROOT / f"images/{image}/requirements.txt"))


def test_no_file_names_a_package_index():
    kinds = (".txt", ".in", ".toml", ".cfg", ".ini", ".lock", ".sh", "run", "Makefile", "Dockerfile")
    checked = [path for path in tracked_files() if path.name.endswith(kinds)]
    assert ROOT / "tests/requirements.txt" in checked
    wrong = {
        f"{path.relative_to(ROOT)}: {match[0].strip()}"
        for path in checked
        for match in INDEX.finditer(path.read_text(encoding="utf-8"))
    }
    assert not wrong


def test_the_index_pattern_finds_what_it_looks_for():
    for line in ("--index-url https://x/simple", "-i https://x", "--extra-index-url x", "index-url = x", "-f x"):
        assert INDEX.search(line), line
