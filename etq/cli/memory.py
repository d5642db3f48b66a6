"""The command about memory: allocators of ETDumps, and what a PyTorch trace holds."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from etq import catalog
from etq.analysis.formats import TRACE
from etq.cli import main
from etq.cli.lines import shown_size
from etq.cli.options import output_options, warehouse_option
from etq.cli.showing import show_opened
from etq.cli.targets import FileOptions, open_target
from etq.errors import EtqError, printable
from etq.render.selection import selection
from etq.render.table import table
from etq.render.terminal import WIDTH, TerminalStyle, sparkline
from etq.render.times import range_text
from etq.render.writers import Output, write_text

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

_PEAKS: Final = """
    SELECT DISTINCT p.device, p.peak_bytes, p.peak_time, p.unit FROM peak_memory($capture) AS p ORDER BY p.device
"""
# For each of equally long intervals: the most memory in use, and the memory in use at the end.
_PARTS: Final = """
    WITH line AS (FROM memory_timeline($capture)),
    range AS (SELECT min(l.time) AS first, max(l.time) AS last FROM line AS l)
    SELECT l.device,
        least($parts - 1, coalesce((l.time - r.first) / nullif(r.last - r.first, 0) * $parts, 0)::INTEGER) AS part,
        max(l.allocated_bytes), arg_max(l.allocated_bytes, l.time)
    FROM line AS l CROSS JOIN range AS r
    GROUP BY ALL
    ORDER BY ALL
"""


@main.command()
@click.argument("capture")
@click.option("--by", metavar="WAY", help="For a trace: by op, by source (lines of the user's code), or by module.")
@warehouse_option
@output_options
def memory(capture: str, by: str | None, db: str, output: Output) -> None:
    """Show what allocators allocated, or what a trace holds.

    For a PyTorch trace, a snapshot of torch.cuda.memory, or a memory timeline: the peak of each device, memory over
    time, what is held at the peak and what grows with every step. CAPTURE is a name, a hash prefix, @latest, a selector
    (key=value,...) or a file.

    \b
    etq memory run --db lab.duckdb
    etq memory run.etdp --format json
    etq memory train.pt.trace.json.gz
    etq memory snapshot.pickle --by source
    """
    with open_target(capture, db, FileOptions()) as (warehouse, selector):
        is_trace = selector.format == TRACE
        view = "peak_memory" if is_trace else "memory_totals"
        if is_trace and output.form == "table":
            text = _memory_of_trace(warehouse, selector, by or "op", output.style)
            if text:
                write_text(text, output, is_printable=True)
                return
        if by is not None and not is_trace:
            raise EtqError(f"{capture}: an ETDump's allocations have no ops, lines and modules; leave out --by")
        show_opened(view, capture, (warehouse, selector), output, by=by)


def _memory_of_trace(warehouse: Warehouse, capture: Capture, by: str, style: TerminalStyle) -> str:
    """Return the peak of each device, memory over time, what is held at the peak and what grows; "" without memory."""
    (_, *said), peaks = warehouse.rows(_PEAKS, capture=capture)
    if not peaks:
        return ""
    lines = _timelines(warehouse, capture, style)
    text = ""
    for device, size, time, unit in peaks:
        text += f"{printable(device)}: at most {shown_size(size)} in use, first at {range_text([time], unit)}\n"
        text += f"{lines[device]}\n" if device in lines else ""
    view = catalog.named("peak_memory").without(said)
    query = f'SELECT {view.to_read} FROM peak_memory($capture, "by" := $by)'
    columns, rows = warehouse.rows(query, capture=capture, by=by)
    text += "\nHeld at the peak:\n" + table(*selection.get().rows(columns, rows), style, foremost=view.foremost)
    view = catalog.named("memory_leaks").without(("is_leak",))
    columns, rows = warehouse.rows(f"SELECT {view.to_read} FROM memory_leaks($capture) WHERE is_leak", capture=capture)
    text += "\nGrows with every step:\n" + table(columns, rows, style, foremost=view.foremost) if rows else ""
    return text


def _timelines(warehouse: Warehouse, capture: Capture, style: TerminalStyle) -> dict[str, str]:
    """Return the memory in use over the time of the recording as a line of bars, by device."""
    parts = min(WIDTH, style.width or WIDTH)
    rows = warehouse.rows(_PARTS, capture=capture, parts=parts)[1]
    lines = {}
    for device, group in groupby(rows, key=lambda row: row[0]):
        most: list[float] = []
        at_end = 0
        for _, part, highest, last in group:
            # Nothing changes between.
            most += [at_end] * (part - len(most)) + [max(highest, at_end)]
            at_end = last
        lines[device] = sparkline(most + [at_end] * (parts - len(most)), style)
    return lines
