"""The command line: what is refused, in which words, and with which exit code; nothing is started by these."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cli.main import main

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = (
    f"--params {ROOT}/demo/parameters.toml --model-name {ROOT}/demo/model --dataset {ROOT}/demo/problems "
    f"--regression-dataset {ROOT}/demo/regression.jsonl"
)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("local --max-evl-samples 3", "There is no option --max-evl-samples. Did you mean --max-eval-samples?"),
        ("local --max_evl_samples 3", "There is no option --max-evl-samples. Did you mean --max-eval-samples?"),
        ("local --xyz 3", "There is no option --xyz. `--help` lists all."),
        ("local --epochs two", "--epochs 'two' is not a whole number: write it like 8."),
        ("local --lr much", "--lr 'much' is not a number: write it like 0.5."),
        ("local --lr nan", "lr nan is out of range: it must be greater than 0 and at most 1."),
        ("local --epochs 0", "epochs 0 is out of range: it must be at least 1 and at most 1000."),
        ("local --run-id a/b", "--run-id 'a/b' is no run id: use letters, digits, dots, dashes and underscores."),
        ("local extra", "Got unexpected extra argument (extra): `--help` lists what there is."),
        ("lokal", "No such command 'lokal'. Did you mean 'local'?"),
        ("compile", "Missing option '-o' / '--output': `--help` lists what there is."),
        ("compile -o pipeline.txt", "-o pipeline.txt is no name for a pipeline: it must end in .yaml or .yml."),
    ],
)
def test_a_wrong_command_line(refused, line, sentence):
    assert refused(line.replace("local --run-id", f"local {DEMO} --run-id")) == sentence


def test_a_batch_that_does_not_divide_says_what_would(refused):
    sentence = refused("local --batch_size 12 --num-generations 8")
    assert "batch_size 8 or 16" in sentence
    assert "num_generations 2 or 3 or 4 or 6 or 12" in sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("max_evl_samples = 3", "there is no parameter 'max_evl_samples'. Did you mean max_eval_samples?"),
        ('epochs = "two"', "epochs 'two' is not a whole number: write it like 8."),
        ("epochs = true", "epochs True is not a whole number: write it like 8."),
        ("use_filter = 1", "use_filter 1 is not true or false: write it like true."),
        ("model_name = 7", 'model_name 7 is not text: write it like "text".'),
        ("[train]\nepochs = 1", "there is no parameter 'train'."),
        ("epochs 1", "is not TOML"),
    ],
)
def test_a_wrong_parameter_file(refused, tmp_path, text, sentence):
    file = tmp_path / "parameters.toml"
    file.write_text(text)
    assert sentence in refused(f"local --params {file}")


def test_a_missing_parameter_file(refused):
    assert "nowhere.toml does not exist" in refused("local --params nowhere.toml")


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--model-name ./nowhere", "The model directory ./nowhere does not exist"),
        ("--model-name nobody/nothing", "The model 'nobody/nothing' is no local directory"),
        ("--model-name -x-", "The model directory -x- does not exist"),
        ("--model-name a--b", "The model 'a--b' is neither a local directory nor a name on the hub."),
        ("--dataset nowhere.jsonl", "The data set nowhere.jsonl does not exist"),
        ("--dataset mbpp", "The data set 'google-research-datasets/mbpp' is no local file or directory"),
        ("--dataset-revision other", "dataset_revision 'other' is not what"),
    ],
)
def test_inputs_that_do_not_exist(refused, option, sentence):
    assert refused(f"local {DEMO} {option}").startswith(sentence)


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("tokenizer.json", "has no tokenizer: tokenizer.json or tokenizer.model or vocab.json is missing."),
        ("config.json", "holds no model: config.json is missing."),
        ("model.safetensors", "has no weights: *.safetensors is missing."),
    ],
)
def test_a_model_directory_that_lacks_something(refused, tmp_path, missing, sentence):
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "demo/model", folder)
    (folder / missing).unlink()
    assert refused(f"local {DEMO} --model-name {folder}").endswith(sentence)


def test_a_store_that_is_none(refused, monkeypatch):
    monkeypatch.setenv("GRPO_STORE", "gs://bucket")
    assert refused(f"local {DEMO}") == "The store 'gs://bucket' is neither a directory nor s3://bucket/prefix."


def test_compile_writes_a_pipeline_whose_cache_knows_the_code(tmp_path, capsys):
    from cli.revisions import code_version

    file = tmp_path / "new" / "pipeline.yaml"
    with pytest.raises(SystemExit) as ended:
        main(["compile", "-o", str(file)])
    assert ended.value.code == 0
    assert str(file) in capsys.readouterr().out
    specification, _ = yaml.safe_load_all(file.read_text())
    parameters = specification["root"]["inputDefinitions"]["parameters"]
    assert parameters["code_version"]["defaultValue"] == code_version()
    assert parameters["epochs"]["defaultValue"] == 2


def test_a_reader_that_has_seen_enough_is_no_failure_to_tell_of():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, str(ROOT / "pipeline.py"), "local", "--help"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_ctrl_c_while_modules_are_loaded_is_one_word(tmp_path):
    (tmp_path / "kfp.py").write_text("print('loading', flush=True); import time; time.sleep(60)")
    with subprocess.Popen(
        [sys.executable, str(ROOT / "pipeline.py"), "runs", "list"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr.read() == "\nStopped.\n"


@pytest.mark.parametrize(
    ("line", "says"), [("help", "Verbs:"), ("help plan", "--hourly-rate"), ("", "no cluster and no GPU needed")]
)
def test_help_is_a_word_too(capsys, line, says):
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 0
    assert says in capsys.readouterr().out


def test_help_shows_every_parameter_and_its_default(capsys):
    from cli.parameters import pipeline_parameters

    with pytest.raises(SystemExit) as ended:
        main(["local", "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(parameter.flag in shown for parameter in pipeline_parameters().values())
    assert "--use-filter / --no-use-filter" in shown
