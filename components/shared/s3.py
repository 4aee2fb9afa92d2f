"""The store in a bucket: the interface of store.py over MinIO's client."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from components.shared.errors import InfraError, UserError
from components.shared.store import S3_SETTINGS

CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0


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


class _Refused(Exception):
    """A conditional write whose condition does not hold."""


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

    def read_with_tag(self, key: str) -> tuple[bytes, str]:
        with self._named(key):
            answer = self.client.get_object(self.bucket, self._name(key))
            try:
                return answer.read(), str(answer.headers["ETag"])
            finally:
                answer.close()
                answer.release_conn()

    def swap(self, key: str, data: bytes, tag: str | None) -> bool:
        condition: dict[str, Any] = {"If-None-Match": "*"} if tag is None else {"If-Match": tag}
        try:
            with self._named(key):
                # minio's put_object sends no conditions
                self.client._put_object(self.bucket, self._name(key), data, headers=condition)
        except KeyError:
            return False  # what was to be replaced is gone
        except _Refused:
            return False
        return True

    def delete(self, key: str) -> None:
        with self._named(key):
            self.client.remove_object(self.bucket, self._name(key))

    def delete_folder(self, prefix: str) -> None:
        from minio.deleteobjects import DeleteObject

        with self._named(prefix):
            names = [DeleteObject(self._name(key)) for key in self.keys(prefix)]
            for error in self.client.remove_objects(self.bucket, names):
                raise InfraError(f"The store did not remove {error.name}: {error.code}: {error.message}.")

    def keys(self, prefix: str) -> list[str]:
        return sorted(self.fingerprints(prefix))

    def folders(self, prefix: str) -> list[str]:
        with self._named(prefix):
            found = self.client.list_objects(self.bucket, prefix=self._name(prefix))
            names = [str(item.object_name).rstrip("/").rsplit("/", 1)[-1] for item in found if item.is_dir]
        return sorted(names)

    def changed(self, prefix: str) -> float | None:
        with self._named(prefix):
            found = list(self.client.list_objects(self.bucket, prefix=self._name(prefix), recursive=True))
        return max((item.last_modified.timestamp() for item in found if item.last_modified), default=None)

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
            if error.code in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise _Refused from None
            raise InfraError(f"The store refused {self.uri(key)}: {error.code}: {error.message}.") from error
        except HTTPError as error:
            raise InfraError(f"The store could not be reached for {self.uri(key)}: {type(error).__name__}.") from error
