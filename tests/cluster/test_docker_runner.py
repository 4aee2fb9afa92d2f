"""kfp's local Docker runner runs the same steps in their images, with the code that the images hold."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.conftest import Images

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = pytest.mark.cluster


@pytest.mark.timeout(1800)
def test_the_whole_pipeline_runs_in_its_images(images: Images, sandbox_url: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "demo/model", tmp_path / "model")
    shutil.copytree(ROOT / "demo/problems", tmp_path / "problems")
    program = Path(__file__).with_name("docker_run.py")
    environment = {**os.environ, "REGISTRY": images.registry, "TAG": images.tag, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), sandbox_url],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    run = tmp_path / "store/runs/docker"
    evaluation = json.loads((run / "evaluate/evaluation.json").read_text())
    assert evaluation["problems"] == 4
    assert json.loads((run / "status.json").read_text())["outcome"] == "succeeded"
    for step in ("prepare", "train", "evaluate"):
        assert f"{images.registry}/grpo-code-{step}:{images.tag}" in done.stdout + done.stderr
