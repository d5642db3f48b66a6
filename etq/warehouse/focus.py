"""Many queries about one capture, as a report asks, at less than the cost of each alone.

Views find the key of their capture by a subquery, so a plan may read the events of all captures to join them with those
of one. Copies of the capture's rows, which have the tables' names, make the same views read these alone. And what many
views of a trace compute is computed once: temporary macros, which have the names of those that compute it, read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import duckdb

from etq import catalog
from etq.database.handles import Capture
from etq.errors import QueryError, message_of
from etq.warehouse.warehouse import Warehouse

# What other captures are listed and chosen by; these tables are small.
_WHOLE: Final = ("captures", "labels")
# What several views of a trace compute, with the arguments that follow the key of the capture. Those below read those
# above.
_SHARED: Final = {
    "_launches": ["'all'"],
    "_device_owners": [],
    "_launched_times": [],
    "_calls": ["NULL", "NULL", "NULL", "'all'"],
    "_step_ticks": ["'all'"],
    "_operator_tree": ["'all'"],
    "_pass_slices": [],
    "_path_parts": ["NULL", "NULL"],
    "_innermost_owners": [],
}


@contextmanager
def focused(warehouse: Warehouse, capture: Capture) -> Iterator[None]:
    """Have queries see the rows of this capture alone, but for names and labels, until the block ends.

    The warehouse is not changed: the copies are in memory. Other threads wait. Raises `QueryError` if there is not
    enough memory for the copies.
    """
    names = [
        table.name
        for table in catalog.tables()
        if table.name not in _WHOLE and any(column.name == "capture_id" for column in table.columns)
    ]
    with warehouse.locked() as connection:
        try:
            for name in names:
                # The order of rows is that of the table.
                connection.execute(
                    f"CREATE TEMP TABLE {name} AS FROM main.{name} AS t WHERE t.capture_id = {capture.capture_id:d}"
                )
            yield
        except duckdb.Error as error:
            raise QueryError(message_of(error)) from error
        finally:
            for name in names:
                connection.execute(f"DROP TABLE IF EXISTS temp.{name}")


@contextmanager
def computed_once(warehouse: Warehouse, capture: Capture) -> Iterator[None]:
    """Have the views of a trace read what several of them compute from temporary tables, until the block ends.

    Within the block, only this capture can be asked about. The warehouse is not changed. Other threads wait. Raises
    `QueryError` if there is not enough memory.
    """
    with warehouse.locked() as connection:
        # A warehouse of another version has temporary macros already.
        query = "SELECT function_name FROM duckdb_functions() WHERE database_name = 'temp' AND function_name IN ?"
        existing = {name for (name,) in connection.execute(query, [[*_SHARED]]).fetchall()}
        try:
            for name, arguments in _SHARED.items():
                call = f"{name}({', '.join([str(capture.capture_id), *arguments])})"
                connection.execute(f"CREATE TEMP TABLE _computed{name} AS FROM {call}")
                connection.execute(_reading(name, arguments))
            yield
        except duckdb.Error as error:
            raise QueryError(message_of(error)) from error
        finally:
            for name in _SHARED:
                if name in existing:
                    connection.execute(catalog.named(name).replacing(temporary=True))
                else:
                    connection.execute(f"DROP MACRO TABLE IF EXISTS temp.{name}")
                connection.execute(f"DROP TABLE IF EXISTS temp._computed{name}")


def _reading(name: str, arguments: list[str]) -> str:
    """Return the statement for a temporary macro that reads what the macro of this name returned for the arguments."""
    parameters = [each.name for each in catalog.named(name).parameters]
    same = [f"{each} IS NOT DISTINCT FROM {value}" for each, value in zip(parameters[1:], arguments, strict=True)]
    refused = "error('computed for other arguments')"
    condition = f" WHERE CASE WHEN {' AND '.join(same)} THEN true ELSE {refused} END" if same else ""
    return f"CREATE OR REPLACE TEMP MACRO {name}({', '.join(parameters)}) AS TABLE FROM temp._computed{name}{condition}"
