"""What a machine lacks is named, on real file systems; a defect keeps its traceback."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.shared.errors import FAILURE_FILE, LACKING, lacking, reported
from tests.conftest import ROOT

DEMO = [sys.executable, "pipeline.py", "local", "--params", "demo/parameters.toml"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_named_by_a_step(small_disk, tmp_path, monkeypatch, capfd):
    failure = tmp_path / "failure.json"
    monkeypatch.setenv(FAILURE_FILE, str(failure))
    with pytest.raises(SystemExit) as ended, reported("train"):
        (small_disk / "adapter").write_bytes(bytes(100_000))
    assert ended.value.code == 1
    sentence = "the disk is full (No space left on device): what was finished before is kept."
    assert capfd.readouterr().err == f"train: {sentence}\n"
    assert json.loads(failure.read_text()) == {
        "step": "train",
        "kind": "infrastructure",
        "message": sentence,
        "exit_code": 1,
    }


def test_a_step_whose_pod_is_being_taken_away_says_so_though_nobody_listens(tmp_path):
    """KFP's launcher dies of SIGTERM at once; the step finds its pipe broken, which is no defect of ours."""
    failure = tmp_path / "failure.json"
    program = (
        "from components.shared.errors import reported\n"
        "with reported('train'):\n"
        "    for step in range(100_000):\n"
        "        print('training', step, flush=True)\n"
    )
    environment = {**os.environ, FAILURE_FILE: str(failure)}
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=environment, **both) as child:
        child.stdout.readline()
        child.stdout.close()
    assert child.returncode != 0
    told = json.loads(failure.read_text())
    assert told["kind"] == "infrastructure"
    assert told["message"].startswith("what reads this step's output is gone, as where its pod is deleted, evicted or")


@pytest.mark.slow
def test_a_full_disk_ends_a_local_run_with_a_sentence(small_disk):
    environment = {**os.environ, "GRPO_STORE": str(small_disk / "store")}
    ended = subprocess.run(DEMO, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    shown = ended.stdout + ended.stderr
    assert ended.returncode == 1, shown
    assert "No space left on device" in shown
    assert "go on with:" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("number", LACKING)
def test_what_the_machine_lacks(number):
    known = lacking(OSError(number, os.strerror(number), "/a/file"))
    assert str(known) == f"/a/file: {LACKING[number]} ({os.strerror(number)}): what was finished before is kept."


def test_a_library_that_knows_no_error_number():
    assert str(lacking(RuntimeError("I/O error: No space left on device (os error 28)"))).startswith("the disk is full")


@pytest.mark.parametrize("error", [OSError(errno.EINVAL, "odd"), ValueError("odd"), OSError("odd")])
def test_other_errors_stay_what_they_are(error):
    assert lacking(error) is None
    with pytest.raises(type(error), match="odd"), reported("train"):
        raise error
