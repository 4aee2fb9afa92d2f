"""A store in a bucket of an S3 server of the test's own."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import urllib3
from minio import Minio
from moto.server import ThreadedMotoServer


@contextmanager
def own_bucket(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve an empty bucket and set the environment for it; yields its s3:// address, which is $GRPO_STORE, too."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "{}:{}".format(*server.get_host_and_port())
    urllib3.PoolManager().request("POST", f"http://{endpoint}/moto-api/reset")  # its memory is the process's
    settings = {"S3_ENDPOINT": endpoint, "S3_ACCESS_KEY": "key", "S3_SECRET_KEY": "secret", "S3_SECURE": "false"}
    for name, value in {**settings, "GRPO_STORE": "s3://bucket"}.items():
        patch.setenv(name, value)
    Minio(endpoint, access_key="key", secret_key="secret", secure=False).make_bucket("bucket")
    try:
        yield "s3://bucket"
    finally:
        server.stop()
