"""The self-check of step images, tried in this environment, which holds the same pins; the images run it themselves."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from components import selfcheck
from components.images import STEPS

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("step", STEPS)
def test_this_environment_has_the_pinned_versions(step: str) -> None:
    assert list(selfcheck.wrong_versions(step)) == []
    assert {"pydantic", "minio", "rich"} <= set(selfcheck.wanted(step))
    assert ("torch" in selfcheck.wanted(step)) == (step != "prepare")


def test_a_wrong_version_and_a_missing_package_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "images/prepare"
    folder.mkdir(parents=True)
    (folder / "requirements.in").write_text("# a comment\nrich==1.0\nno_such.package==2\n")
    (folder / "requirements.txt").write_text("rich==1.0\nno-such-package==2\nonly-elsewhere==3 ; sys_platform == 'x'\n")
    (tmp_path / "images/kfp.txt").write_text("kfp==2.17.3\n")
    monkeypatch.setattr(selfcheck, "ROOT", tmp_path)
    found = list(selfcheck.wrong_versions("prepare"))
    assert len(found) == 2
    assert found[0].startswith("rich is ")
    assert found[0].endswith(": 1.0 is pinned")
    assert found[1] == "no-such-package is not installed: 2 is pinned"


def test_a_module_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfcheck, "EXECUTOR", "kfp.no_such_module")
    monkeypatch.setattr(selfcheck, "wanted", lambda step: [])
    monkeypatch.setenv("_KFP_RUNTIME", "true")
    found = list(selfcheck.failed_imports("prepare"))
    assert found == ["kfp.no_such_module cannot be imported: ModuleNotFoundError: No module named 'kfp.no_such_module'"]


def test_caches_elsewhere_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in selfcheck.CACHES:
        monkeypatch.setenv(name, "/tmp/cache")
    assert list(selfcheck.wrong_folders("prepare")) == []
    monkeypatch.setenv("HF_HOME", "/home/somebody/.cache")
    monkeypatch.delenv("TRITON_CACHE_DIR")
    assert list(selfcheck.wrong_folders("prepare")) == [
        "HF_HOME is /home/somebody/.cache: a folder below /tmp is expected",
        "TRITON_CACHE_DIR is not set: a folder below /tmp is expected",
    ]


@pytest.mark.slow
def test_a_checkout_is_no_image_and_the_exit_code_says_so() -> None:
    command = [sys.executable, "-m", "components.selfcheck", "prepare"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    faults = json.loads(done.stdout)
    assert done.returncode == 1
    assert (faults["versions"], faults["imports"]) == ([], [])
    assert any("can be written to" in fault for fault in faults["user"])
