"""`pipeline.py plan`: from a model's config alone, without its weights, the hub, a GPU or a run."""

import json
from pathlib import Path

import pytest

from cli.main import main
from components.shared.errors import UserError
from components.shared.mirror import folder_of_model
from components.shared.model_config import read_config
from components.shared.store import open_store
from tests.train.test_plan import QWEN_1_5B, QWEN_7B


@pytest.fixture
def config_alone(tmp_path: Path) -> Path:
    """A model directory that holds nothing but config.json."""
    (tmp_path / "config.json").write_text(json.dumps(QWEN_7B))
    return tmp_path


def plan(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["plan", *arguments])
    return int(ended.value.code or 0)


def test_it_says_memory_tokens_time_and_price(
    config_alone: Path, store_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan("--model-name", str(config_alone), "--gpu", "h100", "--hourly-rate", "3") == 0
    told = capsys.readouterr().out
    assert "7616 M parameters" in told
    words = {line.split("  ")[0].strip(): line for line in told.splitlines() if line}
    assert "reference" not in told  # lora needs no copy
    assert "600 of 8 completions" in words["Steps"]
    assert "0.922 M written" in words["Tokens"]
    assert "on one H100" in words["GPU time"]
    assert "at 3 an hour and GPU" in words["Price"]
    assert "The times assume:" in words
    assert not store_root.exists()  # a plan leaves nothing


def test_several_gpus_cost_what_they_are_held_for(config_alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prices = []
    for gpus in ("1", "3"):
        assert plan("--model-name", str(config_alone), "--gpu", "h100", "--hourly-rate", "3", "--gpus", gpus) == 0
        told = capsys.readouterr().out
        prices.append(float(next(line.split()[1] for line in told.splitlines() if line.startswith("Price"))))
    assert "on 3 H100 a step, train using 2 of them" in told
    assert prices[1] > prices[0]


def test_what_does_not_fit_is_refused(config_alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("--model-name", str(config_alone), "--method", "full", "--gpu-memory", "24") == 2
    assert "the GPU has 24.0 GiB: use method lora." in capsys.readouterr().err
    assert plan("--model-name", str(config_alone), "--gpu", "T4") == 2
    assert "use method qlora" in capsys.readouterr().err
    assert plan("--model-name", str(config_alone), "--gpu", "H1000") == 2
    assert "use one of T4, L4" in capsys.readouterr().err
    assert plan("--model-name", str(config_alone), "--hourly-rate", "-1") == 2
    assert "--hourly-rate -1 is out of range" in capsys.readouterr().err


def test_a_t4_is_planned_in_fp16_as_training_runs_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN_1_5B))
    full = ("--model-name", str(tmp_path), "--method", "full", "--beta", "0", "--micro-batch-size", "1")
    assert plan(*full, "--gpu", "T4") == 2
    assert "use method lora." in capsys.readouterr().err
    assert plan(*full, "--gpu", "L4") == 0
    (fits,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  fits")]
    assert (fits[1], "T4," in fits) == ("L4,", False)
    assert plan(*full, "--gpu", "T4", "--precision", "bf16") == 0
    assert "  fits             T4, L4" in capsys.readouterr().out


def test_without_a_gpu_there_is_no_time_but_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("--params", "demo/parameters.toml", "--gpus", "0") == 0
    told = capsys.readouterr().out
    assert "60 of 32 completions" in told
    assert "not estimated for a CPU" in told


def test_a_config_is_read_from_the_store_too(config_alone: Path, store_root: Path) -> None:
    text = (config_alone / "config.json").read_bytes()
    open_store().write(f"{folder_of_model('owner/model', 'abc')}/config.json", text)
    assert read_config("owner/model", "abc") == QWEN_7B


@pytest.mark.parametrize(("text", "said"), [("{", "is not JSON"), ("{}", "names no model_type")])
def test_a_config_that_is_none_is_one_sentence(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=said):
        read_config(str(tmp_path), "")
    (tmp_path / "config.json").unlink()
    with pytest.raises(UserError, match=r"config\.json is missing"):
        read_config(str(tmp_path), "")
