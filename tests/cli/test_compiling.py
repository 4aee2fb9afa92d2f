"""The compiled file: small, the same bytes each time, and what stock kfp can load."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kfp.components import load_component_from_file

from cli.main import main

ROOT = Path(__file__).resolve().parent.parent.parent
MOST_BYTES = 200_000


@pytest.fixture
def compile_into(tmp_path):
    def run(name: str, hash_seed: str) -> Path:
        file = tmp_path / name
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TAG": "fixed"}
        environment.pop("REGISTRY", None)
        command = [sys.executable, str(ROOT / "pipeline.py"), "compile", "-o", str(file)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return file

    return run


def test_it_is_small_and_the_same_each_time(compile_into):
    first, second = compile_into("first.yaml", "1"), compile_into("second.yaml", "2")
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size <= MOST_BYTES
    assert str(ROOT) not in first.read_text()


def test_evaluate_only_is_compiled_by_name(tmp_path, monkeypatch):
    from cli.parameters import EVALUATE_ONLY, pipeline_parameters

    monkeypatch.setenv("TAG", "fixed")
    monkeypatch.delenv("REGISTRY", raising=False)
    file = tmp_path / "evaluate.yaml"
    with pytest.raises(SystemExit) as ended:
        main(["compile", "-o", str(file), "--pipeline", EVALUATE_ONLY])
    assert ended.value.code == 0
    loaded = load_component_from_file(str(file))
    assert loaded.pipeline_spec.pipeline_info.name == EVALUATE_ONLY
    assert set(loaded.component_spec.inputs) == set(pipeline_parameters(EVALUATE_ONLY))


def test_stock_kfp_loads_it_with_every_parameter(compile_into):
    from cli.parameters import pipeline_parameters

    loaded = load_component_from_file(str(compile_into("pipeline.yaml", "0")))
    inputs = loaded.component_spec.inputs
    assert set(inputs) == set(pipeline_parameters())
    assert inputs["code_version"].default
    assert inputs["node_selector"].default == {}


def test_what_cannot_be_written_is_said(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        main(["compile", "-o", str(tmp_path / "file/pipeline.yaml")])
    assert ended.value.code == 2
    assert "cannot be written" in capsys.readouterr().err
