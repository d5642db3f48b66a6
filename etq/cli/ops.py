"""Commands about ops of ETDumps and of PyTorch's traces: ops, map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from etq.choices import OPS_BY
from etq.cli import main
from etq.cli.no_rows import note_no_rows
from etq.cli.options import (
    file_output_options,
    output_options,
    run_options,
    selection_options,
    unit_option,
    warehouse_option,
)
from etq.cli.showing import check_runs, note_excluded_runs, without_method
from etq.cli.targets import check_path, file_options, open_target, pop_file_options
from etq.errors import EtqError
from etq.render.selection import selection
from etq.render.writers import TO_READ, format_of, write
from etq.warehouse.nearest import nearest_words

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

# Groupings of ops, for an ETDump and for a trace.
CALLS_BY: Final = ("name", "shape", "stack", "module")
# The columns of torch's own table, except for those that a trace lacks.
TORCH_TABLE: Final = {
    "name": True,
    "shapes": "by_shape",
    "stack": "by_stack",
    "module": "by_module",
    "self_cpu_percent": True,
    "self_cpu_time": True,
    "cpu_time_percent": True,
    "cpu_time_total": True,
    "cpu_time_avg": True,
    "self_device_time": "has_device",
    "device_time_total": "has_device",
    "device_time_avg": "has_device",
    "cpu_memory": "has_memory",
    "self_cpu_memory": "has_memory",
    "calls": True,
    "unit": True,
}


@main.command()
@click.argument("capture")
@click.option("--by", type=click.Choice(tuple(dict.fromkeys(OPS_BY + CALLS_BY))), help="Grouping of ops.")
@click.option("--sort-by", metavar="COLUMN", help="Sort by that column, largest first.  [default: self time]")
@click.option("--no-python-functions", is_flag=True, help="Of a trace: leave out Python functions and modules.")
@unit_option(None)
@run_options("typical")
@warehouse_option
@file_options
@selection_options
@file_output_options
def ops(
    capture: str,
    by: str | None,
    sort_by: str | None,
    no_python_functions: bool,
    unit: str | None,
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Show where the time of the executes went, op by op. For a PyTorch trace, show torch's own table.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file. For an ETDump, --by is family,
    label, instance, op_type or shape; for a trace, it is name, shape, stack or module.

    \b
    etq ops run --by instance --unit us --db lab.duckdb
    etq ops worker.pt.trace.json.gz --sort-by self_cpu_time --limit 10
    """
    read_options = pop_file_options(options)
    arguments = {name: value for name, value in {"by": by, "unit": unit, **options}.items() if value is not None}
    with open_target(capture, db, read_options) as (warehouse, selector):
        is_trace = selector.format == "torch_trace"
        view, known = ("key_averages", CALLS_BY) if is_trace else ("op_totals", OPS_BY)
        if by is not None and by not in known:
            raise EtqError(f"--by of {'a trace' if is_trace else 'an ETDump'} is {', '.join(known)}, not {by}")
        if no_python_functions:
            if not is_trace:
                raise EtqError(f"{capture}: an ETDump has no Python functions; leave out --no-python-functions")
            arguments["include_python_functions"] = False
        check_runs(warehouse, selector, arguments)
        listed = "".join(f', "{name}" := ${name}' for name in arguments)
        columns = _columns(warehouse, selector, by) if is_trace else "*"
        is_for_people = (format or format_of(output)) in TO_READ and selection.get().columns is None
        if not is_trace and is_for_people:
            # On a terminal: time instead of ticks, and the instruction if there is one.
            columns += " EXCLUDE (total_ticks)" if by == "instance" else " EXCLUDE (instruction_id, total_ticks)"
        query = f"SELECT {columns} FROM {view}($capture{listed})" + _order(view, sort_by)
        if not is_trace and is_for_people:
            query = without_method(warehouse, selector, view, query)
        if not write(warehouse, query, format, output, force=force, capture=selector, **arguments):
            note_no_rows(warehouse, view, capture, selector, arguments)
        note_excluded_runs(warehouse, selector, view, arguments)


def _order(view: str, sort_by: str | None) -> str:
    from etq import catalog

    if sort_by is None:
        return ""
    columns = [column.name for column in catalog.objects()[view].columns]
    if sort_by not in columns:
        near = nearest_words(sort_by, columns)
        raise EtqError(f"no column {sort_by!r} to sort by{near}; known are {', '.join(columns)}")
    return f' ORDER BY "{sort_by}" DESC NULLS LAST'


def _columns(warehouse: Warehouse, capture: Capture, by: str | None) -> str:
    """Return those columns of torch's table that the trace has."""
    query = """
        SELECT
            EXISTS (FROM device_events AS d WHERE d.capture_id = k.capture_id) AS has_device,
            EXISTS (FROM trace_memory AS m WHERE m.capture_id = k.capture_id) AS has_memory
        FROM (SELECT $key AS capture_id) AS k
    """
    names, [row] = warehouse.rows(query, key=capture.capture_id)
    held = {name for name, value in zip(names, row, strict=True) if value} | {f"by_{by}"}
    return ", ".join(column for column, needs in TORCH_TABLE.items() if needs is True or needs in held)


@main.command("map")
@click.argument("etdump")
@click.argument("trace")
@unit_option(None)
@warehouse_option
@output_options
def model_map(
    etdump: str, trace: str, unit: str | None, db: str, format: str | None, output: str | None, force: bool
) -> None:
    """Compare a run on a device with PyTorch's own, op by op. It shows where the device is slower than it should be.

    ETDUMP is a capture linked to its ETRecord, TRACE the capture of a PyTorch trace of the same model with modules.

    \b
    etq map run run-in-torch --db lab.duckdb
    """
    from etq.warehouse.warehouse import open

    arguments = {} if unit is None else {"unit": unit}
    query = f"FROM model_map($etdump, $trace{''.join(f', {name} := ${name}' for name in arguments)})"
    for side in (etdump, trace):
        check_path(side, db)
    with open(db, read_only=True) as warehouse:
        write(warehouse, query, format, output, force=force, etdump=etdump, trace=trace, **arguments)
