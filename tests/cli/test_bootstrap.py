"""Setting up: what is said on machines that will not do, and after an interrupted set-up."""

import ast
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli import bootstrap
from tests.conftest import ROOT


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


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("Error: [Errno 13] Permission denied: '/x/.venv'", "must be writable"),
        ("Error: [Errno 28] No space left on device", "room for about 6 GB"),
        ("python: No module named venv", "install its venv module"),
    ],
)
def test_what_keeps_an_environment_from_being_made_is_said(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str, sentence: str
) -> None:
    program = fresh / "python"
    program.write_text(f'#!/bin/sh\necho "{said}" >&2; exit 1\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(SystemExit) as ended:
        bootstrap.install()
    shown = capsys.readouterr().err
    assert (ended.value.code, shown.count("\n")) == (2, 1)
    assert sentence in shown


def test_a_uv_that_was_cut_off_is_installed_again(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (fresh / "venv/bin").mkdir(parents=True)
    (fresh / "venv/bin/uv").write_bytes(b"\x7fELF")
    (fresh / "venv/bin/uv").chmod(0o755)
    monkeypatch.setattr(sys, "executable", broken_python(fresh, venv=True))
    with pytest.raises(SystemExit):
        bootstrap.install()
    assert "uv could not be installed by pip" in capsys.readouterr().err, "it took the broken one"


def test_ctrl_c_in_the_set_up_says_how_to_go_on(tmp_path: Path) -> None:
    """A copy of the file in a folder of its own, whose pip never ends."""
    (tmp_path / "cli").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/requirements.txt").write_text("")
    shutil.copy(ROOT / "cli/bootstrap.py", tmp_path / "cli")
    program = tmp_path / ".venv/bin/uv"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\n[ "$1" = pip ] || exit 0\necho > {tmp_path}/began\nexec sleep 60\n')
    program.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "cli/bootstrap.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as setup:
        deadline = time.monotonic() + 20
        while not (tmp_path / "began").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(setup.pid, signal.SIGINT)
        _, said = setup.communicate(timeout=20)
    assert setup.returncode == 130
    assert said == "\nStopped. What was fetched is kept; go on with the same command, or `make setup`.\n"
    assert not (tmp_path / ".venv/ready").exists()


def test_an_old_python_can_read_the_file_that_refuses_it() -> None:
    """As far as one can tell without one: its grammar, and no annotation that it would fail to evaluate."""
    tree = ast.parse((ROOT / "cli/bootstrap.py").read_text(), feature_version=(3, 6))
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        annotations = [function.returns, *(argument.annotation for argument in function.args.args)]
        assert not any(isinstance(one, ast.Subscript | ast.BinOp) for one in annotations), function.name
    assert not any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)


def test_the_command_line_outside_of_the_environment_says_how_to_enter_it(tmp_path: Path) -> None:
    """A bare Python, which has none of the packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True, timeout=60)
    bare = tmp_path / "bare/bin/python"
    command = [str(bare), str(ROOT / "pipeline.py"), "plan"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    way = r"run (`make setup`, then )?`source \.venv/bin/activate`\.\n"
    assert re.fullmatch(rf"{bare} lacks the packages of grpo-code: {way}", done.stderr)


@pytest.mark.parametrize("target", ["run", "images", "push", "deploy", "undeploy", "compile"])
def test_make_under_an_old_python_says_one_sentence(tmp_path: Path, target: str) -> None:
    """The old one is this one, told by its sitecustomize that it is 3.9."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.version_info = (3, 9, 1)")
    nowhere = {"KUBECONFIG": "/nowhere", "DOCKER_HOST": "tcp://127.0.0.1:9"}  # should it not be refused
    old = {**os.environ, **nowhere, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        ["make", target, f"PYTHON={sys.executable}"], cwd=ROOT, env=old, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if "***" not in line]
    assert len(lines) == 1
    assert "is too old: Python 3.11 or newer is needed (set PYTHON=/path/to/python3.11)." in lines[0]


def test_what_is_set_up_is_not_set_up_again(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fresh / "venv").mkdir()
    ready = fresh / "venv/ready"
    ready.write_text(hashlib.sha256(bootstrap.EVERYTHING.read_bytes()).hexdigest())
    bootstrap.install()  # which would begin by making the environment
    assert capsys.readouterr().out == ""
    assert [path.name for path in (fresh / "venv").iterdir()] == ["ready"]
