"""The command that draws where time goes, as a flame chart in text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from etq import catalog
from etq.analysis.clocks import Clocks, clock_of
from etq.cli import main
from etq.cli.messages import say
from etq.cli.numbers import IntRange
from etq.cli.options import (
    as_output,
    file_output_options,
    run_options,
    share_of_whole,
    total_option,
    unit_option,
    warehouse_option,
)
from etq.cli.showing import check_runs, has_steps, note_excluded_runs, seen_of
from etq.cli.targets import file_options, open_target, pop_file_options
from etq.errors import EtqError, nearest_words
from etq.render.table import Below, Rows
from etq.render.writers import Output, write, write_text

if TYPE_CHECKING:
    from etq.render.terminal import TerminalStyle
    from etq.warehouse.warehouse import Capture, Warehouse

# The selected nodes, with their depth below the first row, and whether they are large enough to be shown.
_CHOSEN: Final = """
    WITH tree AS MATERIALIZED (FROM {view}),
    first AS (
        SELECT t.node_index, t.depth FROM tree AS t
        WHERE CASE
            WHEN $module::VARCHAR IS NULL THEN t.parent_index IS NULL
            ELSE t.kind = 'module' AND t.module_path = $module
        END
    ),
    -- Each is followed by its descendants.
    ended AS (
        SELECT f.node_index, f.depth, min(t.node_index) AS next_index
        FROM first AS f
        LEFT JOIN tree AS t ON t.node_index > f.node_index AND t.depth <= f.depth
        GROUP BY ALL
    ),
    chosen AS (
        SELECT
            t.*,
            t.depth - f.depth AS level,
            coalesce(t.share_percent >= 100 * $min_share, true)
                OR t.kind = 'rest' OR t.node_index = f.node_index AS is_large
        FROM tree AS t
        JOIN ended AS f
            ON t.node_index >= f.node_index AND (f.next_index IS NULL OR t.node_index < f.next_index)
        WHERE $depth::BIGINT IS NULL OR t.depth - f.depth <= $depth
    )
"""
# The parameters of `time_tree`. Paths are left out, because their memory grows with the square of the tree's depth.
_PARAMETERS: Final = {"by": None, "unit": None, "steps": None, "phase": None, "method": None, "runs": "typical"}
_NODES: Final = """
    SELECT t.* EXCLUDE (level, is_large) FROM chosen AS t WHERE t.is_large ORDER BY t.node_index
"""
# Small nodes are combined into one row after their siblings, with the sum of their times; a single small node keeps its
# row.
_ROWS: Final = """
    , drawn AS (
        SELECT t.node_index, t.parent_index, t.level, t.name, t.kind, {self_time} AS self_time, {time} AS time,
            {drawn} AS drawn, {share} AS share, t.unit, t.calls, t.executes, t.node_index AS place, 0 AS last
        FROM chosen AS t WHERE t.is_large
        UNION ALL
        SELECT
            NULL,
            t.parent_index,
            t.level,
            CASE count(*) WHEN 1 THEN max(t.name) ELSE '(' || count(*) || ' smaller)' END,
            CASE count(*) WHEN 1 THEN max(t.kind) ELSE 'smaller' END,
            CASE count(*) WHEN 1 THEN max({self_time}) END,
            {sum_of_times},
            fsum({drawn}),
            fsum({share}),
            max(t.unit),
            sum(t.calls),
            max(t.executes),
            max(t.node_index),
            1
        FROM chosen AS t
        JOIN chosen AS p ON p.node_index = t.parent_index AND p.is_large
        WHERE NOT t.is_large
        GROUP BY t.parent_index, t.level
    )
    SELECT d.node_index, d.parent_index, d.level, d.name, d.kind, d.self_time, d.time, d.drawn, d.share, d.unit,
        d.calls, d.executes
    FROM drawn AS d ORDER BY d.place, d.last
"""


# `drawn` is the length of a bar.
_OF_EXECUTES: Final = {
    "time": "t.per_execute",
    "self_time": "t.self_per_execute",
    "drawn": "t.total",
    "share": "t.share_percent",
    # Executes of different methods can't be added up.
    "sum_of_times": "CASE WHEN count(DISTINCT t.executes) = 1 THEN fsum(t.per_execute) END",
}
_OF_STEPS: Final = {**_OF_EXECUTES, "drawn": "t.per_execute"}
_SUMS: Final = {
    **_OF_EXECUTES,
    "time": "t.total",
    "self_time": "t.self_time",
    "sum_of_times": "fsum(t.total)",
    "share": "100e0 * t.total / nullif((SELECT o.total FROM tree AS o WHERE o.node_index = 0), 0)",
}


@main.command()
@click.argument("capture")
@click.option(
    "--by",
    type=click.Choice(["module", "event"]),
    help="Grouping of rows.  [default: module with a record, else event]",
)
@click.option("--module", metavar="PATH", help="Only that module of the model, and its children.")
@click.option("--depth", type=IntRange(0), metavar="N", help="Number of levels to show below the first.")
@click.option(
    "--min-share", metavar="PERCENT", callback=share_of_whole, help="Combine smaller nodes in one row, such as 1%."
)
@total_option
@unit_option(None)
@run_options
@warehouse_option
@file_options
@file_output_options
@as_output
def flame(
    capture: str,
    by: str | None,
    module: str | None,
    depth: int | None,
    min_share: float | None,
    total: bool,
    unit: str | None,
    db: str,
    output: Output,
    **options: Any,
) -> None:
    """Draw where the time of an execute went, as a flame chart.

    With a linked record, rows are the model's nested modules and their ops (--by module). Without one, they are methods
    (or runs), their kernels and delegate calls, and the events of delegates (--by event). Framework time has a row of
    its own. For a PyTorch trace, times are those of a step, and rows are nested events, by name. A row's time is its
    self time plus the times of its children; shares and bars are relative to the first row. With --total, and for a
    trace without steps, times are sums.

    \b
    etq flame run --db lab.duckdb
    etq flame run --module layers.0 --min-share 1%
    etq flame run.etdp --etrecord net.etrecord --depth 3 --unit ms
    """
    read_options = pop_file_options(options)
    if module is not None:
        if by == "event":
            raise click.UsageError("--module needs --by module")
        by = "module"
    arguments = {name: value for name, value in {"by": by, "unit": unit, **options}.items() if value is not None}
    with open_target(capture, db, read_options) as (warehouse, selector):
        check_runs(warehouse, selector, arguments)
        _note_grouping(warehouse, selector, by)
        parameters = {"capture": selector, "module": module, "depth": depth, "min_share": min_share or 0.0, **arguments}
        if output.form == "table":
            view = f"_numbered_tree($capture, {', '.join(f'${name}' for name in _PARAMETERS)})"
            is_trace = selector.format == "torch_trace"
            sums = total or (is_trace and not has_steps(warehouse, selector))
            columns = _SUMS if sums else _OF_STEPS if is_trace else _OF_EXECUTES
            heading = "total" if sums else "per step" if is_trace else "mean per execute"
            query = _CHOSEN.format(view=view) + _ROWS.format(**columns)
            drawn = _drawn(warehouse, query, {**_PARAMETERS, **parameters}, heading, output.style)
            write_text(drawn, output, is_printable=True)
        else:
            view = f"time_tree($capture{catalog.more_arguments(arguments)})"
            query = _CHOSEN.format(view=view) + _NODES
            seen = seen_of(warehouse, selector, catalog.named("time_tree"), total)
            write(warehouse, query, output, view=seen, **parameters)
        note_excluded_runs(warehouse, selector, "time_tree", arguments)


def _drawn(warehouse: Warehouse, query: str, parameters: dict[str, Any], heading: str, style: TerminalStyle) -> str:
    from etq.render.flame import Row, flame
    from etq.render.times import unit_for

    _, rows_found = warehouse.rows(query, **parameters)
    if not rows_found:
        if parameters["module"] is None:
            left = parameters.get("steps")
            raise EtqError(f"no time to draw: no selected run has an execute{f' ({left})' if left else ''}")
        raise _no_module(warehouse, parameters["capture"], parameters["module"])
    unit, divisor, whole = rows_found[0][9], 1.0, rows_found[0][6]
    bounds = _bounds(warehouse, parameters["capture"], rows_found, are_sums=heading == "total")
    if parameters["unit"] is None:
        divisor, unit = unit_for(max(row[6] or 0.0 for row in rows_found), unit)
    rows = []
    # Siblings follow each other, from their parent's beginning.
    free: dict[int | None, float] = {}
    for (node, parent, level, name, kind, self_time, time, length, share, *_), bound in zip(
        rows_found, bounds, strict=True
    ):
        start = free.get(parent, 0.0)
        free[parent] = start + length
        if node is not None:
            free[node] = start
        shown = parameters["module"] or name if level == 0 else name
        own = (self_time or 0.0) / divisor
        if time == 0 and bound and whole:
            rows.append(Row(level, shown, kind, own, Below(bound / divisor), length, Below(100 * bound / whole), start))
        else:
            rows.append(Row(level, shown, kind, own, None if time is None else time / divisor, length, share, start))
    return flame(rows, heading, unit, style)


def _bounds(warehouse: Warehouse, capture: Capture, rows: Rows, *, are_sums: bool) -> list[float]:
    """Return an upper bound for each row whose time is 0, from the steps of clocks; 0 if these are unknown.

    Prints a note about the clocks of rows with a time of 0.
    """
    if not any(time == 0 and calls for *_, time, _, _, _, calls, _ in rows):
        return [0.0] * len(rows)
    clocks, unit = Clocks(warehouse, capture), rows[0][9]
    found: dict[int | None, float] = {}
    bounds: list[float] = []
    noted: dict[str, None] = {}
    for node, parent, _, _, kind, _, time, *_, calls, executes in reversed(rows):
        step = clocks.step(clock_of(kind), unit)
        own = (step or 0.0) * calls / (1 if are_sums else executes or 1)
        bounds.append(own if node is None else own + found.get(node, 0.0))
        found[parent] = found.get(parent, 0.0) + bounds[-1]
        if time == 0 and own:
            noted[clock_of(kind)] = None
    for clock in noted:
        say(f"Note: {clocks.note(clock, unit)}")
    return bounds[::-1]


def _no_module(warehouse: Warehouse, capture: str, module: str) -> EtqError:
    query = "SELECT m.module_path, m.total FROM module_totals($capture) AS m WHERE m.depth IS NOT NULL"
    totals = dict(warehouse.rows(query, capture=capture)[1])
    if module in totals and totals[module] is None:
        return EtqError(
            f"the time of module {module} is unknown: no event is assigned to it; etq ops --by module lists modules "
            "with times"
        )
    if module in totals:
        return EtqError(f"module {module} took no time in the selected runs")
    return EtqError(f"no module {module!r}{nearest_words(module, totals) or '; etq ops --by module lists them'}")


def _note_grouping(warehouse: Warehouse, capture: Capture, by: str | None) -> None:
    """Print why modules are not shown, unless the user chose the grouping."""
    query = """
        SELECT c.name FROM captures AS c
        LEFT JOIN records AS r ON r.record_id = c.record_id
        WHERE c.capture_id = $key AND r.is_complete IS NOT true AND c.format <> 'torch_trace'
    """
    rows = [] if by is not None else warehouse.rows(query, key=capture.capture_id)[1]
    for (name,) in rows:
        text = f"Note: {name} has no ETRecord with modules: grouped by method and event; link one with etq link"
        say(text)
