"""Fixtures that several folders of tests share: the demo's model, and a real sandbox."""

import inspect
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.sandbox import running_sandbox
from components.shared.problem import Problem
from tests.browsing import opened_browser
from tests.builders import make_problem

ROOT = Path(__file__).resolve().parent.parent
DEMO_MODEL = ROOT / "demo/model"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# kfp asks for the stack at every setting of a task; with lines of source that takes seconds a compile beside torch.
inspect.stack.__defaults__ = (0,)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background jobs have it, and all that they start
    signal.signal(signal.SIGINT, signal.default_int_handler)


def problems_of(file: Path, count: int | None = None) -> list[Problem]:
    """The first problems of a file in MBPP's format, in the form that prepare writes."""
    problems = []
    for row in map(json.loads, file.read_text().splitlines()[:count]):
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


def demo_problems(count: int) -> list[Problem]:
    """The demo's first training problems."""
    return problems_of(ROOT / "demo/problems/train.jsonl", count)


@pytest.fixture
def browser() -> Iterator[Any]:
    """A real browser; for tests marked `browser`."""
    with opened_browser() as opened:
        yield opened


@pytest.fixture
def free_port() -> int:
    """A loopback port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def sandbox_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a sandbox service that runs for the whole session."""
    with running_sandbox(tmp_path_factory.mktemp("sandbox") / "log.txt", warn=print) as url:
        yield url


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
