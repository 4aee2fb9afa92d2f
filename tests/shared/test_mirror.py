"""Models by way of the store: mirrored once, loaded only when every digest fits, the hub not needed afterwards."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from components.revisions import model_revision
from components.shared import mirror
from components.shared.errors import InfraError, UserError
from components.shared.manifest import MANIFEST
from components.shared.s3 import S3Store
from components.shared.store import open_store, upload_folder
from tests.buckets import own_bucket
from tests.small_hub import COMMIT, small_hub

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = "owner/model"


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    monkeypatch.setenv(mirror.CACHE_VARIABLE, str(tmp_path / "cache"))
    mirror.local_model.cache_clear()
    with own_bucket(monkeypatch) as address:
        yield address
    mirror.local_model.cache_clear()


@pytest.fixture
def model(tmp_path):
    """A model's repository with files that nobody needs for loading it."""
    folder = tmp_path / "hub"
    shutil.copytree(ROOT / "demo/model", folder)
    for name in ("README.md", "model.gguf", "pytorch_model.bin"):
        (folder / name).write_text("not needed")
    return folder


def fetch(address: str, tmp_path: Path, revision: str = COMMIT) -> "subprocess.CompletedProcess[str]":
    """The step, in a process of its own: the hub's library reads its environment when it is imported."""
    program = (
        "import sys\n"
        "from components.shared.errors import reported\n"
        "from components.shared.mirror import fetch_model\n"
        "with reported('fetch_model'):\n"
        "    fetch_model(*sys.argv[1:])\n"
    )
    environment = {**os.environ, "HF_ENDPOINT": address, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", program, MODEL, revision]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


def manifest_of(name: str, revision: str) -> dict:
    return json.loads(open_store().read(f"{mirror.folder_of_model(name, revision)}/{MANIFEST}"))


def test_a_hub_model_is_mirrored_once_and_then_loads_without_the_hub(bucket, model, tmp_path):
    with small_hub(MODEL, model, "models") as address:
        first = fetch(address, tmp_path)
    assert first.returncode == 0, first.stderr
    manifest = manifest_of(MODEL, COMMIT)
    assert set(manifest["files"]) == {path.name for path in (ROOT / "demo/model").iterdir()} - {"README.md"}
    assert manifest["revision"] == COMMIT
    again = fetch("http://hub.invalid", tmp_path)
    assert again.returncode == 0, again.stderr
    assert f"{MODEL} is in the store" in again.stdout
    folder, revision = mirror.local_model(MODEL, COMMIT)
    assert revision == ""
    for name in manifest["files"]:
        assert (Path(folder) / name).read_bytes() == (model / name).read_bytes()


def test_what_came_damaged_from_the_hub_is_not_kept(bucket, model, tmp_path):
    with small_hub(MODEL, model, "models", wrong_digest="0" * 64) as address:
        ended = fetch(address, tmp_path)
    assert ended.returncode == 1
    assert "model.safetensors of owner/model came damaged from the hub" in ended.stderr
    assert not open_store().exists(f"{mirror.folder_of_model(MODEL, COMMIT)}/{MANIFEST}")


def test_a_model_that_the_hub_does_not_have_is_the_users_mistake(bucket, model, tmp_path):
    with small_hub("some/other", model, "models") as address:
        ended = fetch(address, tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert "is unknown to the hub, or private" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_mirror_that_has_lost_a_file_is_made_again(bucket, model, tmp_path):
    with small_hub(MODEL, model, "models") as address:
        assert fetch(address, tmp_path).returncode == 0
        lost = f"{mirror.folder_of_model(MODEL, COMMIT)}/config.json"
        open_store().delete(lost)
        assert fetch(address, tmp_path).returncode == 0
        assert open_store().exists(lost)


def stored(bucket: str, *, own_manifest: bool) -> str:
    store = open_store()
    if own_manifest:
        mirror.upload_model(store, "my/model", ROOT / "demo/model")
    else:
        upload_folder(store, "my/model", ROOT / "demo/model")
    return f"{bucket}/my/model"


@pytest.mark.parametrize("own_manifest", [True, False])
def test_a_model_in_the_store_is_loaded_where_every_digest_fits(bucket, own_manifest):
    address = stored(bucket, own_manifest=own_manifest)
    revision = model_revision(address, "")
    assert model_revision(address, revision) == revision
    mirror.fetch_model(address, revision)
    folder, _ = mirror.local_model(address, revision)
    assert (Path(folder) / "model.safetensors").read_bytes() == (ROOT / "demo/model/model.safetensors").read_bytes()


def test_a_file_that_was_exchanged_is_not_loaded(bucket):
    address = stored(bucket, own_manifest=True)
    revision = model_revision(address, "")
    mirror.fetch_model(address, revision)
    open_store().write("my/model/model.safetensors", b"other weights")
    with pytest.raises(InfraError, match="is not the file whose digest was taken"):
        mirror.local_model(address, revision)


def test_what_is_on_the_disk_is_fetched_again_only_where_it_does_not_fit(bucket):
    address = stored(bucket, own_manifest=True)
    revision = model_revision(address, "")
    mirror.fetch_model(address, revision)
    folder = Path(mirror.local_model(address, revision)[0])
    whole = (folder / "model.safetensors").stat().st_mtime_ns
    (folder / "config.json").write_text("{")
    mirror.local_model.cache_clear()
    mirror.local_model(address, revision)
    assert (folder / "config.json").read_bytes() == (ROOT / "demo/model/config.json").read_bytes()
    assert (folder / "model.safetensors").stat().st_mtime_ns == whole


def test_two_runs_that_share_a_claim_fetch_the_same_model_at_once(bucket, monkeypatch):
    address = stored(bucket, own_manifest=True)
    revision = model_revision(address, "")
    mirror.fetch_model(address, revision)
    download, together, parts = S3Store.download, threading.Barrier(2, timeout=20), []

    def slowly(store, key, file):
        parts.append(file)
        together.wait()  # both have begun
        download(store, key, file)
        together.wait()  # both have ended, and neither has looked at what it got

    monkeypatch.setattr(S3Store, "download", slowly)
    load = mirror.local_model.__wrapped__
    with ThreadPoolExecutor(2) as pool:
        folders = {future.result()[0] for future in [pool.submit(load, address, revision) for _ in range(2)]}
    (folder,) = map(Path, folders)
    assert len(set(parts)) == len(parts)
    names = {path.name for path in folder.iterdir()}
    assert names == set(manifest_of(address, revision)["files"])
    assert (folder / "model.safetensors").read_bytes() == (ROOT / "demo/model/model.safetensors").read_bytes()


def test_what_a_killed_run_left_is_removed_and_what_one_at_work_writes_is_not(bucket):
    address = stored(bucket, own_manifest=True)
    revision = model_revision(address, "")
    mirror.fetch_model(address, revision)
    folder = Path(os.environ[mirror.CACHE_VARIABLE]) / Path(mirror.folder_of_model(address, revision)).name
    folder.mkdir(parents=True)
    left, at_work = folder / "model.safetensors.0a.part", folder / "model.safetensors.0b.part"
    for part in (left, at_work):
        part.write_text("half")
    os.utime(left, (0, time.time() - mirror.LEFT_SECONDS - 60))
    mirror.local_model(address, revision)
    assert (left.exists(), at_work.exists()) == (False, True)


def test_another_file_in_the_bucket_is_another_revision(bucket):
    address = stored(bucket, own_manifest=False)
    before = model_revision(address, "")
    open_store().write("my/model/generation_config.json", b'{"temperature": 0.5}')
    assert model_revision(address, "") != before
    with pytest.raises(UserError, match="leave it empty"):
        model_revision(address, before)


def test_an_address_without_a_model_is_refused(bucket):
    with pytest.raises(UserError, match="holds nothing below that key"):
        model_revision(f"{bucket}/nothing", "")
    open_store().write("half/config.json", b"{}")
    with pytest.raises(UserError, match="has no tokenizer"):
        model_revision(f"{bucket}/half", "")


def test_on_a_laptop_the_hubs_own_cache_serves_a_hub_model(store_root):
    mirror.local_model.cache_clear()
    assert mirror.local_model(MODEL, COMMIT) == (MODEL, COMMIT)
    assert mirror.local_model(str(ROOT / "demo/model"), "digest") == (str(ROOT / "demo/model"), "")
