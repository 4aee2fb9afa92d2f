"""The sandbox that belongs to a local run: it judges, it ends with the run, it does without Landlock if it must."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import urllib3

from cli import sandbox
from components.shared.errors import InfraError
from components.shared.sandbox import Item, SandboxClient

RIGHT = Item("def double(x):\n    return 2 * x\n", "double", "", ["assert double(2) == 4"], 5.0)
WRONG = Item("def double(x):\n    return x\n", "double", "", ["assert double(2) == 4"], 5.0)
ROOT = Path(__file__).resolve().parent.parent.parent

# Makes system call 444 (landlock_create_ruleset) fail with EOPNOTSUPP for this process and its children, as on a
# kernel without Landlock; then starts the sandbox, prints its address and waits.
RUNNER = textwrap.dedent(
    """
    import ctypes, struct, sys, time
    from pathlib import Path
    from cli.sandbox import running_sandbox

    if sys.argv[2] == "no-landlock":
        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
        code = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | 95), (0x06, 0, 0, 0x7FFF0000)]
        filled = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
        program = Program(len(code), ctypes.addressof(filled))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.prctl(38, 1, 0, 0, 0) == 0
        assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
    with running_sandbox(Path(sys.argv[1]), lambda text: print(text, flush=True)) as url:
        print(url, flush=True)
        time.sleep(600)
    """
)


def gone(url: str) -> bool:
    try:
        urllib3.PoolManager(retries=False).request("GET", url + "/healthz", timeout=2.0)
    except urllib3.exceptions.HTTPError:
        return True
    return False


def start_runner(log: Path, kind: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RUNNER, str(log), kind]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_it_judges_while_the_run_lasts_and_is_gone_afterwards(tmp_path, monkeypatch):
    monkeypatch.setenv("SANDBOX_TOKEN", "the service must not see this")
    warnings: list[str] = []
    with sandbox.running_sandbox(tmp_path / "log", warnings.append) as url:
        right, wrong = SandboxClient(url).judge([RIGHT, WRONG])
        assert (right.passed, wrong.passed) == (True, False)
    assert gone(url)


def test_it_ends_with_a_runner_that_is_killed(tmp_path):
    with start_runner(tmp_path / "log", "plain") as runner:
        url = runner.stdout.readlines(1)[-1].strip()
        while not url.startswith("http://"):  # a warning where this kernel has no Landlock
            url = runner.stdout.readline().strip()
        assert not gone(url)
        runner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while not gone(url):
        assert time.monotonic() < deadline, "the sandbox still answers"
        time.sleep(0.1)


def test_without_landlock_it_warns_and_judges(tmp_path):
    with start_runner(tmp_path / "log", "no-landlock") as runner:
        try:
            warning, url = runner.stdout.readline(), runner.stdout.readline().strip()
            assert "no Landlock" in warning
            assert SandboxClient(url).judge([RIGHT])[0].passed is True
        finally:
            runner.send_signal(signal.SIGTERM)


def test_a_service_that_does_not_start_is_an_infrastructure_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "FOLDER", tmp_path)  # holds no package named sandbox
    with (
        pytest.raises(InfraError, match="No module named sandbox"),
        sandbox.running_sandbox(tmp_path / "log", print),
    ):
        raise AssertionError("never reached")
