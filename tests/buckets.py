"""S3 servers of the tests' own, and a store in a bucket of one."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import urllib3
from minio import Minio
from moto.server import ThreadedMotoServer

KEYS = {"S3_ACCESS_KEY": "key", "S3_SECRET_KEY": "secret", "S3_SECURE": "false"}


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Serve S3 with nothing in it; yields the environment that leads there."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "{}:{}".format(*server.get_host_and_port())
    urllib3.PoolManager().request("POST", f"http://{endpoint}/moto-api/reset")  # its memory is the process's
    try:
        yield {"S3_ENDPOINT": endpoint, **KEYS}
    finally:
        server.stop()


def client_of(settings: dict[str, str]) -> Minio:
    """A client of such a server, beside the product's own."""
    return Minio(settings["S3_ENDPOINT"], settings["S3_ACCESS_KEY"], settings["S3_SECRET_KEY"], secure=False)


@contextmanager
def own_bucket(patch: pytest.MonkeyPatch, name: str = "bucket") -> Iterator[str]:
    """Serve an empty bucket and set the environment for it; yields its s3:// address, which is $GRPO_STORE, too."""
    with s3_server() as settings:
        client_of(settings).make_bucket(name)
        for key, value in {**settings, "GRPO_STORE": f"s3://{name}"}.items():
            patch.setenv(key, value)
        yield f"s3://{name}"
