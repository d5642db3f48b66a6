"""The findings about dumps, as rows of advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from etq.advice.collecting import Row, rows
from etq.advice.dumps import findings_of
from etq.advice.evidence import evidence_of
from etq.database.clocks import write_clocks
from etq.database.rollups import answered_times

if TYPE_CHECKING:
    import duckdb


class Given(NamedTuple):
    """The arguments of `advice` after the capture."""

    unit: str | None = None
    steps: str | None = None
    phase: str | None = None
    method: str | None = None
    runs: str = "typical"


DEFAULT: Final = Given()


def rows_of_dump(connection: duckdb.DuckDBPyConnection, key: int, given: Given) -> list[Row]:
    """Compute the rows of `advice` about a dump anew, with the columns `COLUMNS`. The caller has checked `given`."""
    with _chosen(connection, key, given):
        return rows_of_dumps(connection, key, key, given).get(key, [])


def rows_of_dumps(
    connection: duckdb.DuckDBPyConnection, first: int, last: int, given: Given = DEFAULT
) -> Mapping[int, list[Row]]:
    """Return the rows about each dump from one key up to another. Call this within `answered_times`."""
    with _steady(connection, given.runs):
        found = evidence_of(connection, first, last, given.unit, runs=given.runs)
    return {key: rows(findings_of(evidence), evidence.scale) for key, evidence in found.items()}


@contextmanager
def _chosen(connection: duckdb.DuckDBPyConnection, key: int, given: Given) -> Iterator[None]:
    """Within the block, provide the times of a dump, and the executes of the chosen runs."""
    write_clocks(connection, key, key)
    with answered_times(connection, key, key):
        if (given.steps, given.phase, given.method) != (None, None, None):
            chosen = "SELECT r.run_index FROM _selected_runs(?, ?, ?, ?, 'all') AS r"
            connection.execute(
                f"DELETE FROM _filled_runs WHERE run_index NOT IN ({chosen})",
                [key, given.steps, given.phase, given.method],
            )
        yield


@contextmanager
def _steady(connection: duckdb.DuckDBPyConnection, runs: str) -> Iterator[None]:
    """Within the block, provide `_advised_times`: the times of the runs to which shares refer."""
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP VIEW _advised_times AS
        SELECT t.*, x.scope FROM _filled_times AS t
        JOIN _filled_runs AS x USING (capture_id, run_index)
        WHERE {"x.is_typical" if runs == "typical" else "true"}
        """
    )
    try:
        yield
    finally:
        connection.execute("DROP VIEW IF EXISTS _advised_times")
