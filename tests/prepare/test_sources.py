"""Every form of `dataset`, and one sentence for each that cannot be read."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.prepare import sources
from components.prepare.raw import RawData
from components.prepare.sources import read_dataset
from components.shared.errors import UserError
from tests.buckets import own_bucket
from tests.prepare.examples import full_row, sanitized_row, write_hub_copy, write_jsonl
from tests.small_hub import COMMIT, small_hub

ROWS = [full_row(1), full_row(2)]


def fields_of(data: RawData) -> list[dict[str, Any]]:
    return [row.fields for row in data.rows]


def test_json_lines_know_their_line_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text("\ufeff" + json.dumps(ROWS[0]) + "\n\n" + json.dumps(ROWS[1]), encoding="utf-8")
    data = read_dataset(str(path), "")
    assert [row.place for row in data.rows] == [f"{path}, line 1", f"{path}, line 3"]
    assert (data.name, fields_of(data)) == ("own", ROWS)


def test_a_json_list_and_its_lines_hold_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text(json.dumps(ROWS, indent=1), encoding="utf-8")
    listed = read_dataset(str(tmp_path / "own.json"), "")
    lines = read_dataset(str(write_jsonl(tmp_path / "own.jsonl", ROWS)), "")
    assert fields_of(listed) == ROWS
    assert listed.digest == lines.digest


def test_the_digest_knows_one_edited_row(tmp_path: Path) -> None:
    digests = {
        read_dataset(str(write_jsonl(tmp_path / "own.jsonl", rows)), "").digest
        for rows in (ROWS, ROWS[::-1], [ROWS[0], full_row(2, text="Edited.")])
    }
    assert len(digests) == 3


def test_a_directory_of_split_files_in_two_formats(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl", [full_row(1)])
    write_jsonl(tmp_path / "test-00000-of-00002.jsonl", [full_row(2)])
    write_jsonl(tmp_path / "test-00001-of-00002.jsonl", [full_row(3)])
    (tmp_path / "validation.json").write_text(json.dumps([full_row(4)]), encoding="utf-8")
    write_jsonl(tmp_path / "notes.jsonl", [{"anything": 1}])
    data = read_dataset(str(tmp_path), "")
    assert [(row.split, row.fields["task_id"]) for row in data.rows] == [
        ("train", 1),
        ("validation", 4),
        ("test", 2),
        ("test", 3),
    ]


def test_a_directory_of_parquet_files(tmp_path: Path) -> None:
    splits = {"train": [full_row(1)], "test": [full_row(2)], "prompt": [full_row(3)]}
    folder = write_hub_copy(tmp_path, "full", splits) / "full"
    data = read_dataset(str(folder), "")
    assert [(row.split, row.fields["task_id"]) for row in data.rows] == [("train", 1), ("prompt", 3), ("test", 2)]
    assert fields_of(data)[0] == full_row(1)
    assert data.rows[0].place == f"{folder}/train-00000-of-00001.parquet, row 1"


@pytest.fixture
def datasets_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own for the `datasets` library, so that nothing of an earlier run is read."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")


@pytest.mark.usefixtures("datasets_cache")
@pytest.mark.parametrize(
    ("name", "config", "make"), [("mbpp", "full", full_row), ("mbpp-sanitized", "sanitized", sanitized_row)]
)
def test_both_hub_schemas(name: str, config: str, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = {"train": [make(601)], "test": [make(11), make(12)], "validation": [make(511)], "prompt": [make(1)]}
    copy = write_hub_copy(tmp_path / "mbpp", config, splits)
    assert sources.NAMED_DATASETS[name] == ("google-research-datasets/mbpp", config)
    monkeypatch.setitem(sources.NAMED_DATASETS, name, (str(copy), config))
    data = read_dataset(name, "")
    assert data.name == name
    assert [(row.split, row.fields) for row in data.rows] == [
        (split, row) for split in ("train", "validation", "prompt", "test") for row in splits[split]
    ]
    assert data.rows[-1].place == f"{copy}, split test, row 2"


@pytest.mark.usefixtures("datasets_cache")
def test_hub_data_with_the_one_split_train_is_unsplit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sources.NAMED_DATASETS, "mbpp", (str(write_hub_copy(tmp_path / "one", "full", {"train": ROWS})), "full")
    )
    assert [row.split for row in read_dataset("mbpp", "").rows] == ["", ""]


@pytest.mark.usefixtures("datasets_cache")
def test_hub_data_with_an_unknown_split_or_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = write_hub_copy(tmp_path / "one", "full", {"train": ROWS, "sft": ROWS})
    monkeypatch.setitem(sources.NAMED_DATASETS, "mbpp", (str(copy), "full"))
    with pytest.raises(UserError, match="has a split named 'sft': only train, validation, prompt, test are known"):
        read_dataset("mbpp", "")
    monkeypatch.setitem(sources.NAMED_DATASETS, "mbpp", (str(copy), "nowhere"))
    with pytest.raises(UserError, match=r"cannot be read: .*nowhere"):
        read_dataset("mbpp", "")


def test_an_object_in_s3_and_a_folder_there(s3_bucket: str, tmp_path: Path) -> None:
    from components.shared.store import open_store

    store = open_store(f"s3://{s3_bucket}")
    store.upload("sets/own.jsonl", write_jsonl(tmp_path / "own.jsonl", ROWS))
    for split, row in (("train", full_row(1)), ("test", full_row(2))):
        store.upload(f"sets/split/{split}.jsonl", write_jsonl(tmp_path / "one.jsonl", [row]))
    data = read_dataset(f"s3://{s3_bucket}/sets/own.jsonl", "abc")
    assert (data.name, data.revision, fields_of(data)) == ("own", "abc", ROWS)
    assert data.rows[1].place == f"s3://{s3_bucket}/sets/own.jsonl, line 2"
    folder = read_dataset(f"s3://{s3_bucket}/sets/split/", "")
    assert [row.split for row in folder.rows] == ["train", "test"]
    for missing in ("sets/none.jsonl", "nothing"):
        with pytest.raises(UserError, match=f"s3://{s3_bucket}/{missing} does not exist"):
            read_dataset(f"s3://{s3_bucket}/{missing}", "")


@pytest.fixture
def s3_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket on an S3 server of its own, for which the environment is set."""
    with own_bucket(monkeypatch, "data-sets"):
        yield "data-sets"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"a": 1}\n{"a": \n', "line 2: this is no JSON"),
        ('{"a": 1}\n[1, 2]\n', "line 2: a JSON object is needed"),
        ('[{"a": 1},\n{"a" 2}]', "this is no JSON at line 2"),
        ("[1]", "row 1: a JSON object is needed, this is 1"),
        (b"\xff\xfe", "is no UTF-8 text"),
    ],
)
def test_a_broken_file_names_the_place(tmp_path: Path, content: str | bytes, said: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as refused:
        read_dataset(str(path), "")
    assert said in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_broken_parquet_file(tmp_path: Path) -> None:
    (tmp_path / "own.parquet").write_bytes(b"PAR1, but no more")
    with pytest.raises(UserError, match=r"own\.parquet cannot be read as parquet"):
        read_dataset(str(tmp_path / "own.parquet"), "")


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        ("nowhere.jsonl", "nowhere.jsonl does not exist"),
        ("/nowhere/at/all", "does not exist"),
        ("./nowhere/folder", "does not exist"),
        ("mpbb", "'mpbb' is unknown: use mbpp, mbpp-sanitized, a hub id"),
        ("s3://bucket", "names no object"),
    ],
)
def test_what_does_not_exist(dataset: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_dataset(dataset, "")


def test_files_of_another_format_or_without_splits(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("task_id,text\n")
    with pytest.raises(UserError, match=r"own.csv has an unknown format: use .* \.jsonl, \.json, \.parquet"):
        read_dataset(str(tmp_path / "own.csv"), "")
    with pytest.raises(UserError, match="has no file for split train and none for test"):
        read_dataset(str(tmp_path), "")
    write_jsonl(tmp_path / "train.jsonl", ROWS)
    with pytest.raises(UserError, match="has no file for split test: a directory needs train and test files"):
        read_dataset(str(tmp_path), "")
    write_jsonl(tmp_path / "test.jsonl", ROWS)
    write_jsonl(tmp_path / "test.json", ROWS)
    with pytest.raises(UserError, match="holds test in two formats"):
        read_dataset(str(tmp_path), "")


READ_IN_A_STEP = """
import json, sys
from components.shared.errors import reported
with reported("prepare"):
    from components.prepare.sources import read_dataset
    data = read_dataset(*sys.argv[1:])
print(json.dumps([data.name, data.revision, [[row.place, row.split, row.fields] for row in data.rows]]))
"""


def read_from_hub(
    tmp_path: Path, dataset: str, revision: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Read a data set as the step does, in a process whose hub settings and caches are its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-c", READ_IN_A_STEP, dataset, revision],
        env={**kept, "HF_HOME": str(tmp_path / "cache"), **environment},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )


def last_line(text: str) -> str:
    return text.strip().split("\n")[-1]


@pytest.mark.slow
def test_mbpp_from_a_hub_and_then_from_its_cache(tmp_path: Path) -> None:
    rows = {"train": full_row(601), "test": full_row(11), "validation": full_row(511), "prompt": full_row(1)}
    copy = write_hub_copy(tmp_path / "mbpp", "full", {split: [row] for split, row in rows.items()})
    with small_hub("google-research-datasets/mbpp", copy) as address:
        ended = read_from_hub(tmp_path, "mbpp", HF_ENDPOINT=address, HF_HUB_OFFLINE="0")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(last_line(ended.stdout)) == [
        "mbpp",
        COMMIT,
        [
            [f"google-research-datasets/mbpp, split {split}, row 1", split, rows[split]]
            for split in ("train", "validation", "prompt", "test")
        ],
    ]
    cached = read_from_hub(tmp_path, "mbpp", COMMIT, HF_HUB_OFFLINE="1")
    assert last_line(cached.stdout) == last_line(ended.stdout)
    other = read_from_hub(tmp_path, "mbpp", COMMIT[::-1], HF_HUB_OFFLINE="1")
    assert other.returncode == 1
    assert f"revision {COMMIT[::-1]}" in last_line(other.stderr)


def test_an_unreachable_hub_is_an_infrastructure_failure_that_names_hub_and_data_set(tmp_path: Path) -> None:
    ended = read_from_hub(tmp_path, "mbpp", HF_HUB_OFFLINE="1", HF_ENDPOINT="http://hub.invalid")
    assert ended.returncode == 1
    said = last_line(ended.stderr)
    assert said.startswith("prepare: The data set google-research-datasets/mbpp could not be fetched from the hub")
    assert "http://hub.invalid" in said
    assert "Traceback" not in ended.stderr


def test_a_data_set_that_the_hub_does_not_have_is_the_users_mistake(tmp_path: Path) -> None:
    with small_hub("some/other", tmp_path) as address:
        ended = read_from_hub(tmp_path, "nobody/nothing", HF_ENDPOINT=address, HF_HUB_OFFLINE="0")
    assert ended.returncode == 2, ended.stderr
    assert "'nobody/nothing' doesn't exist on the Hub" in last_line(ended.stderr)
    assert "dataset_revision" in last_line(ended.stderr)
    assert "Traceback" not in ended.stderr
