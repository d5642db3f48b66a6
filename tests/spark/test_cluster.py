"""A real cluster ingests into an object store, and loses nothing when one of its machines dies; it answers in little
memory.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import etq
from etq.lake import check
from etq.lake.reading.tables import Lake
from etq.lake.writing.commits import make
from tests.benchmarks.spark import measured
from tests.conftest import CAPTURES
from tests.lake.moto_server import made, serving
from tests.sampling import IS_WHOLE, whole
from tests.spark.cluster import cluster

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


@whole
def test_a_worker_that_dies_loses_nothing(tmp_path: Path) -> None:
    files = sorted((CAPTURES / "fleet").glob("*/*.etdp"))
    (tmp_path / "files").mkdir()
    for path in files:
        shutil.copy(path, tmp_path / "files" / f"{path.parent.name}_{path.name}")
    with serving() as endpoint, cluster(tmp_path) as (master, [one, _]):
        lake = Lake("s3://lab/fleet", made(endpoint, "lab"))
        make(lake)
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


def test_many_captures_are_answered_in_little_memory(tmp_path: Path) -> None:
    found, workers = measured(tmp_path, 2_000 if IS_WHOLE else 40)
    assert [each.query for each in found if each.differing] == []
    assert [each.query for each in found if not each.rows] == []
    assert all(0 < each.most < 1.5 * 2**30 for each in workers)
    assert all(each.read for each in workers), "both have a part"
