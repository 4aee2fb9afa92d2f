"""`make e2e` says how long each part took, what it skipped, and what it left to another half."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import e2e

ROOT = Path(__file__).resolve().parent.parent
SOME = """
import pytest
@pytest.mark.kfp
def test_passes(): pass
@pytest.mark.kfp
def test_is_skipped(): pytest.skip("no such thing here")
@pytest.mark.kfp
def test_fails(): assert False
@pytest.mark.gpu
@pytest.mark.kfp
def test_is_another_ones(): pass
"""


@pytest.mark.slow
def test_parts_and_reasons_are_told(tmp_path, monkeypatch):
    (tmp_path / "test_some.py").write_text(SOME)
    monkeypatch.setenv("KFP_ENDPOINT", "http://127.0.0.1:1")
    command = [sys.executable, "-m", "tests.e2e", "kfp", str(tmp_path / "test_some.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    (part,) = [line for line in lines if " s  1 passed, 1 failed, 1 skipped" in line]
    assert "test_some.py" in part
    assert "skipped 1: no such thing here" in lines
    assert "left out 1 marked gpu: on a machine with a GPU: pytest -m gpu" in lines


@pytest.mark.slow
def test_so_they_are_of_tests_that_run_side_by_side(tmp_path, monkeypatch):
    """In the half that needs no Kubeflow Pipelines; what each process has left out counts once."""
    (tmp_path / "test_some.py").write_text(SOME.replace("kfp", "cluster"))
    (tmp_path / "test_more.py").write_text("import pytest\n@pytest.mark.cluster\n@pytest.mark.kfp\ndef test(): pass\n")
    command = [sys.executable, "-m", "tests.e2e", "cluster", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if " s  1 passed, 1 failed, 1 skipped" in line]
    assert "skipped 1: no such thing here" in lines
    assert "left out 1 marked gpu: on a machine with a GPU: pytest -m gpu" in lines
    assert "left out 1 marked kfp: make e2e-kfp KFP_ENDPOINT=…" in lines


@pytest.mark.parametrize("arguments", [[], ["all"], ["kfp"]])
def test_what_is_missing_is_said(arguments, monkeypatch, capsys):
    monkeypatch.delenv("KFP_ENDPOINT", raising=False)
    assert e2e.main(arguments) == 2
    assert "tests.e2e: " in capsys.readouterr().err
