"""Every form of parameter `dataset`, read into rows that know their place.

`mbpp` and `mbpp-sanitized` are names for the hub's data set; else a file, a directory with files for each split, an
`s3://bucket/key` that holds either, or a hub id `owner/name`.
"""

import re
import tempfile
from pathlib import Path

from components.prepare.files import DataFile, read_file, split_files
from components.prepare.hub import read_hub
from components.prepare.raw import RawData
from components.settings import DATA_SUFFIXES, NAMED_DATASETS, unknown_dataset, unknown_format
from components.shared.errors import UserError
from components.shared.store import download_folder, in_bucket, split_address

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def read_dataset(dataset: str, dataset_revision: str) -> RawData:
    """Read a data set.

    dataset_revision is the hub's branch, tag or commit, or "" for its newest. Files have no history: theirs is the
    digest that the submit took, and only kept in the record.

    Raises UserError for what does not exist or cannot be understood, InfraError when hub or store cannot be reached.
    """
    if dataset in NAMED_DATASETS:
        return read_hub(*NAMED_DATASETS[dataset], dataset_revision, name=dataset)
    if in_bucket(dataset):
        return _read_s3(dataset, dataset_revision)
    path = Path(dataset).expanduser()
    if path.exists():
        return _read_path(path, dataset_revision, shown=dataset)
    if _HUB_ID.fullmatch(dataset) and path.suffix not in DATA_SUFFIXES and not dataset.startswith("."):
        return read_hub(dataset, None, dataset_revision, name=dataset)
    if path.suffix in DATA_SUFFIXES or "/" in dataset:
        raise UserError(f"The data set {dataset} does not exist: there is no such file or directory.")
    raise unknown_dataset(dataset)


def _read_path(path: Path, revision: str, *, shown: str) -> RawData:
    if path.is_file() and path.suffix not in DATA_SUFFIXES:
        raise unknown_format(shown)
    files = split_files(path, shown) if path.is_dir() else [DataFile(path, "", shown)]
    rows = [row for file in files for row in read_file(file)]
    return RawData(name=path.resolve().stem, revision=revision, rows=rows)


def _read_s3(address: str, revision: str) -> RawData:
    """An object by its suffix, else everything below the key as a directory."""
    store, key = split_address(address)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / Path(key).name
        if target.suffix in DATA_SUFFIXES:
            try:
                store.download(key, target)
            except KeyError:
                raise UserError(f"The data set {address} does not exist: the bucket has no such object.") from None
        elif not download_folder(store, key, target):
            raise UserError(f"The data set {address} does not exist: the bucket has nothing below that key.")
        return _read_path(target, revision, shown=address)
