"""Make a warehouse of a fleet quickly: `make_fleet.py OUT.duckdb CAPTURES` writes captures of 100 runs of 50 ops (101
events a run), a minute apart, as if each had been ingested, and prints the seconds that took.

Times are drawn with a fixed seed; the changes of `PLANTED` are in them. One capture is ingested for what all have in
common; the rollups are written by the SQL that ingest writes them by.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import etq
from etq.advice.filling import fill_rollups
from etq.storage.inserting import settle
from tests.benchmarks.make_dump import EVENTS_PER_RUN, around, write

RUNS, OPS = 100, 50
# Captures of one commit, which follow each other on one device; commits take the devices in turn.
CAPTURES_OF_COMMIT = 10
DEVICES = ("pixel8", "pixel9", "galaxy24", "iphone15")
AT_ONCE = 50
ROLLED_UP_AT_ONCE = 200


@dataclass(frozen=True)
class Planted:
    """A change: what became of an op (None: of all ops) on a device, in a part of its captures, from 0 to 1."""

    device: str
    instruction: int | None
    factor: float
    begin: float
    end: float = 1.0


PLANTED = (
    Planted("pixel8", 12, 1.08, 0.6),
    Planted("pixel9", None, 1.05, 0.3),
    Planted("galaxy24", 14, 1.3, 0.5, 0.7),
    Planted("iphone15", 35, 0.85, 0.8),
)


def levels(captures: int, random: np.random.Generator) -> np.ndarray:
    """What the ops of each capture typically take, in ns (captures, ops): a slow drift, noise, the planted changes."""
    typical = np.resize([14200, 38900, 130, 900, 450, 21000, 1300, 420, 5200, 2600], OPS)
    drift = 0.01 * np.sin(np.arange(captures) * (2 * np.pi / 3000)) + np.cumsum(random.normal(0, 0.0002, captures))
    found = typical * np.exp(random.normal(0, 0.01, (captures, OPS)) + drift[:, None])
    device, place = np.arange(captures) // CAPTURES_OF_COMMIT % len(DEVICES), np.arange(captures) / captures
    for each in PLANTED:
        changed = (device == DEVICES.index(each.device)) & (place >= each.begin) & (place < each.end)
        found[np.ix_(changed, np.arange(OPS) if each.instruction is None else [each.instruction])] *= each.factor
    return np.asarray(found)


def events(frame: pa.Table, typical: np.ndarray, random: np.random.Generator) -> Iterator[pa.RecordBatch]:
    """The events of all captures, in order: those of `frame`, one capture's, with times of their own."""
    for first in range(0, len(typical), AT_ONCE):
        here = np.arange(first, min(first + AT_ONCE, len(typical)))
        times = typical[here][:, None, :] * random.lognormal(0, 0.02, (len(here), RUNS, OPS))
        start, end = around(times.reshape(-1, OPS).round().astype(np.int64), random)
        own = {
            "capture_id": np.repeat(here + 1, len(frame)).astype(np.int32),
            "start_ticks": start.ravel(),
            "elapsed_ticks": (end - start).ravel(),
        }
        rows = pa.concat_tables([frame] * len(here))
        for name, values in own.items():
            rows = rows.set_column(rows.schema.get_field_index(name), frame.schema.field(name), pa.array(values))
        yield from rows.to_batches()


def copy(connection: duckdb.DuckDBPyConnection, table: str, captures: int) -> None:
    """Give all captures the rows that the first one has in a table."""
    connection.execute(
        f"""
        INSERT INTO {table}
        SELECT t.* REPLACE (k.capture_id::INTEGER AS capture_id)
        FROM range(2, {captures + 1:d}) AS k (capture_id) CROSS JOIN {table} AS t
        WHERE t.capture_id = 1
        ORDER BY k.capture_id, t.rowid
        """
    )


def insert_captures(connection: duckdb.DuckDBPyConnection, captures: int) -> None:
    """All captures and their labels, in place of the first one's."""
    connection.execute(
        f"""
        CREATE TEMP TABLE numbers AS
        SELECT k.number::INTEGER AS number, k.number // {CAPTURES_OF_COMMIT} AS in_commit
        FROM range({captures:d}) AS k (number);
        CREATE TEMP TABLE first_one AS FROM captures;
        DELETE FROM captures;
        INSERT INTO captures
        SELECT f.* REPLACE (
            n.number + 1 AS capture_id,
            sha256('capture ' || n.number) AS sha256,
            'mlp-' || n.number AS name,
            'fleet/mlp-' || n.number || '.etdp' AS uri,
            TIMESTAMP '2026-01-01' + to_minutes(n.number) AS captured_at
        )
        FROM numbers AS n CROSS JOIN first_one AS f
        ORDER BY n.number;
        INSERT INTO labels
        SELECT n.number + 1, l.key, l.value
        FROM numbers AS n, LATERAL (VALUES
            ('model', 'mlp'),
            ('device', {list(DEVICES)}[1 + n.in_commit % {len(DEVICES)}]),
            ('host', 'lab-' || n.number % 2),
            ('build', (n.number + 1)::VARCHAR),
            ('commit', sha1('commit ' || n.in_commit))
        ) AS l (key, value)
        ORDER BY n.number
        """
    )


def insert_events(connection: duckdb.DuckDBPyConnection, typical: np.ndarray, random: np.random.Generator) -> None:
    """The events of all captures, in place of the first one's."""
    query = "FROM event_ticks ORDER BY run_index, event_index"
    frame = connection.sql(query).to_arrow_table().combine_chunks()
    connection.execute("DELETE FROM event_ticks")
    connection.register("_events", pa.RecordBatchReader.from_batches(frame.schema, events(frame, typical, random)))
    connection.execute("INSERT INTO event_ticks FROM _events")
    connection.unregister("_events")


def make(path: Path, captures: int) -> None:
    """Make the warehouse."""
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name, etq.open(path) as warehouse:
        dump = Path(name) / "one.etdp"
        write(dump, RUNS * EVENTS_PER_RUN)
        warehouse.ingest(dump)
        connection = warehouse.connection
        connection.execute("SET memory_limit = '1GB'")
        connection.execute("DELETE FROM op_times; DELETE FROM capture_ops")
        connection.execute("BEGIN")
        insert_captures(connection, captures)
        copy(connection, "signatures", captures)
        copy(connection, "runs", captures)
        insert_events(connection, levels(captures, random), random)
        connection.execute("COMMIT")
        for first in range(1, captures + 1, ROLLED_UP_AT_ONCE):
            connection.execute("BEGIN")
            settle(connection, first, min(first + ROLLED_UP_AT_ONCE - 1, captures))
            fill_rollups(connection, first, min(first + ROLLED_UP_AT_ONCE - 1, captures))
            connection.execute("COMMIT")
        connection.execute("CHECKPOINT")


if __name__ == "__main__":
    begin = time.perf_counter()
    make(Path(sys.argv[1]), int(sys.argv[2]))
    print(time.perf_counter() - begin)
