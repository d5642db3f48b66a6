"""Stores metrics in a warehouse, with the units and directions that their names imply."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

import duckdb
import pyarrow as pa

from etq.errors import ArgumentError, counted, displayed
from etq.ingest.memory import refuse_beyond
from etq.ingest.metrics.reader import read_metrics
from etq.ingest.metrics.rows import DIRECTIONS, Metric, metric_batch
from etq.storage.sources import Source

_NOT_IN_NAMES: Final = re.compile(r"[=\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# The prefixes of the names of metrics that are peak rates of a capture's device.
PEAKS: Final = "peak_"
# For each table that a reader yields, the macro that converts its rows to rows of `metrics`.
_COUNTED: Final = {"metrics": "_known_metrics", "runner_stats": "_runner_metrics"}


def store_metrics(connection: duckdb.DuckDBPyConnection, capture_id: int, source: Source) -> int:
    """Attach a file's metrics to a capture; return their number, 0 if the file was attached before.

    The caller holds a transaction. Raises `FormatError` for a file that can't be read.
    """
    known = "SELECT 1 FROM metrics WHERE capture_id = ? AND source = ? LIMIT 1"
    if connection.execute(known, [capture_id, source.sha256]).fetchall():
        return 0
    path = displayed(source.path)
    refuse_beyond(path, "its text", 2 * len(source.content))
    return sum(
        _insert(connection, capture_id, table, rows, source.sha256)
        for table, rows in read_metrics(bytes(source.content), path)
    )


def add_metrics(connection: duckdb.DuckDBPyConnection, capture_id: int, parts: Sequence[pa.RecordBatch]) -> None:
    """Attach a sidecar's metrics to a capture as if the user had attached them,
    except for names that it already has.
    """
    attached = "SELECT DISTINCT name FROM metrics WHERE capture_id = ? AND source IS NULL"
    have = {name for (name,) in connection.execute(attached, [capture_id]).fetchall()}
    for rows in parts:
        new = [name not in have for name in rows["name"].to_pylist()]
        _insert(connection, capture_id, "metrics", rows.filter(pa.array(new)), None)


def add_metrics_of_new(
    connection: duckdb.DuckDBPyConnection, parts_of_captures: Mapping[int, Sequence[pa.RecordBatch]]
) -> None:
    """Attach sidecars' metrics to captures that have none, by capture_id, as `add_metrics` does for one capture."""
    keyed = [
        rows.add_column(0, "capture_id", pa.repeat(pa.scalar(key, pa.int32()), rows.num_rows))
        for key, parts in parts_of_captures.items()
        for rows in parts
    ]
    if not keyed:
        return
    connection.register("_given", pa.Table.from_batches(keyed))
    connection.execute(
        """
        INSERT INTO metrics BY NAME
        SELECT k.capture_id, m.*
        FROM (SELECT g.capture_id, list(g) AS given FROM _given AS g GROUP BY g.capture_id) AS k,
            LATERAL (FROM _known_metrics(k.given)) AS m
        ORDER BY k.capture_id
        """
    )
    connection.unregister("_given")


def set_metric(
    connection: duckdb.DuckDBPyConnection, capture_id: int, metric: Metric | str, run_index: int | None
) -> int:
    """Attach a metric to a capture or one of its runs, replacing one of the same name that a user attached.

    A metric with only a name removes the existing one. Returns the number of metrics removed.
    """
    name = metric if isinstance(metric, str) else metric.name
    gone = connection.execute(
        """DELETE FROM metrics WHERE capture_id = ? AND name = ? AND source IS NULL
        AND run_index IS NOT DISTINCT FROM ? RETURNING 1""",
        [capture_id, name, run_index],
    ).fetchall()
    if not isinstance(metric, str):
        check_metric(metric)
        rows = metric_batch([metric])
        if run_index is not None:
            _check_run(connection, capture_id, run_index)
            rows = rows.set_column(0, "run_index", pa.array([run_index], pa.int32()))
        _insert(connection, capture_id, "metrics", rows, None)
    advise_by_peaks(connection, capture_id, name)
    return len(gone)


def advise_by_peaks(connection: duckdb.DuckDBPyConnection, capture_id: int, name: str | None = None) -> None:
    """Write the advice about a trace again after a metric of this name changed, or any: advice depends on peak
    rates.
    """
    query = "SELECT 1 FROM metrics AS m WHERE m.capture_id = ? AND starts_with(m.name, ?) LIMIT 1"
    if name is None:
        is_rated = bool(connection.execute(query, [capture_id, PEAKS]).fetchall())
    else:
        is_rated = name.startswith(PEAKS)
    if is_rated:
        # Imported here, as reading a file doesn't need it.
        from etq.advice.filling import refill_rated

        refill_rated(connection, [capture_id])


def check_metric(metric: Metric) -> None:
    """Raise `ArgumentError` for a metric that can't be stored."""
    name, value, unit = metric.name, metric.value, metric.unit
    if not isinstance(name, str) or not name.strip() or _NOT_IN_NAMES.search(name):
        raise ArgumentError(f"{name!r} is not a name of a metric: a name has no = and no control characters")
    if isinstance(value, str):
        raise ArgumentError(
            f"the metric {name} is {value!r}, which is not a number; attach a text as a label: {name}={value}"
        )
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ArgumentError(f"the metric {name} is {value!r}, which is not a finite number")
    if unit is not None and (not isinstance(unit, str) or not unit.strip() or _NOT_IN_NAMES.search(unit)):
        raise ArgumentError(f"{unit!r} is not a unit of the metric {name}: a unit has no = and no control characters")
    if metric.better not in (None, *DIRECTIONS):
        raise ArgumentError(f"better of the metric {name} is {metric.better!r}; it must be lower, higher or None")


def _check_run(connection: duckdb.DuckDBPyConnection, capture_id: int, run_index: int) -> None:
    query = "SELECT count(*) FROM runs AS r WHERE r.capture_id = ?"
    [(runs,)] = connection.execute(query, [capture_id]).fetchall()
    if not 0 <= run_index < runs:
        raise ArgumentError(f"no run {run_index}: the capture has {counted(runs, 'run')}, counted from 0")


def _insert(
    connection: duckdb.DuckDBPyConnection, capture_id: int, table: str, rows: pa.RecordBatch, source: str | None
) -> int:
    if rows.num_rows == 0:
        return 0
    connection.register("_given", rows)
    inserted = connection.execute(
        f"""
        INSERT INTO metrics BY NAME
        SELECT {capture_id:d} AS capture_id, m.*, $source AS source
        FROM {_COUNTED[table]}((SELECT list(g) FROM _given AS g)) AS m
        """,
        {"source": source},
    ).fetchall()
    connection.unregister("_given")
    return int(inserted[0][0])
