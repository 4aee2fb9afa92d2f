"""Fixtures that several folders of tests share: the demo's model, and a real sandbox."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.shared.problem import Problem
from tests.builders import make_problem

ROOT = Path(__file__).resolve().parent.parent
DEMO_MODEL = ROOT / "demo/model"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def demo_problems(count: int, split: str = "train") -> list[Problem]:
    """The first problems of a split of the demo, in the form that prepare writes."""
    lines = (ROOT / f"demo/problems/{split}.jsonl").read_text().splitlines()[:count]
    problems = []
    for row in map(json.loads, lines):
        signature = row["code"].split("\n")[0]
        problems.append(
            make_problem(
                str(row["task_id"]),
                prompt=f"{row['text']}\n\n{signature}",
                entry_point=signature.removeprefix("def ").split("(")[0],
                tests=row["test_list"],
                reference=row["code"],
            )
        )
    return problems


@pytest.fixture(scope="session")
def sandbox_url() -> Iterator[str]:
    """The address of a sandbox service that runs for the whole session."""
    command = [sys.executable, "-m", "sandbox", "--port", "0", "--workers", "2", "--exit-with-parent"]
    with subprocess.Popen(
        command, cwd=ROOT / "images/sandbox", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdout is not None
        line = service.stdout.readline()
        assert "listening on" in line, f"the sandbox did not start: {line!r}"
        yield line.split()[-1]
        service.terminate()
        service.wait(20)


@pytest.fixture
def local_sandbox(sandbox_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make every step judge at the test's sandbox, as the local runner does."""
    monkeypatch.setenv("GRPO_SANDBOX_URL", sandbox_url)
    return sandbox_url


@pytest.fixture
def store_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of the test's own, in which steps write."""
    root = tmp_path / "store"
    monkeypatch.setenv("GRPO_STORE", str(root))
    return root
