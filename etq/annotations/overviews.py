"""Overviews: what a team watches, kept under a name: series in the table `overview_items`, and comparisons in
`overview_comparisons`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import duckdb

from etq.choices import TREND_KINDS
from etq.errors import LONGEST_NAME, EtqError, printable

# The columns that name what is watched.
COLUMNS: Final = ("what", "item", "selector", "ordered_by", "separated_by")


def add_item(connection: duckdb.DuckDBPyConnection, overview: str, watched: dict[str, str | None]) -> int:
    """Add what is watched, by column, to an overview, which is created if it doesn't exist. Returns its number.

    What the overview has already keeps its number. Raises `EtqError` for an invalid name, and for a text that can't be
    displayed.
    """
    _check_texts(overview, watched.values())
    if watched["what"] not in TREND_KINDS:
        raise EtqError(f"overview {overview}: {watched['what']!r} is not {', '.join(TREND_KINDS)}")
    same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM ${name}" for name in COLUMNS)
    query = f"SELECT o.item_index FROM overview_items AS o WHERE o.overview = $overview AND {same}"
    given = {"overview": overview, **{name: watched[name] for name in COLUMNS}}
    if known := connection.execute(query, given).fetchall():
        return int(known[0][0])
    values = ", ".join(f"${name}" for name in COLUMNS)
    connection.execute(
        f"""
        INSERT INTO overview_items
        SELECT $overview, coalesce(max(o.item_index), 0) + 1, {values}
        FROM overview_items AS o WHERE o.overview = $overview
        """,
        given,
    )
    return int(connection.execute(query, given).fetchall()[0][0])


def remove_item(connection: duckdb.DuckDBPyConnection, overview: str, number: int) -> None:
    """Remove an item from an overview, which is gone when it has none. Raises `EtqError` for an unknown one."""
    query = "DELETE FROM overview_items WHERE overview = ? AND item_index = ? RETURNING item_index"
    if not connection.execute(query, [overview, number]).fetchall():
        raise EtqError(f"overview {printable(overview)}: nothing has the number {number}; etq overview lists them")


def add_comparison(
    connection: duckdb.DuckDBPyConnection,
    overview: str,
    base: str,
    new: str,
    *,
    phase: str | None,
    min_effect: float | None,
    allow_mismatch: bool,
) -> int:
    """Add a comparison to an overview, which is created if it doesn't exist. Returns its number; what the overview has
    already keeps its own. Raises `EtqError` for an invalid name, text or number.
    """
    _check_texts(overview, (base, new, phase))
    if min_effect is not None and not 0 <= min_effect < 10:
        raise EtqError(f"overview {overview}: the smallest change must be a fraction from 0 to below 10")
    given = {"overview": overview, "base": base, "new": new, "phase": phase, "min_effect": min_effect,
             "allow_mismatch": allow_mismatch}  # fmt: skip
    same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM ${name}" for name in given)
    query = f"SELECT o.comparison_index FROM overview_comparisons AS o WHERE {same}"
    if known := connection.execute(query, given).fetchall():
        return int(known[0][0])
    connection.execute(
        """
        INSERT INTO overview_comparisons
        SELECT $overview, coalesce(max(o.comparison_index), 0) + 1, $base, $new, $phase, $min_effect, $allow_mismatch
        FROM overview_comparisons AS o WHERE o.overview = $overview
        """,
        given,
    )
    return int(connection.execute(query, given).fetchall()[0][0])


def remove_comparison(connection: duckdb.DuckDBPyConnection, overview: str, number: int) -> None:
    """Remove a comparison from an overview. Raises `EtqError` for an unknown one."""
    query = "DELETE FROM overview_comparisons WHERE overview = ? AND comparison_index = ? RETURNING comparison_index"
    if not connection.execute(query, [overview, number]).fetchall():
        raise EtqError(
            f"overview {printable(overview)}: no comparison has the number {number}; etq overview lists them"
        )


def _check_texts(overview: str, texts: Iterable[str | None]) -> None:
    """Raise `EtqError` for an invalid name of an overview, and for texts that can't be displayed."""
    if not overview.strip() or overview != overview.strip() or len(overview) > LONGEST_NAME:
        what = f"a name has 1 to {LONGEST_NAME} characters, and no space at its ends"
        raise EtqError(f"overview {overview!r}: {what}")
    for text in (overview, *texts):
        if text is not None and printable(text) != text:
            raise EtqError(f"overview {printable(overview)}: {printable(text)} has a character that can't be displayed")
