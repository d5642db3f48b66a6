"""The calls of an annotation as the steps by which PyTorch traces are compared, instead of their profiler steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from etq.errors import ArgumentError, listed, nearest_words

if TYPE_CHECKING:
    from etq.database.handles import Answers

_CAPTURES: Final = """
    SELECT c.capture_id, c.name, c.format FROM captures AS c
    WHERE c.capture_id IN (SELECT s.capture_id FROM _several_captures($side) AS s)
    ORDER BY c.capture_id
"""
_ANNOTATIONS: Final = """
    SELECT DISTINCT s.label FROM signatures AS s
    WHERE s.capture_id = $key AND s.activity = 'annotation'
    ORDER BY s.label
"""


def steps_by_name(warehouse: Answers, selectors: list[str], step_name: str) -> None:
    """Make the calls of an annotation the steps of these captures, until `stored_steps`.

    Their rollups are computed as temporary tables, which replace those of the warehouse on its connection. Raises
    `EtqError` for a capture that is not a trace, or that has no event of this name.
    """
    # Imported here, as the command line lists its commands without DuckDB.
    from etq.database.rollups import ACROSS_TRACES, OF_TRACES, fill_steps

    captures = {row[0]: row for side in selectors for row in warehouse.rows(_CAPTURES, side=side)[1]}
    for key, name, format in captures.values():
        if format != "torch_trace":
            why = "is not a PyTorch trace, so it has no annotations"
            raise ArgumentError(f"{name} {why}: compare it without step_name (--step-name)")
        if not warehouse.rows("SELECT 1 FROM _annotation_steps($key, $name) LIMIT 1", key=key, name=step_name)[1]:
            labels = [label for (label,) in warehouse.rows(_ANNOTATIONS, key=key)[1]]
            known = listed("annotation", labels[:10]) if labels else "it has no annotations"
            raise ArgumentError(f"{name} has no annotation {step_name!r}{nearest_words(step_name, labels)}; {known}")
    stored_steps(warehouse)
    for table in (*OF_TRACES, *ACROSS_TRACES):
        warehouse.rows(f"CREATE TEMP TABLE {table} AS FROM main.{table} WHERE false")
    for key in captures:
        fill_steps(warehouse.connection, key, step_name)


def stored_steps(warehouse: Answers) -> None:
    """Use the steps of the warehouse's rollups again."""
    # Imported here, as the command line lists its commands without DuckDB.
    from etq.database.rollups import ACROSS_TRACES, OF_TRACES

    for table in (*OF_TRACES, *ACROSS_TRACES):
        warehouse.rows(f"DROP TABLE IF EXISTS temp.{table}")
