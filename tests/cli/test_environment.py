"""A token in `.env` is read, wins over nothing that is set, and is never shown."""

import os

import pytest

from cli.environment import read_env_file
from cli.main import main
from components.shared.errors import UserError

TOKEN = "hf_" + "k" * 34


@pytest.fixture(autouse=True)
def no_token(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.delenv("HF_TOKEN")


def test_the_token_is_taken(tmp_path):
    (tmp_path / ".env").write_text(f"# mine\nexport HF_TOKEN='{TOKEN}'\nGRPO_STORE=/elsewhere\n")
    store = os.environ.get("GRPO_STORE")
    read_env_file(tmp_path)
    assert os.environ["HF_TOKEN"] == TOKEN
    assert os.environ.get("GRPO_STORE") == store


def test_the_environment_wins(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    (tmp_path / ".env").write_text(f"HF_TOKEN={TOKEN}\n")
    read_env_file(tmp_path)
    assert os.environ["HF_TOKEN"] == "hf_other"


@pytest.mark.parametrize("text", ["", "HF_TOKEN=\n", "HF_TOKEN\n", "no line of the kind\n"])
def test_a_file_without_a_token(tmp_path, text):
    (tmp_path / ".env").write_text(text)
    read_env_file(tmp_path)
    assert "HF_TOKEN" not in os.environ


def test_no_file(tmp_path):
    read_env_file(tmp_path)
    assert "HF_TOKEN" not in os.environ


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / ".env").write_bytes(b"HF_TOKEN=\xff\xfe\n")
    with pytest.raises(UserError, match=r"\.env cannot be read \(it is no UTF-8\)"):
        read_env_file(tmp_path)


def test_the_command_line_reads_it_and_shows_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRPO_STORE", str(tmp_path / "store"))
    (tmp_path / ".env").write_text(f"HF_TOKEN={TOKEN}\n")
    with pytest.raises(SystemExit) as ended:
        main(["local", "--model-name", "./nowhere"])
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert os.environ["HF_TOKEN"] == TOKEN
    assert TOKEN not in shown.out + shown.err
