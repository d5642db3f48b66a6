"""Reading profiling files into a lake with Spark's executors, which apply the usual readers to bytes that Spark
reads.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote

import msgspec

from etq.annotations.discovery import labels_of_git
from etq.errors import EtqError
from etq.lake.reading.tables import Lake
from etq.lake.writing import adding, staging
from etq.lake.writing.commits import make
from etq.lake.writing.loads import Load, discard_of_prefix
from etq.lake.writing.staging import Known, Rejected, Result, Staged, StagingJob, published
from etq.spark.session import failures, message, without_warnings
from etq.storage.capture import Options
from etq.storage.sources import source_of
from etq.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    import os

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from etq.choices import TimeScale

# A task's files make a good load, or a smaller one on many cores; a batch of them fits in memory.
_SETTINGS: Final = {
    "spark.sql.files.maxPartitionBytes": str(1 << 30),
    "spark.sql.files.openCostInBytes": str(1 << 19),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
}
_ROW: Final = "path STRING, sha256 STRING, name STRING, load STRING, error STRING"
_COLUMNS: Final = ("path", "sha256", "name", "load", "error")
_LOCAL: Final = re.compile(r"file:(?://(?=/))?(?=/)")


@dataclass(frozen=True)
class Ingested:
    """The numbers of new and of known captures; and a DataFrame of the files left out: path, error."""

    new: int
    known: int
    errors: DataFrame


def ingest(
    spark: SparkSession,
    files: str | Sequence[str],
    lake: str | os.PathLike[str],
    *,
    labels: Mapping[str, str] | None = None,
    captured_at: datetime | None = None,
    time_scale: TimeScale | None = None,
    clock_bits: Literal[32, 64] | None = None,
    label_from: str | None = None,
    label_git: str | os.PathLike[str] | None = None,
    sidecar: bool = True,
    etrecord: str | os.PathLike[str] | bytes | None = None,
    pte: str | os.PathLike[str] | bytes | None = None,
    files_at_once: int = 100_000,
    storage_options: Mapping[str, str] | None = None,
) -> Ingested:
    """Read profiling files into a lake with the executors of a Spark session. Known captures are unchanged.

    files  paths with wildcards, or folders, of which all files are read: of any file system that the session knows,
           as s3a://lab/*/*.etdp; up to 2 GB each
    lake   an address in an object store, as s3a://lab/fleet, which executors write to and the driver commits to; or a
           folder that the driver and all executors see under this path. It is created if it doesn't exist
    storage_options  options of the object store, as `deltalake` takes them; otherwise those of each process's
           environment

    The other options count for every file, and are those of `etq lake add`. Sidecars are found where executors see the
    files' folders as such, not by an address. Executors need etq[lake,spark], and room on disk for the captures of a
    task.

    A file that can't be read is listed in `errors`, and the others are still read. Spark repeats a failed task; files
    of the failed one are deleted at the end. After every `files_at_once` files, these are added to the lake: if the
    driver is killed, repeating the call continues from there. Of files with the same content, one is stored.

    Raises `WarehouseError` if `lake` can't be a lake, `EtqError` if no files match or if Spark fails.
    """
    place = Lake.at(_LOCAL.sub("", str(lake)), storage_options)
    options = Options(None, dict(labels or {}), captured_at, time_scale, clock_bits)
    of_git = {} if label_git is None else labels_of_git(label_git)
    make(place)
    _add_linked(place, etrecord, pte)
    job = StagingJob(
        lake=place,
        prefix=secrets.token_hex(8),
        options=options,
        label_from=label_from,
        of_git=of_git,
        sidecar=sidecar,
        record=None if etrecord is None else bytes(source_of(etrecord).content),
        program=None if pte is None else bytes(source_of(pte).content),
    )
    published_loads: set[str] = set()
    try:
        with _settings(spark):
            return _ingest(spark, files, files_at_once, job, published_loads)
    except failures() as error:
        raise EtqError(f"Spark: {message(error)}") from error
    finally:
        discard_of_prefix(place, job.prefix, published_loads)


def _ingest(
    spark: SparkSession, files: str | Sequence[str], files_at_once: int, job: StagingJob, published_loads: set[str]
) -> Ingested:
    frame = _read(spark, files)
    # Spark can filter files by this column before it reads them.
    place_of = frame["_metadata.file_path"]
    places = sorted(place for (place,) in frame.select(place_of).collect())
    new = known = 0
    # Spark skips empty files without a notice.
    empty = [(path, b"") for path in sorted({*map(_path, frame.inputFiles())} - {*map(_path, places)})]
    refused = [(each.path, each.error) for each in staging.stage(job, empty) if isinstance(each, Rejected)]
    for start in range(0, len(places), files_at_once):
        among = places[start : start + files_at_once]
        results = _written(frame.where(place_of.between(among[0], among[-1])), job)
        written = [each for each in results if isinstance(each, Staged)]
        published_loads |= {each.id for each in results if isinstance(each, Load)}
        taken = published(job.lake, results)
        new += taken
        known += sum(isinstance(each, Known) for each in results) + len(written) - taken
        refused += [(each.path, each.error) for each in results if isinstance(each, Rejected)]
    with without_warnings():
        errors = spark.createDataFrame(refused, "path STRING, error STRING")
    return Ingested(new, known, errors)


def _add_linked(lake: Lake, etrecord: Any, pte: Any) -> None:
    """Add the record and program to which captures are linked, as executors don't write them."""

    def read(warehouse: Warehouse) -> None:
        if etrecord is not None:
            warehouse.ingest_record(etrecord)
        if pte is not None:
            warehouse.ingest_program(pte)

    if etrecord is not None or pte is not None:
        adding.add(lake, read)


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Set how a session reads files."""
    before = {name: spark.conf.get(name, None) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def _read(spark: SparkSession, files: str | Sequence[str]) -> DataFrame:
    """Return the files, listed once. Raises `EtqError` if none match."""
    from pyspark.errors import AnalysisException

    # Folders with names such as key=value must not become columns.
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        frame = reader.load([files] if isinstance(files, str) else [*files])
    except AnalysisException as error:
        raise EtqError(f"{files}: {message(error)}") from None
    return frame


def _written(frame: DataFrame, job: StagingJob) -> list[Result]:
    """The results for files, in the order of their paths, and the loads that were written."""
    with without_warnings():
        written = frame.select("path", "content").mapInArrow(partial(_work, job), _ROW)
    results = [_result(row) for row in written.collect()]
    return sorted(results, key=lambda each: "" if isinstance(each, Load) else each.path)


def _path(place: str) -> str:
    """Return the path in a file's address, which Spark writes in several ways."""
    return _LOCAL.sub("", unquote(place))


def _work(job: StagingJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the files of a task; runs in an executor."""
    import pyarrow as pa

    results = staging.stage(job, _files(batches))
    schema = pa.schema([(name, pa.string()) for name in _COLUMNS])
    for each in results:
        row = {"load": msgspec.json.encode(each).decode()} if isinstance(each, Load) else asdict(each)
        yield pa.RecordBatch.from_pylist([row], schema=schema)


def _files(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, bytes]]:
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            yield _LOCAL.sub("", path.as_py()), content.as_py()


def _result(row: Any) -> Result:
    """The result that a row of `_work` holds."""
    path, sha256, name, load, error = row
    if path is None:
        return msgspec.json.decode(load, type=Load)
    if error is not None:
        return Rejected(path, error)
    return Known(path) if load is None else Staged(path, sha256, name, load)
