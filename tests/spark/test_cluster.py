"""A real cluster ingests into an object store, and loses nothing when one of its machines dies."""

from __future__ import annotations

import json
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

import etq
from etq import processes
from etq.lake import check
from etq.lake.tables import Lake
from tests.conftest import CAPTURES
from tests.lake.moto_server import made, serving
from tests.sampling import whole

pytestmark = pytest.mark.long
pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
DRIVER = """
import json, sys
from pyspark.sql import SparkSession
import etq.spark

master, files, lake, options = sys.argv[1:]
settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m",
            "spark.default.parallelism": "4", "spark.log.level": "ERROR"}
builder = SparkSession.builder.master(master)
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
result = etq.spark.ingest(spark, files, lake, labels={"lab": "1"}, storage_options=json.loads(options))
print(json.dumps([result.new, result.known, result.errors.count()]))
"""


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[bytes]]:
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


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@whole
def test_a_worker_that_dies_loses_nothing(tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("a cluster needs Java 17 or later")
    files = sorted((CAPTURES / "fleet").glob("*/*.etdp"))
    (tmp_path / "files").mkdir()
    for path in files:
        shutil.copy(path, tmp_path / "files" / f"{path.parent.name}_{path.name}")
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    worker = f"{deploy}.worker.Worker", "-c", "1", "-m", "1g", "--webui-port", "0", "-d"
    with (
        serving() as endpoint,
        started(f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"),
        started(*worker, str(tmp_path / "one"), master) as one,
        started(*worker, str(tmp_path / "two"), master),
    ):
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        lake = Lake("s3://lab/fleet", made(endpoint, "lab"))
        lake.make()
        arguments = [master, str(tmp_path / "files" / "*.etdp"), lake.url, json.dumps(lake.options)]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        with subprocess.Popen(
            [sys.executable, "-c", DRIVER, *arguments], env=environment, cwd=Path(etq.__file__).parents[1],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as driver:  # fmt: skip
            while driver.poll() is None and not lake.listed("signatures"):
                time.sleep(0.1)
            os.killpg(one.pid, signal.SIGKILL)
            output, errors = driver.communicate(timeout=600)
        assert driver.returncode == 0, errors.decode()[:3000]
        assert json.loads(output.splitlines()[-1]) == [len(files), 0, 0]
        with etq.open(lake.url, storage_options=lake.options) as warehouse:
            query = "SELECT count(*), count(DISTINCT sha256), count(DISTINCT name) FROM captures"
            assert warehouse.rows(query)[1] == [(len(files),) * 3]
            counted = warehouse.rows("SELECT sha256, events FROM capture_summary ORDER BY sha256")[1]
        assert check(lake.url, storage_options=lake.options) == []
    with etq.open() as warehouse:
        warehouse.ingest_many(files)
        assert warehouse.rows("SELECT sha256, events FROM capture_summary ORDER BY sha256")[1] == counted
