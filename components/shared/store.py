"""Where runs, checkpoints and caches live: a directory on a laptop, a bucket on a cluster. Same keys in both.

`$GRPO_STORE` names the root: a directory (default `./out`) or `s3://bucket/prefix`. For S3 the endpoint and keys
come from S3_ENDPOINT, S3_ACCESS_KEY, S3_SECRET_KEY and S3_SECURE. An object appears whole or not at all.
"""

import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from components.shared.errors import InfraError, UserError

SCHEME = "s3://"
STORE_VARIABLE, DEFAULT_STORE = "GRPO_STORE", "out"
CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
S3_SETTINGS = ("S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY")  # beside them S3_SECURE, true by default


class Store(Protocol):
    """Objects by key; keys are relative paths with `/`."""

    def uri(self, key: str) -> str:
        """Where a person finds the object: a path or an s3:// address."""

    def exists(self, key: str) -> bool: ...

    def read(self, key: str) -> bytes:
        """The object's bytes; KeyError when there is none."""

    def write(self, key: str, data: bytes) -> None: ...

    def delete(self, key: str) -> None:
        """Remove the object; no error when there is none."""

    def keys(self, prefix: str) -> list[str]:
        """All keys below a prefix that ends at a `/`, sorted."""

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

    def delete(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def keys(self, prefix: str) -> list[str]:
        folder = self._path(prefix)
        files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".part-"))
        return sorted(path.relative_to(self.root).as_posix() for path in files)

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
    def _replacing(self, key: str) -> Iterator[Path]:
        target = self._path(key)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".part-", dir=target.parent)
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


def _http() -> Any:
    """Connections that give up within a minute on a server that is not there; minio's own wait five, six times over."""
    import certifi
    import urllib3

    return urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
        maxsize=10,
        cert_reqs="CERT_REQUIRED",
        ca_certs=os.environ.get("SSL_CERT_FILE") or certifi.where(),
        retries=urllib3.Retry(total=5, backoff_factor=0.2, status_forcelist=[500, 502, 503, 504]),
    )


class S3Store:
    """A store in a bucket of MinIO, SeaweedFS, AWS or any other S3."""

    def __init__(self, bucket: str, prefix: str) -> None:
        from minio import Minio

        settings = {name: os.environ.get(name, "") for name in S3_SETTINGS}
        missing = [name for name, value in settings.items() if not value]
        if missing:
            raise UserError(f"The store s3://{bucket} needs {', '.join(missing)} in the environment.")
        secure = os.environ.get("S3_SECURE", "true").lower() not in ("false", "0", "no")
        endpoint = settings["S3_ENDPOINT"].split("://", 1)[-1].rstrip("/")
        self.bucket, self.prefix = bucket, prefix
        self.client = Minio(
            endpoint,
            access_key=settings["S3_ACCESS_KEY"],
            secret_key=settings["S3_SECRET_KEY"],
            secure=secure,
            http_client=_http(),
        )

    def uri(self, key: str) -> str:
        return f"s3://{self.bucket}/{self._name(key)}"

    def exists(self, key: str) -> bool:
        try:
            with self._named(key):
                self.client.stat_object(self.bucket, self._name(key))
        except KeyError:
            return False
        return True

    def read(self, key: str) -> bytes:
        with self._named(key):
            answer = self.client.get_object(self.bucket, self._name(key))
            try:
                data: bytes = answer.read()
            finally:
                answer.close()
                answer.release_conn()
            return data

    def write(self, key: str, data: bytes) -> None:
        with self._named(key):
            self.client.put_object(self.bucket, self._name(key), io.BytesIO(data), len(data))

    def delete(self, key: str) -> None:
        with self._named(key):
            self.client.remove_object(self.bucket, self._name(key))

    def keys(self, prefix: str) -> list[str]:
        return sorted(self.fingerprints(prefix))

    def fingerprints(self, prefix: str) -> dict[str, str]:
        with self._named(prefix):
            objects = self.client.list_objects(self.bucket, prefix=self._name(prefix), recursive=True)
            cut = len(self.prefix) + 1 if self.prefix else 0
            return {str(item.object_name)[cut:]: f"{item.size}-{item.etag}" for item in objects}

    def upload(self, key: str, file: Path) -> None:
        with self._named(key):
            self.client.fput_object(self.bucket, self._name(key), str(file))

    def download(self, key: str, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with self._named(key):
            self.client.fget_object(self.bucket, self._name(key), str(file))

    def _name(self, key: str) -> str:
        return f"{self.prefix}/{key}" if self.prefix else key

    @contextmanager
    def _named(self, key: str) -> Iterator[Any]:
        """Turn the client's errors into KeyError for a missing object and InfraError, naming it, for the rest."""
        from minio.error import S3Error
        from urllib3.exceptions import HTTPError

        try:
            yield
        except S3Error as error:
            if error.code in ("NoSuchKey", "NoSuchObject"):
                raise KeyError(key) from None
            raise InfraError(f"The store refused {self.uri(key)}: {error.code}: {error.message}.") from error
        except HTTPError as error:
            raise InfraError(f"The store could not be reached for {self.uri(key)}: {type(error).__name__}.") from error
