"""Spark's executors read files into a lake with the same rows as DuckDB, even if executors die."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

import etq.lake
import etq.spark
from etq import catalog
from etq.errors import EtqError, WarehouseError
from etq.lake import check
from etq.lake.reading.connection import attach, rows_of
from etq.lake.reading.state import read
from etq.lake.reading.tables import Lake, kind_of
from etq.lake.writing import staging
from etq.spark import ingestion
from tests.benchmarks.make_captures import make_captures
from tests.conftest import CAPTURES
from tests.sampling import IS_WHOLE
from tests.spark import dying

pytestmark = pytest.mark.long
CAPTURED = 2_000 if IS_WHOLE else 400
# Of each kind a small one, so that many are read soon, and some of 41 runs.
MODELS = (
    "fleet/mlp/00", "fleet/convnet/01", "cond/cond_mixed", "convnet_xnn/convnet_xnn", "demo_int/demo_int", "demo_str/demo_str",
    "maploop/maploop", "mlp/mlp", "mlp/mlp_alloc", "mlp/mlp_1run", "multimethod/multimethod", "nones/nones",
)  # fmt: skip
# Columns with the time and path of ingesting, or made by the lake.
_OWN = {"ingested_at"}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with different contents in eight folders, with the same names in each folder."""
    root = tmp_path_factory.mktemp("many")
    for model in MODELS:
        (root / "from" / "models").mkdir(parents=True, exist_ok=True)
        shutil.copy(CAPTURES / f"{model}.etdp", root / "from" / "models" / f"{model.replace('/', '_')}.etdp")
    make_captures(root / "from", root / "made", CAPTURED)
    for number, path in enumerate(sorted((root / "made").iterdir())):
        folder = root / "files" / f"device={number % 8}"
        folder.mkdir(parents=True, exist_ok=True)
        path.rename(folder / f"run {number // 8:03}.etdp")
    return root / "files"


@pytest.fixture(scope="module")
def added(many: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake that DuckDB makes of all files."""
    lake = tmp_path_factory.mktemp("added") / "lake"
    of_duckdb(lake, many.glob("*/*.etdp"))
    return lake


def of_duckdb(lake: Path, files: Iterable[Path]) -> None:
    etq.lake.add(
        lake,
        lambda warehouse: warehouse.ingest_many(
            sorted(files), labels={"lab": "1"}, label_from="device={device}/{}.etdp"
        ),
    )


def of_spark(spark: Any, files: str | Sequence[str], lake: Path, **options: Any) -> etq.spark.Ingested:
    return etq.spark.ingest(spark, files, lake, labels={"lab": "1"}, label_from="device={device}/{}.etdp", **options)


def differing(one: Path | str, other: Path | str, **options: str) -> list[str]:
    """The tables in which two lakes differ, and the number of rows that differ in any value."""
    found = []
    states = [
        read(Lake.at(lake, options or None)) if "://" in str(lake) else read(Lake.at(lake)) for lake in (one, other)
    ]
    with duckdb.connect() as connection:
        for state in states:
            attach(connection, state)
        for table in filter(lambda each: kind_of(each.name), catalog.tables()):
            columns = ", ".join(column.name for column in table.columns if column.name not in _OWN)
            sides = [rows_of(state, table.name) for state in states]
            if not all(sides):
                found += [f"{table.name}: in one alone"] if any(sides) else []
                continue
            for first, second in (sides, sides[::-1]):
                query = f"SELECT count(*) FROM (SELECT {columns} FROM ({first}) EXCEPT ALL SELECT {columns} FROM ({second}))"
                [(rows,)] = connection.execute(query).fetchall()
                found += [f"{table.name}: {rows} rows"] if rows else []
    return found


def captures(lake: Path) -> int:
    with etq.open(lake) as warehouse:
        return int(warehouse.rows("SELECT count(*) FROM captures")[1][0][0])


def test_many_files_are_as_duckdb_reads_them_and_twice_changes_nothing(
    spark: Any, many: Path, added: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    report = of_spark(spark, str(many / "*" / "*.etdp"), lake)
    assert (report.new, report.known, report.errors.count()) == (CAPTURED, 0, 0)
    assert check(lake) == [] and captures(lake) == CAPTURED
    assert differing(lake, added) == []
    before = sorted(lake.rglob("*"))
    again = of_spark(spark, str(many), lake)
    assert (again.new, again.known, again.errors.count()) == (0, CAPTURED, 0)
    assert sorted(lake.rglob("*")) == before


def test_processes_that_are_killed_lose_and_double_nothing(
    spark: Any, many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the tasks die while reading; the others once their files are written, before they report it."""
    lake, files = tmp_path / "lake", sorted(many.glob("device=[01]/*.etdp"))
    monkeypatch.setattr(ingestion, "_work", dying.work)
    report = of_spark(spark, str(many / "device=[01]" / "*.etdp"), lake)
    assert (report.new, report.known, report.errors.count()) == (len(files), 0, 0)
    assert check(lake) == [], "what they left is deleted"
    of_duckdb(tmp_path / "added", files)
    assert differing(lake, tmp_path / "added") == []


def test_a_driver_that_dies_goes_on_where_it_was(
    spark: Any, many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies with files written that no table has."""
    lake, files, published = tmp_path / "lake", sorted(many.glob("device=2/*.etdp")), staging.published

    def dies(place: Lake, results: Iterable[staging.Result]) -> int:
        if read(place).loads("capture"):
            raise KeyboardInterrupt
        return published(place, results)

    with monkeypatch.context() as patched:
        patched.setattr(ingestion, "published", dies)
        patched.setattr(ingestion, "discard_of_prefix", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            of_spark(spark, str(many / "device=2"), lake, files_at_once=20)
    assert captures(lake) == 20 and {fault.is_left_over for fault in check(lake)} == {True}
    report = of_spark(spark, str(many / "device=2"), lake, files_at_once=20)
    assert (report.new, report.known) == (len(files) - 20, 20)
    etq.lake.compact(lake, leave_seconds=-1)
    of_duckdb(tmp_path / "added", files)
    assert check(lake) == [] and differing(lake, tmp_path / "added") == []


def test_files_that_cannot_be_read_are_rows(spark: Any, tmp_path: Path) -> None:
    shutil.copytree(CAPTURES / "malformed", tmp_path / "files")
    odd = tmp_path / "files" / "odd {1} [2] ü%20.etdp"
    shutil.copy(CAPTURES / "mlp/mlp.etdp", odd)
    shutil.copy(odd, tmp_path / "files" / "same.etdp")
    with etq.open() as warehouse:
        results = warehouse.ingest_many(sorted((tmp_path / "files").iterdir()))
    expected = sorted(
        (str(path), str(result))
        for path, result in zip(sorted((tmp_path / "files").iterdir()), results, strict=True)
        if isinstance(result, EtqError)
    )
    report = etq.spark.ingest(spark, [str(tmp_path / "files" / "*.etdp")], tmp_path / "lake")
    assert report.errors.columns == ["path", "error"]
    assert sorted(map(tuple, report.errors.collect())) == expected != []
    new = {result.sha256 for result in results if not isinstance(result, EtqError)}
    assert report.new == len(new) and report.known == len(results) - len(expected) - len(new) > 0
    assert captures(tmp_path / "lake") == report.new and check(tmp_path / "lake") == []


def test_records_sidecars_and_what_was_added_by_others(spark: Any, tmp_path: Path) -> None:
    """As `ingest_many` takes them, into a lake that has some of them and one of the same name."""
    files, record, program = (
        [tmp_path / f"{name}.etdp" for name in ("mlp", "mlp_100runs", "mlp_1run")],
        CAPTURES / "mlp/mlp.etrecord",
        CAPTURES / "mlp/mlp.pte",
    )
    for path in files:
        shutil.copy(CAPTURES / "mlp" / path.name, path)
    files[0].with_name("mlp.etdp.json").write_text('{"labels": {"device": "pixel8"}, "metrics": {"temperature": 41}}')
    lakes = tmp_path / "lake", tmp_path / "added"
    for lake in lakes:
        (tmp_path / "other").mkdir(exist_ok=True)
        shutil.copy(CAPTURES / "fleet/mlp/00.etdp", tmp_path / "other" / "mlp.etdp")
        etq.lake.add(lake, lambda warehouse: warehouse.ingest_many([tmp_path / "other" / "mlp.etdp", files[2]]))
    report = etq.spark.ingest(spark, str(tmp_path / "*.etdp"), lakes[0], etrecord=record, pte=program)
    assert (report.new, report.known) == (2, 1)

    def read(warehouse: etq.Warehouse) -> None:
        warehouse.ingest_many(files, link_to=[warehouse.ingest_program(program), warehouse.ingest_record(record)])

    etq.lake.add(lakes[1], read)
    assert differing(*lakes) == [] and check(lakes[0]) == []
    with etq.open(lakes[0]) as warehouse:
        assert warehouse.rows("FROM module_totals('mlp_100runs')")[1]
        assert ("pixel8",) in warehouse.rows("SELECT value FROM labels WHERE key = 'device'")[1]


def test_files_that_cannot_be_ingested(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WarehouseError, match="a file; a lake is a folder"):
        etq.spark.ingest(spark, str(CAPTURES / "mlp"), tmp_path / "file")
    with pytest.raises(EtqError, match="PATH_NOT_FOUND"):
        etq.spark.ingest(spark, str(tmp_path / "*.etdp"), tmp_path / "lake")
    with pytest.raises(WarehouseError, match="invalid key; it must not be empty"):
        etq.spark.ingest(spark, str(CAPTURES / "mlp"), tmp_path / "lake", labels={"": "x"})
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch", None)
    assert before != "64", "the session's settings are its own again"
