"""Reading profiling files into a lake with Spark's executors, which apply the usual readers to bytes that Spark
reads.
"""

from __future__ import annotations

import re
import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote

import msgspec

from etq.annotations.discovery import labels_of_git
from etq.annotations.labels import check_labels
from etq.errors import EtqError, WarehouseError
from etq.lake import adding, log, staging
from etq.lake.log import Segment
from etq.lake.publishing import publish
from etq.lake.segments import remove_of_prefix
from etq.lake.staging import Known, Rejected, Result, Staged, StagingJob
from etq.spark.session import failures, message
from etq.storage.capture import Options
from etq.storage.sources import checked_clock_bits, checked_moment, checked_time_scale, source_of
from etq.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    import os

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from etq.choices import TimeScale

# The files of a task become one segment; many cores make smaller tasks. A batch of files fits in memory.
_SETTINGS: Final = {
    "spark.sql.files.maxPartitionBytes": str(1 << 30),
    "spark.sql.files.openCostInBytes": str(1 << 19),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
}
_ROW: Final = "path STRING, sha256 STRING, name STRING, segment STRING, error STRING"
_COLUMNS: Final = ("path", "sha256", "name", "segment", "error")
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
) -> Ingested:
    """Read profiling files into a lake with the executors of a Spark session. Known captures are unchanged.

    files  paths with wildcards, or folders, of which all files are read: of any file system that the session knows,
           as s3a://lab/*/*.etdp; up to 2 GB each
    lake   a folder that the driver and all executors see under this path; it is created if it doesn't exist

    The other options are those of `etq lake add` and apply to every file. Sidecars are found only if executors can read
    the files' folders as local paths. Executors need etq[spark], and disk space for the captures of a task.

    A file that can't be read is listed in `errors`, and the others are still read. Spark repeats a failed task; files
    of the failed one are deleted at the end. After every `files_at_once` files, these are added to the lake: if the
    driver is killed, repeating the call continues from there. Of files with the same content, one is stored.

    Raises `WarehouseError` if `lake` can't be a lake, `EtqError` if no files match or if Spark fails.
    """
    folder = _folder(lake)
    check_labels(labels or {})
    moment, scale = checked_moment(captured_at), checked_time_scale(time_scale)
    of_git = {} if label_git is None else labels_of_git(label_git)
    log.make(folder)
    _add_linked(folder, etrecord, pte)
    job = StagingJob(
        lake=str(folder),
        prefix=secrets.token_hex(8),
        options=Options(None, dict(labels or {}), moment, scale, checked_clock_bits(clock_bits)),
        label_from=label_from,
        of_git=of_git,
        sidecar=sidecar,
        record=None if etrecord is None else bytes(source_of(etrecord).content),
        program=None if pte is None else bytes(source_of(pte).content),
    )
    try:
        with _settings(spark):
            return _ingest(spark, files, files_at_once, job)
    except failures() as error:
        raise EtqError(f"Spark: {message(error)}") from error
    finally:
        remove_of_prefix(folder, job.prefix)


def _ingest(spark: SparkSession, files: str | Sequence[str], files_at_once: int, job: StagingJob) -> Ingested:
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
        taken = publish(job.lake, [each for each in results if isinstance(each, Segment)], written)
        new += taken
        known += sum(isinstance(each, Known) for each in results) + len(written) - taken
        refused += [(each.path, each.error) for each in results if isinstance(each, Rejected)]
    return Ingested(new, known, spark.createDataFrame(refused, "path STRING, error STRING"))


def _folder(lake: str | os.PathLike[str]) -> Path:
    text = _LOCAL.sub("", str(lake))
    if "://" in text:
        raise WarehouseError(f"{text}: an address; name a folder that all of Spark's processes see")
    return Path(text).absolute()


def _add_linked(lake: Path, etrecord: Any, pte: Any) -> None:
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
    """Set how a session reads files, and silence its warnings about pandas, which isn't used here."""
    before = {name: spark.conf.get(name, None) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
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
    """Return the results for files, ordered by path, and the segments that were written."""
    written = frame.select("path", "content").mapInArrow(partial(_work, job), _ROW)
    results = [_result(row) for row in written.collect()]
    return sorted(results, key=lambda each: "" if isinstance(each, Segment) else each.path)


def _path(place: str) -> str:
    """Return the path in a file's address, which Spark writes in several ways."""
    return _LOCAL.sub("", unquote(place))


def _work(job: StagingJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the files of a task; runs in an executor."""
    import pyarrow as pa

    results = staging.stage(job, _files(batches))
    schema = pa.schema([(name, pa.string()) for name in _COLUMNS])
    for each in results:
        row = {"segment": msgspec.json.encode(each).decode()} if isinstance(each, Segment) else asdict(each)
        yield pa.RecordBatch.from_pylist([row], schema=schema)


def _files(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, bytes]]:
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            yield _LOCAL.sub("", path.as_py()), content.as_py()


def _result(row: Any) -> Result:
    """Return the result in a row of `_work`."""
    path, sha256, name, segment, error = row
    if path is None:
        return msgspec.json.decode(segment, type=Segment)
    if error is not None:
        return Rejected(path, error)
    return Known(path) if segment is None else Staged(path, sha256, name, segment)
