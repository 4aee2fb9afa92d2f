"""Every command that the pages show is run as it stands there, or is listed with the reason why not here."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cli import bootstrap
from tests.cli.small_kfp import SmallKfp, small_kfp
from tests.conftest import DEMO_MODEL, ROOT
from tests.docs.commands import PAGES, commands_of, fault
from tests.docs.stories import ELSEWHERE, STORIES, Step
from tests.prepare.examples import full_row, write_hub_copy
from tests.small_hub import Repository, hub_of

OWN = ("GRPO_", "KFP_", "S3_", "HF_", "REGISTRY", "TAG", "MAKE", "MFLAGS")  # what a reader has not set
SECONDS = 400.0  # that one command may take


def test_every_command_is_run_here_or_is_listed_with_the_reason_why_not() -> None:
    shown = {command: page.name for page in PAGES for command in commands_of(page)}
    here = [step.command for story in STORIES.values() for step in story]
    listed = {*here, *(command for commands in ELSEWHERE.values() for command in commands)}
    assert {command: page for command, page in shown.items() if command not in listed} == {}
    assert listed <= set(shown), "no page shows these any more"
    assert len(set(here)) == len(here)


def test_a_shell_can_read_every_command() -> None:
    for page in PAGES:
        for command in commands_of(page):
            assert fault(command) == "", command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as a fresh clone has it, set up."""
    ready = Path(sys.prefix) / "ready"
    digest = hashlib.sha256(bootstrap.EVERYTHING.read_bytes()).hexdigest()
    if not ready.is_file() or ready.read_text() != digest:
        pytest.skip("`make setup` has not made this environment: `make run` would install into it")
    place = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    (place / ".venv").symlink_to(sys.prefix)
    return place


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A reader's: nothing of ours is set, and no hub is reached."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    home = tmp_path_factory.mktemp("hub-cache")
    return {**own, "HF_HUB_OFFLINE": "1", "HF_HOME": str(home), "KUBECONFIG": "/nowhere"}


def told(step: Step, folder: Path, environment: Mapping[str, str]) -> None:
    """Run a step, with the ids of runs for RUN, and hold it to what it must say."""
    ids = sorted(path.parent.parent.name for path in folder.glob("out/runs/*/evaluate/evaluation.json"))
    command = step.command.replace("SCHEDULE", "s1")
    while re.search(r"\bRUN\b", command):
        command = re.sub(r"\bRUN\b", ids.pop(0), command, count=1)
    with subprocess.Popen(
        ["bash", "-c", f"source .venv/bin/activate\n{command}"], cwd=folder, env=dict(environment),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines, deadline = [], time.monotonic() + SECONDS
        for line in process.stdout:
            lines.append(line)
            if (step.until and step.until in line) or time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        code = process.wait(30)
    said = "".join(lines)
    assert code == step.code, f"{command}\n{said}"
    assert re.search(step.says, said), f"{command}\n{said}"
    assert "Traceback" not in said, said


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("story", ["the demo", "SQL", "the sources"])
def test_a_story_that_needs_nothing_but_the_clone(story: str, folder: Path, environment: dict[str, str]) -> None:
    before = (folder / "README.md").read_text()
    for step in STORIES[story]:
        told(step, folder, environment)
    assert (folder / "README.md").read_text() == before


@pytest.fixture(scope="module")
def hub(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A hub with a data set of MBPP's name and sizes, made of the demo's and of made-up problems, and its model."""
    sizes, rows = {"train": 374, "test": 500, "validation": 90, "prompt": 10}, {}
    for number, (split, size) in enumerate(sizes.items(), start=1):
        file = folder / f"demo/problems/{split}.jsonl"
        demo = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        known = [{name: row[name] for name in ("task_id", "text", "code", "test_list")} for row in demo]
        more = [full_row(1000 * number + place) for place in range(size - len(known))]
        rows[split] = [*({**full_row(0), **row} for row in known), *more]
    mbpp = write_hub_copy(tmp_path_factory.mktemp("hub") / "mbpp", "full", rows)
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows["test"][:8]))
    models = [Repository(f"Qwen/Qwen2.5-Coder-{size}B", DEMO_MODEL, "models") for size in ("0.5", "7")]
    with hub_of(Repository("google-research-datasets/mbpp", mbpp), *models) as address:
        yield address


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_story_of_a_model_of_the_hub(folder: Path, environment: dict[str, str], hub: str) -> None:
    """As far as a laptop gets in seconds: to the end, or to the first step of training."""
    for step in STORIES["a model of the hub"]:
        told(step, folder, {**environment, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub})


@pytest.mark.slow
def test_the_story_of_plans(folder: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """With the true config.json of the model, and no weights."""
    from tests.train.test_plan import QWEN_7B  # which imports torch

    (tmp_path / "config.json").write_text(json.dumps(QWEN_7B))
    own = {**environment, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "cache")}
    with hub_of(Repository("Qwen/Qwen2.5-Coder-7B", tmp_path, "models")) as address:
        for step in STORIES["plans"]:
            told(step, folder, {**own, "HF_ENDPOINT": address})


@pytest.fixture
def kfp() -> Iterator[SmallKfp]:
    with small_kfp() as server:
        server.states = ["PENDING", "RUNNING", "SUCCEEDED"]
        yield server


@pytest.mark.slow
def test_the_story_of_what_kubeflow_pipelines_is_sent(
    folder: Path, environment: dict[str, str], hub: str, kfp: SmallKfp
) -> None:
    own = {**environment, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub, "KFP_ENDPOINT": kfp.url, "TAG": "docs"}
    for step in STORIES["what Kubeflow Pipelines is sent"]:
        told(step, folder, own)
    assert {body["display_name"] for body in kfp.bodies("/recurringruns")} == {"nightly"}
    models = {run["runtime_config"]["parameters"]["model_name"] for run in kfp.bodies("/runs")}
    assert models == {"Qwen/Qwen2.5-Coder-7B"}
