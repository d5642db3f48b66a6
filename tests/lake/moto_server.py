"""An object store on the loopback: S3, as moto's server speaks it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def serving(log: Path | None = None) -> Iterator[str]:
    """Start and stop moto's server, which writes a line for each request to `log`."""
    pytest.importorskip("moto.server", reason="S3 needs moto: pip install --group lake-test")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (
        open(log or os.devnull, "wb") as lines,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=lines) as server,
    ):
        try:
            for _ in range(3000):
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


_KEYS = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}


def client(endpoint: str) -> Any:
    """A client of the store."""
    import boto3

    return boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **_KEYS)


def made(endpoint: str, bucket: str) -> dict[str, str]:
    """Make a bucket; the options of the store."""
    client(endpoint).create_bucket(Bucket=bucket)
    return {
        **{name.upper(): value for name, value in _KEYS.items()},
        "AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true", "AWS_CONDITIONAL_PUT": "etag",
    }  # fmt: skip
