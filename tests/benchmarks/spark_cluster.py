"""A cluster on this machine: Spark's own master, and two workers."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from etq import processes

_DEPLOY = "org.apache.spark.deploy"


@contextmanager
def cluster(folder: Path, megabytes: int = 1024) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a master, and its two workers, of a core and so much memory each."""
    if shutil.which("java") is None:
        pytest.skip("a cluster needs Java 17 or later")
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    worker = f"{_DEPLOY}.worker.Worker", "-c", "1", "-m", f"{megabytes}m", "--webui-port", "0", "-d"
    with (
        _started(f"{_DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"),
        _started(*worker, str(folder / "one"), master) as one,
        _started(*worker, str(folder / "two"), master) as two,
    ):
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield master, [one, two]


@contextmanager
def _started(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon of Spark with all that it starts."""
    pyspark = pytest.importorskip("pyspark", reason="a cluster needs pyspark")
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": processes.search_path(),
    }  # fmt: skip
    with subprocess.Popen(
        ["java", "-Xmx256m", "-cp", f"{home}/jars/*", *command],
        env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as daemon:  # fmt: skip
        try:
            yield daemon
        finally:
            with suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
