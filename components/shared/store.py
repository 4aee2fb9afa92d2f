"""Where runs, checkpoints and caches live: a directory on a laptop, a bucket on a cluster. Same keys in both.

`$GRPO_STORE` names the root: a directory (default `./out`) or `s3://bucket/prefix`. For S3 the endpoint and keys
come from S3_ENDPOINT, S3_ACCESS_KEY, S3_SECRET_KEY and S3_SECURE. An object appears whole or not at all, and one that
several may change (which version of a model is current) is changed by comparing and swapping.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from components.shared.errors import InfraError, UserError

SCHEME = "s3://"
STORE_VARIABLE, DEFAULT_STORE = "GRPO_STORE", "out"
PART = ".part-"  # begins the name of a file in a directory that is no object: one being written, or a lock
S3_SETTINGS = ("S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY")  # beside them S3_SECURE, true by default


class Store(Protocol):
    """Objects by key; keys are relative paths with `/`."""

    def uri(self, key: str) -> str:
        """Where a person finds the object: a path or an s3:// address."""

    def exists(self, key: str) -> bool: ...

    def read(self, key: str) -> bytes:
        """The object's bytes; KeyError when there is none."""

    def write(self, key: str, data: bytes) -> None: ...

    def read_with_tag(self, key: str) -> tuple[bytes, str]:
        """The object's bytes and the tag of this content, for `swap`; KeyError when there is none."""

    def swap(self, key: str, data: bytes, tag: str | None) -> bool:
        """Write only if the object still has the content of this tag (None: only if there is no object).

        False when somebody else was first: nothing is written then. Of several that swap at once one succeeds.
        """

    def delete(self, key: str) -> None:
        """Remove the object; no error when there is none."""

    def delete_folder(self, prefix: str) -> None:
        """Remove all objects below a prefix that ends at a `/`; no error when there is none."""

    def keys(self, prefix: str) -> list[str]:
        """All keys below a prefix that ends at a `/`, sorted."""

    def folders(self, prefix: str) -> list[str]:
        """The names directly below a prefix that ends at a `/` which have keys below themselves, sorted."""

    def changed(self, prefix: str) -> float | None:
        """When an object below a prefix was last written, in seconds since 1970; None where there is none."""

    def fingerprints(self, prefix: str) -> dict[str, str]:
        """For all keys below a prefix, a short text that is another when the object is; nothing is read whole."""

    def upload(self, key: str, file: Path) -> None: ...

    def download(self, key: str, file: Path) -> None:
        """Fetch into a file, whose folder is made; KeyError when there is no such object."""


def open_store(root: str | None = None) -> Store:
    """The store at `root`, by default at `$GRPO_STORE`."""
    root = root or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
    if not in_bucket(root):
        if "://" in root:
            raise UserError(f"The store {root!r} is neither a directory nor s3://bucket/prefix.")
        return DirectoryStore(Path(root))
    from components.shared.s3 import S3Store  # which knows this module

    parts = urlsplit(root)
    return S3Store(parts.netloc, parts.path.strip("/"))


def in_bucket(address: str) -> bool:
    """Whether an address (of a store, a model, a data set) is one in a bucket: s3://…"""
    return address.startswith(SCHEME)


def store_is_known() -> bool:
    """Whether the environment holds what a store in a bucket needs."""
    return all(os.environ.get(name) for name in S3_SETTINGS)


def store_at_hand() -> Store | None:
    """The store that the environment names, for those who only look into it where they can; None where none is named.

    The default is not meant: a directory of this machine knows nothing of a run on a cluster.
    """
    root = os.environ.get(STORE_VARIABLE) or ""
    if not root or (in_bucket(root) and not store_is_known()):
        return None
    return open_store(root)


def split_address(address: str) -> tuple[Store, str]:
    """The bucket of s3://bucket/key as a store, and the key; UserError when the address names none."""
    bucket, key = bucket_and_key(address)
    return open_store(f"{SCHEME}{bucket}"), key


def bucket_and_key(address: str) -> tuple[str, str]:
    """The two parts of s3://bucket/key, nothing asked of the store; UserError when the address names no object."""
    bucket, _, key = address.removeprefix(SCHEME).partition("/")
    if not bucket or not key.strip("/"):
        raise UserError(f"{address} names no object: write it like s3://bucket/folder/name.")
    return bucket, key.strip("/")


def upload_folder(store: Store, prefix: str, folder: Path) -> None:
    """Upload every file below `folder` under `prefix`, symlinks followed."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        store.upload(f"{prefix}/{file.relative_to(folder).as_posix()}", file)


def download_folder(store: Store, prefix: str, folder: Path) -> int:
    """Fetch every object below `prefix` into `folder`; returns how many there were."""
    keys = store.keys(prefix + "/")
    for key in keys:
        store.download(key, folder / key[len(prefix) + 1 :])
    return len(keys)


def _is_object(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(PART)


class DirectoryStore:
    """A store in a local directory; a write goes to a temporary file beside its place and is renamed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def uri(self, key: str) -> str:
        return str(self.root / key)

    def exists(self, key: str) -> bool:
        return self._path(key).is_file()

    def read(self, key: str) -> bytes:
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise KeyError(key) from None

    def write(self, key: str, data: bytes) -> None:
        with self._replacing(key) as temporary:
            temporary.write_bytes(data)

    def read_with_tag(self, key: str) -> tuple[bytes, str]:
        data = self.read(key)
        return data, hashlib.sha256(data).hexdigest()

    def swap(self, key: str, data: bytes, tag: str | None) -> bool:
        with self._locked(key):
            try:
                found: str | None = self.read_with_tag(key)[1]
            except KeyError:
                found = None
            if found != tag:
                return False
            self.write(key, data)
            return True

    def delete(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def delete_folder(self, prefix: str) -> None:
        folder = self._path(prefix)
        try:
            if folder.is_dir():
                shutil.rmtree(folder)
        except OSError as error:
            raise InfraError(f"Removing {folder} failed: {error.strerror}.") from error

    def keys(self, prefix: str) -> list[str]:
        folder = self._path(prefix)
        files = (path for path in folder.rglob("*") if _is_object(path))
        return sorted(path.relative_to(self.root).as_posix() for path in files)

    def folders(self, prefix: str) -> list[str]:
        folder = self._path(prefix)
        names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
        return [name for name in names if any(map(_is_object, (folder / name).rglob("*")))]

    def changed(self, prefix: str) -> float | None:
        return max((self._path(key).stat().st_mtime for key in self.keys(prefix)), default=None)

    def fingerprints(self, prefix: str) -> dict[str, str]:
        facts = {key: self._path(key).stat() for key in self.keys(prefix)}
        return {key: f"{fact.st_size}-{fact.st_mtime_ns}" for key, fact in facts.items()}

    def upload(self, key: str, file: Path) -> None:
        with self._replacing(key) as temporary:
            shutil.copyfile(file, temporary)

    def download(self, key: str, file: Path) -> None:
        if not self.exists(key):
            raise KeyError(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self._path(key), file)

    def _path(self, key: str) -> Path:
        path = self.root / key
        if ".." in Path(key).parts or Path(key).is_absolute():
            raise ValueError(f"the key {key!r} leaves the store")
        return path

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """Alone with this object among those who swap it; a process that dies lets go of it."""
        lock = self._path(key).with_name(f"{PART}{Path(key).name}.lock")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            with lock.open("ab") as opened:
                fcntl.flock(opened, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise UserError(f"The store at {self.root} cannot be written ({error.strerror}).") from None

    @contextmanager
    def _replacing(self, key: str) -> Iterator[Path]:
        target = self._path(key)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=PART, dir=target.parent)
        except OSError as error:
            raise UserError(f"The store at {self.root} cannot be written ({error.strerror}).") from None
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o644)
            temporary.replace(target)
        except OSError as error:
            raise InfraError(f"Writing {target} failed: {error.strerror}.") from error
        finally:
            temporary.unlink(missing_ok=True)
