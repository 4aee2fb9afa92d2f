"""What an image needs to be of use, tried in it: `python -m components.selfcheck STEP`, exit code 0 or 1.

Everything that the step imports is there, at the pinned versions; the user is not root and owns nothing of the image;
/tmp can be written to, and caches lie below it.
"""

import argparse
import importlib
import json
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from components.images import STEPS

ROOT = Path(__file__).resolve().parent.parent
CACHES = ("HOME", "XDG_CACHE_HOME", "HF_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "MPLCONFIGDIR")
EXECUTOR = "kfp.dsl.executor_main"  # what Kubeflow Pipelines starts in the image


def wanted(step: str) -> list[str]:
    """The packages that a step asks for by name, those of the requirements it includes among them."""
    return list(_asked_for(ROOT / "images" / step / "requirements.in"))


def _asked_for(file: Path) -> Iterator[str]:
    for line in file.read_text().splitlines():
        text = line.split("#")[0].strip()
        if text.startswith("-r"):
            yield from _asked_for((file.parent / text.removeprefix("-r").strip()).resolve())
        elif text:
            yield _canonical(text.split("==")[0].split("[")[0])


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(step: str) -> dict[str, set[str]]:
    """Package -> the versions that its pins allow; more than one where a marker chooses by interpreter or machine."""
    found: dict[str, set[str]] = {}
    for file in (ROOT / "images" / step / "requirements.txt", ROOT / "images/kfp.txt"):
        for line in file.read_text().splitlines():
            name, _, version = line.split("#")[0].split(";")[0].strip().partition("==")
            if version:
                found.setdefault(_canonical(name.split("[")[0]), set()).add(version)
    return found


def wrong_versions(step: str) -> Iterator[str]:
    """Packages that are asked for and missing, and installed ones whose version is not the pinned one."""
    asked = wanted(step)
    for name, versions in pins(step).items():
        try:
            version = metadata.version(name).split("+")[0]  # +cpu and the like say where a wheel was built
        except metadata.PackageNotFoundError:
            if name in asked:  # others may be for another interpreter or machine
                yield f"{name} is not installed: {' or '.join(sorted(versions))} is pinned"
            continue
        if version not in versions:
            yield f"{name} is {version}: {' or '.join(sorted(versions))} is pinned"


def failed_imports(step: str) -> Iterator[str]:
    """Modules of the step, of the packages it asks for, and kfp's executor, that cannot be imported.

    A step's face is none of them: kfp sends its body along and needs its compiler's packages for the rest of it.
    """
    os.environ["_KFP_RUNTIME"] = "true"  # as in a step's pod, where kfp makes do without those packages
    folder = importlib.import_module(f"components.{step}")
    own = [module.name for module in pkgutil.iter_modules(folder.__path__) if module.name != "component"]
    modules = [EXECUTOR, "components.settings", *(f"components.{step}.{name}" for name in own)]
    homes = metadata.packages_distributions()
    asked = set(wanted(step))
    for module, owners in homes.items():
        if module.isidentifier() and asked & set(map(_canonical, owners)):
            modules.append(module)
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # a broken package can raise anything
            yield f"{module} cannot be imported: {type(error).__name__}: {error}"


def wrong_user(_: str) -> Iterator[str]:
    """Being root, and what of the image this user could change."""
    if os.getuid() == 0:
        yield "the user is root: 65532 is expected"
    for folder in (str(ROOT), sys.prefix):
        if os.access(folder, os.W_OK):
            yield f"{folder} can be written to by user {os.getuid()}"


def wrong_folders(_: str) -> Iterator[str]:
    """A /tmp that cannot be written to, and caches that lie elsewhere."""
    try:
        with tempfile.NamedTemporaryFile(dir="/tmp") as file:
            file.write(b"a line")
    except OSError as error:
        yield f"/tmp cannot be written to: {error.strerror}"
    for name in CACHES:
        if not Path(os.environ.get(name, "/")).is_relative_to("/tmp"):
            yield f"{name} is {os.environ.get(name, 'not set')}: a folder below /tmp is expected"


CHECKS: dict[str, Callable[[str], Iterator[str]]] = {
    "versions": wrong_versions,
    "imports": failed_imports,
    "user": wrong_user,
    "folders": wrong_folders,
}


def main(arguments: list[str]) -> int:
    """Try everything and print what was found as one JSON object: check -> list of faults."""
    parser = argparse.ArgumentParser(prog="selfcheck", description="Say what a step's image lacks.")
    parser.add_argument("step", choices=STEPS)
    step = parser.parse_args(arguments).step
    if (ROOT / "images" / step / "requirements.in").exists():
        faults = {name: list(check(step)) for name, check in CHECKS.items()}
    else:
        faults = {"image": [f"this is not the image of {step}: images/{step}/requirements.in is not in {ROOT}"]}
    print(json.dumps(faults, indent=1))
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
