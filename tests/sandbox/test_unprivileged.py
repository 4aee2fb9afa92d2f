"""The service as a restricted pod runs it: nobody's user, no capability, no new privileges, a read-only root."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.conftest import get, make_item, post
from tests.sandbox.running import FOLDER, readiness, wait_until

NOBODY = "65534"
SQUARE = "def f(n):\n    return n * n\n"
TEST = ["assert f(3) == 9"]

# In a mount namespace of its own: everything read-only but the scratch folder. Then no privilege is left.
CONFINE = """
set -e
mount --make-rprivate /
mount -t tmpfs -o size=64m,mode=1777 scratch "$SCRATCH"
mount -o remount,bind,ro /
exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
    env -i PATH=/usr/bin:/bin PYTHONPATH="$PACKAGES" "$INTERPRETER" -m sandbox --port 0 --workers 1 --scratch "$SCRATCH"
"""


def open_to_all(path: Path) -> bool:
    """Whether any user can read what is below a path."""
    return all(part.stat().st_mode & stat.S_IXOTH for part in [path, *path.parents] if part.is_dir())


def interpreter() -> str:
    """A Python of this version that nobody's user can run; skips the test where there is none."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for name in (os.path.realpath(sys.executable), f"/usr/local/bin/python{version}", f"/usr/bin/python{version}"):
        if Path(name).exists() and open_to_all(Path(name)):
            return name
    return pytest.skip(f"no Python {version} outside of a private folder: uid {NOBODY} could not run it")


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A mount point that everyone can reach, which pytest's own folders are not."""
    folder = Path(tempfile.mkdtemp(prefix="grpo-code-scratch-"))
    folder.chmod(0o755)
    yield folder
    folder.rmdir()


@pytest.fixture
def confined(scratch: Path) -> Iterator[tuple[int, str]]:
    """Pid and address of a service that runs so."""
    packages = Path(pytest.__file__).parents[1]
    if not open_to_all(packages) or not open_to_all(FOLDER):
        pytest.skip(f"{packages} or {FOLDER} lies in a private folder: uid {NOBODY} could not read it")
    tried = subprocess.run(["unshare", "-m", "mount", "--make-rprivate", "/"], capture_output=True, text=True)
    if tried.returncode or not shutil.which("setpriv"):
        pytest.skip(f"mounts cannot be rearranged here: {tried.stderr.strip() or 'no setpriv'}")
    environment = {**os.environ, "SCRATCH": str(scratch), "PACKAGES": str(packages), "INTERPRETER": interpreter()}
    process = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", CONFINE],
        cwd=FOLDER,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        try:
            line = process.stdout.readline()
            assert line.startswith("sandbox: listening"), line
            yield process.pid, line.split()[-1]
        finally:
            process.terminate()
            assert process.wait(30) in (0, -signal.SIGTERM)


def status_of(pid: int) -> dict[str, str]:
    """/proc/<pid>/status."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (row.partition(":") for row in rows)}


def test_it_judges_without_privileges_on_a_read_only_root(confined: tuple[int, str], scratch: Path) -> None:
    pid, url = confined
    state = status_of(pid)
    assert set(state["Uid"].split()) == {NOBODY}
    assert {int(state[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert state["NoNewPrivs"] == "1"
    root = next(row.split() for row in Path(f"/proc/{pid}/mounts").read_text().splitlines() if row.split()[1] == "/")
    assert "ro" in root[3].split(",")

    ready = readiness(get(url + "/readyz")[1])
    assert ready["ready"], ready["reason"]
    assert {layer["state"] for layer in ready["layers"].values()} == {"holds"}
    writes = "open('note', 'w').write('x')\n" + SQUARE
    items = [make_item(program, TEST, id=program) for program in (SQUARE, "def f(n):\n    return 0\n", writes)]
    verdicts = post(url, {"items": items})[1]["verdicts"]
    assert [verdict["outcome"] for verdict in verdicts] == ["passed", "failed", "passed"]
    inside = Path(f"/proc/{pid}/root{scratch}")
    # The verdict does not wait for the folder to be emptied; the next program does.
    assert wait_until(lambda: [list(folder.iterdir()) for folder in inside.iterdir()] == [[]])
