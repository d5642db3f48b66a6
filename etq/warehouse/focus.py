"""Queries about one capture of a large warehouse, at the cost of those in a small one.

Views find the key of their capture by a subquery, so a plan may read the events of all captures to join them with those
of one. Copies of the capture's rows, which have the tables' names, make the same views read these alone.
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
