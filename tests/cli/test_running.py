"""The runner on a real small pipeline: what a person sees, what the log keeps, and that nothing outlives it."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SMALL = Path(__file__).with_name("small_pipeline.py")
ROOT = SMALL.parent.parent.parent


def command(root: Path, run_id: str, text: str, what: str, fresh: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, str(SMALL), str(root), run_id, text, what, *fresh]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def run(
    root: Path, what: str, *, run_id: str = "run", text: str = "hello", fresh: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(root, run_id, text, what, fresh),
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def alive(pid: int) -> bool:
    """Whether a process still runs; a zombie whose parent has not looked yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def wait_for(condition, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_plain_lines_tell_the_steps_and_the_log_keeps_the_rest(tmp_path):
    result = run(tmp_path, "finish")
    assert result.returncode == 0, result.stderr
    lines = [line.split(" in ")[0] for line in result.stdout.splitlines()]
    assert lines == [
        "first: started",
        "first: writing hello",
        "first: copying 2/2 parts, all there",
        "first: done",
        "second: started",
        "second: done",
    ]
    assert result.stderr == ""
    log = (tmp_path / "runs/run/log.txt").read_text()
    assert "only for the log" in log
    assert "executorInput" in log or "parameterValues" in log  # kfp's own dump


@pytest.mark.slow
def test_what_has_not_changed_is_reused_and_said_so(tmp_path):
    assert run(tmp_path, "finish", fresh=("second",)).returncode == 0
    same = run(tmp_path, "finish", fresh=("second",)).stdout
    assert same.count("reused") == 2  # the run itself goes on from what it had finished
    again = run(tmp_path, "finish", run_id="again", fresh=("second",)).stdout
    assert "first: reused, nothing it reads has changed" in again
    assert "first: started" not in again
    assert "second: started" in again
    everything = run(tmp_path, "finish", run_id="everything").stdout
    assert (
        everything.count("reused, nothing it reads has changed") == 2
    )  # the second kept its result though it ran anew
    assert "started" not in everything
    changed = run(tmp_path, "finish", run_id="changed", text="another").stdout
    assert "first: started" in changed
    assert "second: started" in changed


@pytest.mark.slow
def test_a_killed_run_keeps_what_it_had_finished(tmp_path):
    with subprocess.Popen(command(tmp_path, "run", "hello", "sleep"), env=environment()) as runner:
        file = tmp_path / "kfp/run/pid"
        assert wait_for(lambda: file.exists() and file.read_text())
        runner.kill()
    assert wait_for(lambda: not alive(int(file.read_text())))
    assert "first: reused" in run(tmp_path, "finish").stdout


@pytest.mark.parametrize(
    ("what", "failure"),
    [
        ("mistake", {"kind": "user", "message": "The number is too small: give a larger one.", "exit_code": 2}),
        ("defect", {"kind": "defect", "message": "ZeroDivisionError: our fault", "exit_code": 1}),
    ],
)
def test_a_failed_step_leaves_its_sentence(tmp_path, what, failure):
    result = run(tmp_path, what)
    assert result.returncode == 1
    assert "second: failed" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr
    assert json.loads((tmp_path / "kfp/run/failure.json").read_text()) == {"step": "second", **failure}
    assert run(tmp_path, "finish").returncode == 0
    assert not (tmp_path / "kfp/run/failure.json").exists()


def test_a_killed_step_fails_the_run_without_a_sentence(tmp_path):
    assert run(tmp_path, "vanish").returncode == 1
    assert not (tmp_path / "kfp/run/failure.json").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_nothing_outlives_a_stopped_runner(tmp_path, number, code):
    with subprocess.Popen(command(tmp_path, "run", "hello", "sleep"), env=environment()) as runner:
        file = tmp_path / "kfp/run/pid"
        assert wait_for(lambda: file.exists() and file.read_text())
        step = int(file.read_text())
        assert alive(step)
        runner.send_signal(number)
        assert runner.wait(20) == code
    assert wait_for(lambda: not alive(step))


def test_a_run_under_way_cannot_be_started_twice(tmp_path):
    log = tmp_path / "runs/run/log.txt"
    log.parent.mkdir(parents=True)
    with log.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        result = run(tmp_path, "finish")
    assert result.returncode == 1
    assert "Run run is at work in another process" in result.stderr


def test_on_a_terminal_the_steps_are_a_table(tmp_path):
    terminal, inside = pty.openpty()
    with subprocess.Popen(
        command(tmp_path, "run", "hello", "finish"),
        env={**environment(), "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"},
        stdin=subprocess.DEVNULL,
        stdout=inside,
        stderr=inside,
    ) as runner:
        os.close(inside)
        shown = b""
        while True:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the terminal is gone with its last process
                break
            if not data:
                break
            shown += data
        assert runner.wait(20) == 0
    os.close(terminal)
    last = shown.decode().split("\x1b[2K")[-1]
    assert "✓" in shown.decode()
    assert "second" in last
    assert "only for the log" not in shown.decode()
    assert "[/]" not in shown.decode()  # markup that nobody rendered
