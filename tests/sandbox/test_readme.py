"""The commands of the sandbox's README, as they stand there but for the port: it starts, and answers what is asked."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.commands import commands_of

FOLDER = ROOT / "images/sandbox"
COMMANDS = [line for line in commands_of(FOLDER / "README.md") if line.startswith(("python -m sandbox", "curl"))]


def bash(command: str, **more: object) -> "subprocess.Popen[str]":
    own = command.replace("python -m", f"{sys.executable} -m")
    return subprocess.Popen(["bash", "-c", f"exec {own}"], cwd=FOLDER, text=True, **{"stdout": subprocess.PIPE, **more})


@pytest.mark.slow
def test_it_starts_and_answers(free_port: int, tmp_path: Path) -> None:
    if not shutil.which("curl"):
        pytest.skip("there is no curl")
    start, self_test, verdicts, outputs = (line.replace("8080", str(free_port)) for line in COMMANDS)
    with bash(self_test) as done:
        assert "seccomp" in done.communicate(timeout=60)[0]
    assert done.returncode in (0, 1)  # 1 where this kernel lacks a layer that the service asks for by default
    with (tmp_path / "log.txt").open("w") as log, bash(start, stdout=log) as service:
        try:
            deadline = time.monotonic() + 60
            while not re.search("listening on", (tmp_path / "log.txt").read_text()) and time.monotonic() < deadline:
                time.sleep(0.1)
            answers = []
            for line in (verdicts, outputs):
                with bash(f"{line} --retry 20 --retry-all-errors --retry-delay 1") as asked:
                    answers.append(json.loads(asked.communicate(timeout=60)[0]))
        finally:
            service.terminate()
    assert [one["passed"] for one in answers[0]["verdicts"]] == [True]
    assert "[3, 3, 3]" in json.dumps(answers[1])
