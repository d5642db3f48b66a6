"""Phases of runs, which the user sets by run number or by rule, or which follow from the tokens that a runner
counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import duckdb

from etq.advice.filling import fill_rollups
from etq.choices import PHASES
from etq.errors import ArgumentError, counted

_RANGE: Final = re.compile(r"(\d+)(?:\s*(-)\s*(\d+)?)?")


def ranges_of(text: str) -> list[tuple[int, int | None]]:
    """Return the ranges of a text such as 1-39,45,50-, as first and last run; last is None for an open end.

    Raises `ArgumentError` for other texts.
    """
    ranges: list[tuple[int, int | None]] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ArgumentError(f"{text!r} are not runs: give numbers from 0 and ranges, such as 0, 1-39,45 or 40-")
        first = int(match[1])
        last = None if match[2] and not match[3] else int(match[3] or match[1])
        if last is not None and last < first:
            raise ArgumentError(f"{text!r} are not runs: {part.strip()} ends before it begins")
        ranges.append((first, last))
    return ranges


def set_phase(
    connection: duckdb.DuckDBPyConnection,
    capture_id: int,
    phase: str | None,
    runs: str | Iterable[int] | None,
    name: str | None,
    method: str | None,
) -> int:
    """Set the phase of the runs that match all rules; return their number. Errors are those of `Warehouse.phase`."""
    if phase not in (None, *PHASES):
        raise ArgumentError(f"no phase {phase!r}; known are {', '.join(PHASES)}")
    if runs is None and name is None and method is None:
        raise ArgumentError("a phase applies to runs: give their numbers, their name or their method")
    conditions = ["r.capture_id = $capture"]
    parameters: dict[str, Any] = {"capture": capture_id}
    for column, value in (("name", name), ("method", method)):
        if value is not None:
            conditions.append(f"r.{column} = ${column}")
            parameters[column] = value
    if runs is not None:
        conditions.append("list_contains($runs, r.run_index)")
        parameters["runs"] = _numbers(connection, capture_id, runs)
    matching = connection.execute(
        f"SELECT r.run_index FROM runs AS r WHERE {' AND '.join(conditions)}", parameters
    ).fetchall()
    if not matching:
        raise ArgumentError(_none_chosen(connection, capture_id, name, method))
    connection.execute(
        "UPDATE runs SET phase = ? WHERE capture_id = ? AND list_contains(?, run_index)",
        [phase, capture_id, [run for (run,) in matching]],
    )
    fill_rollups(connection, capture_id)
    return len(matching)


def set_phases_from_metrics(connection: duckdb.DuckDBPyConnection, capture_id: int) -> dict[str, int]:
    """Set the phases that `_runner_phases` finds; return the number of runs of each phase. Raises DuckDB's errors."""
    [(sha256,)] = connection.execute("SELECT sha256 FROM captures WHERE capture_id = ?", [capture_id]).fetchall()
    connection.execute("CREATE OR REPLACE TEMP TABLE _phases AS FROM _runner_phases($capture)", {"capture": sha256})
    connection.execute(
        "UPDATE runs SET phase = s.phase FROM _phases AS s WHERE runs.capture_id = ? AND runs.run_index = s.run_index",
        [capture_id],
    )
    fill_rollups(connection, capture_id)
    counts = connection.execute(
        "SELECT s.phase, count(*) FROM _phases AS s GROUP BY 1 ORDER BY min(s.run_index)"
    ).fetchall()
    connection.execute("DROP TABLE _phases")
    return dict(counts)


def _numbers(connection: duckdb.DuckDBPyConnection, capture_id: int, runs: str | Iterable[int]) -> list[int]:
    [(number,)] = connection.execute("SELECT count(*) FROM runs WHERE capture_id = ?", [capture_id]).fetchall()
    if isinstance(runs, str):
        ranges = [(first, number - 1 if last is None else last) for first, last in ranges_of(runs)]
        beyond = [max(first, last) for first, last in ranges if max(first, last) >= number]
        numbers = [] if beyond else [each for first, last in ranges for each in range(first, last + 1)]
    else:
        numbers = list(runs)
        beyond = [each for each in numbers if not 0 <= each < number]
    if beyond:
        raise ArgumentError(f"no run {beyond[0]}: the capture has {counted(number, 'run')}, counted from 0")
    return numbers


def _none_chosen(connection: duckdb.DuckDBPyConnection, capture_id: int, name: str | None, method: str | None) -> str:
    """Return why the rules match no run, with the existing names or methods of runs."""
    for column, value in (("name", name), ("method", method)):
        query = f"SELECT DISTINCT {column} FROM runs WHERE capture_id = ? AND {column} IS NOT NULL ORDER BY 1"
        known = [each for (each,) in connection.execute(query, [capture_id]).fetchall()]
        if value is not None and value not in known:
            link = "; link a record or program, which name methods" if column == "method" and not known else ""
            return f"no run has the {column} {value!r}; there are {', '.join(known) or 'none'}{link}"
    return "no run is chosen by all of this together"
