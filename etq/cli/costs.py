"""Commands about the costs of ops and the limits of the device: flops, roofline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from etq.cli import main
from etq.cli.commands import ANSWERS
from etq.cli.no_rows import not_of_traces, note_no_rows
from etq.cli.options import PREFIXES, output_options, peak_options, run_options, unit_option, warehouse_option
from etq.cli.showing import check_runs, note_excluded_runs, without_method
from etq.cli.targets import file_options, is_file, is_record, open_target, pop_file_options, report_record_findings
from etq.errors import EtqError, printable
from etq.render.writers import TO_READ, format_of, write

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

EDGE: Final = "edge_dialect_exported_program"


@main.command()
@click.argument("capture")
@peak_options
@click.option("--by", type=click.Choice(["op", "instruction", "op_type"]), help="Grouping of rows.  [default: op]")
@unit_option(None)
@run_options("typical")
@warehouse_option
@file_options
@output_options
def roofline(
    capture: str,
    peak_flops: float | None,
    peak_bandwidth: float | None,
    by: str | None,
    unit: str | None,
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Show how far each op is from the device's peak. Needs a linked record.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file. The peaks are the device's: without
    them, and without the capture's metrics peak_flops and peak_bandwidth, only rates and intensity are shown.
    above_roof_percent is the share of the executes' time that an op would save if it ran at the device's peak.

    \b
    etq roofline run --peak-flops 20G --peak-bandwidth 15GB/s --db lab.duckdb
    etq roofline run.etdp --etrecord net.etrecord --by op_type
    """
    read_options = pop_file_options(options)
    arguments = {"by": by, "unit": unit, "peak_flops": peak_flops, "peak_bandwidth": peak_bandwidth, **options}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    with open_target(capture, db, read_options, ["roofline"]) as (warehouse, selector):
        check_runs(warehouse, selector, arguments)
        listed = "".join(f', "{name}" := ${name}' for name in arguments)
        query = f"""
            SELECT r.op, r.method,
                {"r.calls" if by == "op_type" else "r.instruction_id AS instruction, r.module_path AS module"},
                r.avg, r.unit, r.share_percent, r.flops, r.intensity, r.flops_per_second / 1e9 AS gflop_s,
                r.bytes_per_second / 1e9 AS gb_s, r.roof_percent, r.bound, r.above_roof_percent, r.reason
            FROM roofline($capture{listed}) AS r
        """
        if (format or format_of(output)) in TO_READ:
            query = without_method(warehouse, selector, "roofline", query)
        foremost = ANSWERS["roofline"]
        if not write(warehouse, query, format, output, force=force, foremost=foremost, capture=selector, **arguments):
            note_no_rows(warehouse, "roofline", capture, selector, arguments)
        note_excluded_runs(warehouse, selector, "roofline", arguments)


@main.command()
@click.argument("capture", metavar="CAPTURE|RECORD")
@click.option(
    "--by", type=click.Choice(["op_type", "node"]), default="op_type", show_default=True, help="Grouping of rows."
)
@warehouse_option
@output_options
def flops(capture: str, by: str, db: str, format: str | None, output: str | None, force: bool) -> None:
    """Show the operations and bytes of a program's ops. They are computed from shapes, for one call; a multiply-add
    counts as two.

    CAPTURE|RECORD is an ETRecord, its name, or the name of a capture that is linked to one. The program is shown as it
    was before delegates took parts of it, or, if the record lacks that, as it was exported. The total counts each node
    once, even in loops and branches.

    \b
    etq flops net.etrecord
    etq flops run --by node --format csv --db lab.duckdb
    """
    with _record(capture, db) as (warehouse, record):
        stage = f"""
            SELECT coalesce(max(g.stage) FILTER (WHERE g.stage = '{EDGE}'), min(g.stage)) FROM graphs AS g
            WHERE g.record_id = _record_id($record)
        """
        columns = "c.nodes, c.flops, c.flops_percent" if by == "op_type" else "c.name, c.module_path, c.input_shapes"
        columns += "" if by == "op_type" else ", c.output_shape, c.flops"
        view = "op_costs" if by == "op_type" else "node_costs"
        query = f"""
            SELECT c.method, c.op_type, {columns}, c.bytes_read, c.bytes_written, c.intensity, c.reason
            FROM {view}($record) AS c
            WHERE c.stage = ({stage})
        """
        _print_totals(warehouse, record, stage)
        write(warehouse, query, format, output, force=force, record=record)


def _print_totals(warehouse: Warehouse, record: str, stage: str) -> None:
    query = f"""
        SELECT c.method, coalesce(sum(c.flops), 0)::DOUBLE, count(*), count(*) - count(c.flops)
        FROM node_costs($record) AS c
        WHERE c.stage = ({stage})
        GROUP BY c.method
        ORDER BY c.method
    """
    for method, total, nodes, unknown in warehouse.rows(query, record=record)[1]:
        but = f", but {unknown} of {nodes} nodes that aren't known" if unknown else ""
        click.echo(f"{printable(method)}: {_shown(total)}FLOP a call{but}", err=True)


def _shown(number: float) -> str:
    """Return a number as text: 1234567 as `1.235 M`."""
    for prefix, size in reversed(PREFIXES.items()):
        if number >= size > 1 and prefix != "K":
            return f"{number / size:.4g} {prefix}"
    return f"{number:g} "


@contextmanager
def _record(argument: str, db: str) -> Iterator[tuple[Warehouse, str]]:
    """Provide a warehouse with the record that the argument names, directly or by a capture,
    and the record's name there.
    """
    from etq.warehouse.warehouse import open

    if is_record(argument):
        from etq.warehouse.ephemeral import open_ephemeral_record

        warehouse, target = open_ephemeral_record(argument)
        with warehouse:
            report_record_findings(warehouse, target)
            yield warehouse, target.sha256
        return
    if is_file(argument, db):
        from etq.ingest.registry import is_json
        from etq.storage.sources import source_of

        if is_json(source_of(argument).content):
            raise EtqError(f"{argument}: {not_of_traces('roofline', 'flops')}")
        raise EtqError(f"{argument}: has no shapes; give the ETRecord of its program")
    if argument.endswith(".etrecord"):
        raise EtqError(f"{argument}: no such file")
    with open(db, read_only=True) as warehouse:
        named = "SELECT r.sha256 FROM records AS r WHERE r.name = $name"
        linked = """
            SELECT r.sha256 FROM captures AS c JOIN records AS r ON r.record_id = c.record_id
            WHERE c.capture_id = _any_capture_id($name)
        """
        rows = warehouse.rows(named, name=argument)[1] or warehouse.rows(linked, name=argument)[1]
        if not rows:
            of_format = "SELECT c.format FROM captures AS c WHERE c.capture_id = _any_capture_id($name)"
            if warehouse.rows(of_format, name=argument)[1] == [("torch_trace",)]:
                raise EtqError(f"{argument}: {not_of_traces('roofline', 'flops')}")
            raise EtqError(
                f"{argument} has no ETRecord, which has the shapes; link one with: etq link {argument} RECORD"
            )
        yield warehouse, rows[0][0]
