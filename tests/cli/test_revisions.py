"""What a run reads is pinned by its contents: any edit is another revision, and so a miss of every cache."""

import shutil
from pathlib import Path

import pytest

from cli import revisions
from components.shared.errors import UserError
from components.shared.model_hub import hub_commit
from components.shared.store import open_store
from tests.buckets import own_bucket

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def tree(tmp_path):
    """A copy of everything that code_version covers."""
    for folder in revisions.CODE:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for pins in ROOT.glob(revisions.PINS):
        target = tmp_path / pins.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(pins, target)
    return tmp_path


@pytest.mark.parametrize(
    "file",
    [
        "components/prepare/prepare.py",
        "components/shared/program.py",
        "images/sandbox/sandbox/__main__.py",
        "images/train/requirements.txt",
    ],
)
def test_an_edited_line_is_another_version_of_the_code(tree, file):
    before = revisions.code_version(tree)
    path = tree / file
    text = path.read_text()
    path.write_text(text + "# edited\n")
    assert revisions.code_version(tree) != before
    path.write_text(text)
    assert revisions.code_version(tree) == before


def test_a_new_file_and_a_renamed_one_are_another_version(tree):
    before = revisions.code_version(tree)
    (tree / "components/prepare/new.py").write_text("")
    with_new = revisions.code_version(tree)
    (tree / "components/prepare/new.py").rename(tree / "components/prepare/newer.py")
    assert len({before, with_new, revisions.code_version(tree)}) == 3


def test_compiled_files_do_not_count(tree):
    before = revisions.code_version(tree)
    cache = tree / "components/__pycache__"
    cache.mkdir()
    (cache / "settings.cpython-311.pyc").write_bytes(b"x")
    assert revisions.code_version(tree) == before


@pytest.fixture
def bucket(monkeypatch):
    """A store in a bucket on an S3 server of its own, for which the environment is set."""
    with own_bucket(monkeypatch) as address:
        yield open_store(address)


def given(**values):
    return {
        "model_name": str(ROOT / "demo/model"),
        "model_revision": "",
        "dataset_revision": "",
        "regression_dataset": "",
        "regression_revision": "",
        "code_version": "",
        **values,
    }


def test_a_regression_set_is_pinned_like_a_data_set_and_none_has_no_revision(tmp_path):
    file = tmp_path / "elsewhere.jsonl"
    file.write_text("{}\n")
    found = revisions.resolve(given(dataset=str(file), regression_dataset=str(file)))
    assert len(found["regression_revision"]) == 64
    assert revisions.resolve(given(dataset=str(file)))["regression_revision"] == ""
    with pytest.raises(UserError, match="regression_revision 'other' is not what"):
        revisions.resolve(given(dataset=str(file), regression_dataset=str(file), regression_revision="other"))


def test_an_edited_row_is_another_revision(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"a": 1}\n')
    first = revisions.resolve(given(dataset=str(file)))
    assert revisions.resolve(given(dataset=str(file))) == first
    file.write_text('{"a": 2}\n')
    second = revisions.resolve(given(dataset=str(file)))
    assert second["dataset_revision"] != first["dataset_revision"]
    assert second["model_revision"] == first["model_revision"]


def test_a_directory_is_pinned_by_names_and_contents(tmp_path):
    shutil.copytree(ROOT / "demo/model", tmp_path / "model")
    first = revisions.resolve(given(model_name=str(tmp_path / "model"), dataset=str(ROOT / "demo/problems")))
    assert first["model_revision"] == revisions.resolve(given(dataset=str(ROOT / "demo/problems")))["model_revision"]
    (tmp_path / "model/generation_config.json").write_text("{}")
    second = revisions.resolve(given(model_name=str(tmp_path / "model"), dataset=str(ROOT / "demo/problems")))
    assert second["model_revision"] != first["model_revision"]


def test_resolving_again_changes_nothing_and_a_stale_revision_is_refused(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text("{}\n")
    pinned = revisions.resolve(given(dataset=str(file)))
    assert revisions.resolve(pinned) == pinned
    file.write_text("{} \n")
    with pytest.raises(UserError, match="leave it empty"):
        revisions.resolve(pinned)


def test_without_a_network_the_hubs_local_cache_answers(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    commit = "0123456789" * 4
    reference = tmp_path / "models--owner--name/refs/main"
    reference.parent.mkdir(parents=True)
    reference.write_text(commit)
    assert hub_commit("model", "owner/name", "main") == commit
    assert hub_commit("model", "owner/name", commit) == commit
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        hub_commit("model", "owner/name", "v2")


def test_an_object_in_a_bucket_is_pinned_by_its_contents(bucket):
    def revision(key):
        return revisions.resolve(given(dataset=f"s3://bucket/{key}"))["dataset_revision"]

    bucket.write("data/rows.jsonl", b"{}\n")
    object_before, folder_before = revision("data/rows.jsonl"), revision("data")
    assert revision("data/rows.jsonl") == object_before
    bucket.write("data/rows.jsonl", b"{} \n")
    assert revision("data/rows.jsonl") != object_before
    assert revision("data") != folder_before
    with pytest.raises(UserError, match="does not exist"):
        revision("nothing.jsonl")
