"""Build the project's environment, `.venv`, from the pinned requirements, and refresh those pins.

Runs under any Python >= 3.11 with nothing installed: only the standard library is imported. One from 3.6 on comes as
far as being told that it is too old, so a signature here holds no newer type unquoted.
`python3 cli/bootstrap.py` installs; `--lock` rewrites the pins, `--check` looks at the Python alone.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
READY = VENV / "ready"  # holds the digest of what was installed; its absence means an interrupted set-up
EVERYTHING = ROOT / "tests/requirements.txt"
UV = "uv==0.13.9"
ROOM = "the project's folder must be writable, and its disk have room for about 6 GB"
IMAGES = ("prepare", "filter", "train", "evaluate", "sandbox", "sbom")
# torch's wheel names the CUDA packages it needs itself, and its CPU wheel needs none of them.
FROM_TORCH = re.compile(r"^(nvidia-|cuda-|triton)")


def fail(sentence: str) -> None:
    """End with one sentence and exit code 2: a user's mistake, not a crash."""
    print(sentence, file=sys.stderr)
    raise SystemExit(2)


def check_python() -> None:
    """Whether this Python is new enough for the command line, on whatever machine."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this file is what tells the users of an older one
        version = platform.python_version()
        fail(f"Python {version} is too old: Python 3.11 or newer is needed (set PYTHON=/path/to/python3.11).")


def check_machine() -> None:
    """Whether the pipeline itself can run here."""
    check_python()
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        fail(
            f"{platform.system()} on {platform.machine()} is not supported: "
            "run this in a Linux container (x86-64 or arm64)."
        )


def refuse_other_python() -> None:
    """For a Python that lacks the packages: it is too old, or the environment is not active, or not made."""
    check_python()
    first = "" if READY.exists() else "`make setup`, then "
    fail(f"{sys.executable} lacks the packages of grpo-code: run {first}`source .venv/bin/activate`.")


def uv() -> str:
    """The path of uv in `.venv`, installed there by pip when it is not there yet."""
    program = VENV / "bin/uv"
    if not _works(program):  # missing, or cut off when an earlier set-up was interrupted
        if VENV.exists():
            shutil.rmtree(VENV)
        made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True)
        if made.returncode:
            shutil.rmtree(VENV, ignore_errors=True)
            fail(_why_no_environment(made.stdout + made.stderr))
        pip = [str(VENV / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", UV]
        installed = subprocess.run(pip, capture_output=True, text=True)
        if installed.returncode:
            stop("uv could not be installed by pip", installed.stderr)
    return str(program)


def _works(program: Path) -> bool:
    try:
        return subprocess.run([str(program), "--version"], capture_output=True).returncode == 0
    except OSError:
        return False


def _why_no_environment(said: str) -> str:
    """One sentence for what `python -m venv` said when it failed."""
    if "ensurepip" in said or "No module named" in said or not said.strip():
        return f"{sys.executable} cannot make a virtual environment: install its venv module (python3-venv on Debian)."
    return f"{VENV} cannot be made ({said.strip().splitlines()[-1]}): {ROOM}."


def stop(what: str, details: str) -> None:
    """End with exit code 1: a service failed, which is nobody's mistake."""
    print(f"{details.strip()}\n{what}; see the lines above, and try again: what is there is kept.", file=sys.stderr)
    raise SystemExit(1)


def torch_backends() -> "list[list[str]]":
    """Where torch's wheel may come from, best first: the build for this machine, then the package index."""
    wanted = ["--torch-backend", "auto" if shutil.which("nvidia-smi") else "cpu"]
    return [wanted, []]


def install() -> None:
    """Install every pin into `.venv`; a second call with unchanged pins does nothing."""
    digest = hashlib.sha256(EVERYTHING.read_bytes()).hexdigest()
    if READY.exists() and READY.read_text() == digest:
        return
    print("Setting up .venv (once): about 5 GB with CUDA's torch, 2 GB with the CPU build ...", flush=True)
    start = time.monotonic()
    program = uv()
    READY.unlink(missing_ok=True)
    command = [program, "pip", "install", "-q", "--python", str(VENV / "bin/python"), "-r", str(EVERYTHING)]
    environment = {**os.environ, "UV_LINK_MODE": os.environ.get("UV_LINK_MODE", "hardlink")}
    for backend in torch_backends():
        result = subprocess.run(command + backend, env=environment, capture_output=True, text=True)
        if result.returncode == 0:
            break
    else:
        stop("The packages could not be installed", result.stderr)
    READY.write_text(digest)
    size = subprocess.run(["du", "-sk", str(VENV)], capture_output=True, text=True).stdout.split()
    gigabytes = int(size[0]) / 1e6 if size else float("nan")
    print(f"Set up .venv in {time.monotonic() - start:.0f} s, {gigabytes:.1f} GB.", flush=True)


def lock() -> None:
    """Resolve all requirements.in into requirements.txt; the images are held to the versions of the whole."""
    jobs: list[tuple[Path, list[str]]] = [(ROOT / "tests", [])]
    jobs += [(ROOT / "images" / image, ["-c", str(EVERYTHING)]) for image in IMAGES]
    for folder, constraints in jobs:
        command = [uv(), "pip", "compile", "-q", "--universal", "--python-version", "3.11", "--no-annotate"]
        command += ["--no-header", "--no-emit-index-url", *constraints, str(folder / "requirements.in")]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        lines = [line for line in result.stdout.splitlines() if not FROM_TORCH.match(line)]
        (folder / "requirements.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        check_python()
        raise SystemExit(0)
    check_machine()
    try:
        lock() if sys.argv[1:] == ["--lock"] else install()
    except KeyboardInterrupt:
        print("\nStopped. What was fetched is kept; go on with the same command, or `make setup`.", file=sys.stderr)
        raise SystemExit(130) from None
    except OSError as error:
        fail(f"{error.filename or VENV}: {error.strerror}: {ROOM}.")
