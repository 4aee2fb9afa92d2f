"""Setting up: what is said on machines that will not do, and after an interrupted set-up."""

import hashlib
import sys
from pathlib import Path

import pytest

from cli import bootstrap


def test_other_systems_and_old_pythons_get_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap.check_machine()
    for system, machine in (("Darwin", "arm64"), ("Windows", "AMD64"), ("Linux", "riscv64")):
        with monkeypatch.context() as patch:
            patch.setattr("platform.system", lambda system=system: system)
            patch.setattr("platform.machine", lambda machine=machine: machine)
            with pytest.raises(SystemExit) as ended:
                bootstrap.check_machine()
        assert ended.value.code == 2
        assert capsys.readouterr().err.startswith(f"{system} on {machine} is not supported: run this in a Linux")
    monkeypatch.setattr(sys, "version_info", (3, 9))
    with pytest.raises(SystemExit) as ended:
        bootstrap.check_machine()
    assert ended.value.code == 2
    assert "Python 3.11 or newer is needed" in capsys.readouterr().err


def broken_python(folder: Path, *, venv: bool) -> str:
    """A python whose venv module is missing, or whose environments have a pip that cannot download."""
    program = folder / "python"
    making = 'mkdir -p "$3/bin" && printf "#!/bin/sh\\necho no network >&2; exit 1\\n" > "$3/bin/python"'
    program.write_text("#!/bin/sh\n" + (f'{making} && chmod +x "$3/bin/python"\n' if venv else "exit 1\n"))
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / "venv")
    monkeypatch.setattr(bootstrap, "READY", tmp_path / "venv/ready")
    return tmp_path


def test_a_missing_venv_module_is_named_and_leaves_nothing(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", broken_python(fresh, venv=False))
    with pytest.raises(SystemExit) as ended:
        bootstrap.install()
    assert ended.value.code == 2
    assert "install its venv module" in capsys.readouterr().err
    assert not (fresh / "venv").exists()


def test_a_failed_download_is_said_and_the_next_try_starts_over(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        monkeypatch.setattr(sys, "executable", broken_python(fresh, venv=True))
        with pytest.raises(SystemExit) as ended:
            bootstrap.install()
        assert ended.value.code == 1
        said = capsys.readouterr().err
        assert "no network" in said
        assert "uv could not be installed by pip" in said
        assert not (fresh / "venv/ready").exists()


def test_what_is_set_up_is_not_set_up_again(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fresh / "venv").mkdir()
    ready = fresh / "venv/ready"
    ready.write_text(hashlib.sha256(bootstrap.EVERYTHING.read_bytes()).hexdigest())
    bootstrap.install()  # which would begin by making the environment
    assert capsys.readouterr().out == ""
    assert [path.name for path in (fresh / "venv").iterdir()] == ["ready"]
