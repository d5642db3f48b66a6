"""The command about ops of ETDumps and of PyTorch's traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from etq import catalog
from etq.choices import OPS_BY
from etq.cli import main
from etq.cli.no_rows import note_no_rows
from etq.cli.options import (
    file_output_options,
    run_options,
    selection_options,
    total_option,
    unit_option,
    warehouse_option,
)
from etq.cli.showing import check_runs, note_excluded_runs, show_opened, timed, without_method
from etq.cli.targets import file_options, open_target, pop_file_options
from etq.errors import EtqError
from etq.render.selection import column_named, selection
from etq.render.table import FOREMOST
from etq.render.writers import TO_READ, format_of, write
from etq.warehouse.formats import stored_rows

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

# The views for groupings of an ETDump's ops by their places in the model, which its record has.
_PLACES: Final = {"module": "module_totals", "source": "source_totals"}
# Groupings of a trace's ops.
CALLS_BY: Final = ("name", "shape", "stack", "module", "family")
# The columns of torch's own table, and what a trace or a grouping must have for them.
TORCH_TABLE: Final = {
    "name": (),
    "shapes": ("by_shape",),
    "stack": ("by_stack",),
    "module": ("by_module",),
    "self_cpu_percent": (),
    "self_cpu_time": (),
    "cpu_time_percent": (),
    "cpu_time_total": (),
    "cpu_time_avg": (),
    "self_device_time": ("has_device",),
    "device_time_total": ("has_device",),
    "device_time_avg": ("has_device",),
    "cpu_memory": ("has_memory",),
    "self_cpu_memory": ("has_memory",),
    "calls": (),
    "unit": (),
    "steps": ("has_steps",),
    "self_cpu_step_percent": ("has_steps",),
    "self_cpu_per_step": ("has_steps",),
    "cpu_step_percent": ("has_steps",),
    "cpu_per_step": ("has_steps",),
    "self_device_per_step": ("has_device", "has_steps"),
    "device_per_step": ("has_device", "has_steps"),
    "cpu_outside_steps": ("has_steps", "has_more"),
    "device_outside_steps": ("has_device", "has_steps", "has_more"),
}
# Of a trace with steps, people see the times of a step in place of the sums, which follow with --total.
IN_A_STEP: Final = {
    "self_cpu_percent": "self_cpu_step_percent",
    "cpu_time_percent": "cpu_step_percent",
    "self_cpu_time": "self_cpu_per_step",
    "cpu_time_total": "cpu_per_step",
    "self_device_time": "self_device_per_step",
    "device_time_total": "device_per_step",
}
SUMS: Final = ("total", "executes")
# Those by which a trace's ops are sorted, if it has one.
_ON_DEVICES: Final = ("self_device_per_step", "self_device_time")
# What people see of an op's column avg.
PER_CALL: Final = "per_call"


@main.command()
@click.argument("capture")
@click.option("--by", type=click.Choice(tuple(dict.fromkeys((*OPS_BY, *_PLACES, *CALLS_BY)))), help="Grouping of ops.")
@click.option(
    "--sort-by",
    metavar="COLUMN",
    help="Sort by that column, largest first.  [default: self time, of traces on devices]",
)
@total_option
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
    total: bool,
    no_python_functions: bool,
    unit: str | None,
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Show where the time of an execute went, op by op. For a PyTorch trace, show torch's own table, in time per step.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file. For an ETDump, --by is family,
    label or instance; with its record op_type, shape, module or source, the line of the model's source. For a trace, it
    is name, shape, stack, module or family: what ops compute, and how far they are from the peak of the device, as in
    roofline.

    \b
    etq ops run --by instance --unit us --db lab.duckdb
    etq ops worker.pt.trace.json.gz --sort-by self_cpu_time --limit 10
    """
    read_options = pop_file_options(options)
    arguments = {name: value for name, value in {"by": by, "unit": unit, **options}.items() if value is not None}
    with open_target(capture, db, read_options) as (warehouse, selector):
        is_trace = selector.format == "torch_trace"
        view, known = ("key_averages", CALLS_BY) if is_trace else ("op_totals", (*OPS_BY, *_PLACES))
        if by is not None and by not in known:
            raise EtqError(f"--by of {'a trace' if is_trace else 'an ETDump'} is {', '.join(known)}, not {by}")
        if not is_trace and by in _PLACES:
            if sort_by is not None or no_python_functions:
                raise EtqError("modules and sources have an order; leave out --sort-by and --no-python-functions")
            written = (format, output, force)
            show_opened(_PLACES[by], capture, (warehouse, selector), written, total=total, unit=unit, **options)
            return
        if is_trace and by == "family":
            from etq.cli.costs import show_efficiency

            if sort_by is not None or no_python_functions:
                raise EtqError("families of ops are sorted by time; leave out --sort-by and --no-python-functions")
            options.pop("runs", None)
            show_efficiency(capture, (warehouse, selector), (format, output, force), by, total, unit=unit, **options)
            return
        if no_python_functions:
            if not is_trace:
                raise EtqError(f"{capture}: an ETDump has no Python functions; leave out --no-python-functions")
            arguments["include_python_functions"] = False
        sort_by = _column_of(view, sort_by)
        check_runs(warehouse, selector, arguments)
        listed = "".join(f', "{name}" := ${name}' for name in arguments)
        is_for_people = (format or format_of(output)) in TO_READ and selection.get().columns is None
        columns = _columns(warehouse, selector, by) if is_trace else ["*"]
        order = None if sort_by is None else f'"{sort_by}" DESC NULLS LAST'
        if order is None and is_trace and (on_devices := [name for name in _ON_DEVICES if name in columns]):
            sort_by, order = on_devices[0], f"{on_devices[0]} DESC NULLS LAST, self_cpu_time DESC, name"
        if not is_trace and PER_CALL in (selection.get().columns or ()):
            columns.append(f"avg AS {PER_CALL}")
        if is_for_people:
            columns = _of_steps(columns, sort_by, total) if is_trace else _of_executes(by, sort_by, total)
        stored = stored_rows(warehouse, view, arguments)
        query = f"SELECT {', '.join(columns)} FROM {stored or f'{view}($capture{listed})'}"
        query += "" if order is None else f" ORDER BY {order}"
        if is_for_people and not is_trace:
            query = without_method(warehouse, selector, view, query)
        foremost = [] if sort_by is None else [PER_CALL if sort_by == "avg" else sort_by, *FOREMOST]
        with timed(warehouse, selector, view, arguments):
            if not write(
                warehouse,
                query,
                format,
                output,
                force=force,
                foremost=foremost,
                chooses_unit=unit is None,
                needs_rows=True,
                capture=selector,
                **({} if stored else arguments),
            ):
                note_no_rows(warehouse, view, capture, selector, arguments)
            note_excluded_runs(warehouse, selector, view, arguments)


def _column_of(view: str, sort_by: str | None) -> str | None:
    """Return the column of a view that is named, or whose head in a table is. Raises `EtqError` if there is none."""
    if sort_by is None:
        return None
    columns = [column.name for column in catalog.objects()[view].columns]
    if view == "op_totals" and sort_by == PER_CALL:
        return "avg"
    return column_named(sort_by, columns, " to sort by")


def _of_executes(by: str | None, sort_by: str | None, total: bool) -> list[str]:
    """Return the columns of `op_totals` for people: the instruction if there is one, sums if asked for."""
    instruction = ["instruction_id"] if by == "instance" else []
    sums = SUMS if total else [name for name in SUMS if name == sort_by]
    times = ["per_execute", f"avg AS {PER_CALL}", "share_percent", "calls", "min", "max"]
    return ["op", "kind", "method", *instruction, *times, *sums, "unit"]


def _of_steps(columns: list[str], sort_by: str | None, total: bool) -> list[str]:
    """Return the columns of torch's table for people."""
    if "steps" not in columns:
        return columns
    first = [IN_A_STEP.get(name, name) for name in columns if name not in (*IN_A_STEP.values(), "steps", "unit")]
    sums = [name for name in (*IN_A_STEP, "steps") if name in columns and (total or name == sort_by)]
    return [*first, *sums, "unit"]


def _columns(warehouse: Warehouse, capture: Capture, by: str | None) -> list[str]:
    """Return those columns of torch's table, and of times per step, that the trace has."""
    query = """
        SELECT
            EXISTS (FROM device_events AS d WHERE d.capture_id = k.capture_id) AS has_device,
            EXISTS (FROM trace_memory AS m WHERE m.capture_id = k.capture_id) AS has_memory,
            _step_count(k.capture_id, NULL, NULL) > 0 AS has_steps,
            EXISTS (FROM runs AS r WHERE r.capture_id = k.capture_id AND _is_outside_steps(r.name)) AS has_more
        FROM (SELECT $key AS capture_id) AS k
    """
    names, [row] = warehouse.rows(query, key=capture.capture_id)
    held = {name for name, value in zip(names, row, strict=True) if value} | {f"by_{by}"}
    return [column for column, needs in TORCH_TABLE.items() if held.issuperset(needs)]
