"""A warehouse of real captures, the same as a lake, and one Spark session on that."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import etq.lake
from etq import processes
from etq.database.functions import register
from etq.lake.reading import connection as reading
from etq.lake.reading.tables import Lake
from tests.spark.questions import build


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a warehouse; not to be written to."""
    path = tmp_path_factory.mktemp("lab") / "lab.duckdb"
    build(path)
    return path


@pytest.fixture(scope="session")
def lake(lab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of the warehouse as a lake, with a second copy of each file that no log lists."""
    pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
    root = tmp_path_factory.mktemp("lake")
    etq.lake.export(root, lab)
    for file in list(root.glob("*/load_id=*/*.parquet")):
        shutil.copyfile(file, file.with_name(f"stray_{file.name}"))
    return root


@pytest.fixture(scope="session")
def duck_on_lake(lake: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB on the lake."""
    with reading.connect(Lake.at(lake)) as connection:
        register(connection)
        yield connection


@pytest.fixture(scope="session")
def spark(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with the lake registered; small, as tests share a machine."""
    pytest.importorskip("pyspark", reason="Spark's answers need pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark's answers need Java 17 or later")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Executors import what the tests do.
    os.environ["PYTHONPATH"] = processes.search_path()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        from pyspark.sql import SparkSession

        import etq.spark

        builder = SparkSession.builder.master("local[2, 4]").appName("tests")
        settings = {
            # Most of the time goes into planning, once for each question: code that is compiled well doesn't pay.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.memory": "3g",
            "spark.log.level": "ERROR",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than asking a few rows
            "spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.lightweightPlanChangeValidation": "false",
            "spark.sql.maxPlanStringLength": "1000", "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark")),
            "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
        }  # fmt: skip
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        etq.spark.register(session, str(lake))
    yield session
    session.stop()
