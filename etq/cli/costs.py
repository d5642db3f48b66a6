"""Commands about the costs of ops and the limits of the device: flops, roofline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from etq.cli import main
from etq.cli.options import output_options, run_options, unit_option, warehouse_option
from etq.cli.showing import check_runs, note_excluded_runs, views_for, without_method
from etq.cli.targets import file_options, is_file, is_record, open_target, pop_file_options, report_record_findings
from etq.errors import EtqError, printable
from etq.render.writers import TO_READ, format_of, write

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

PREFIXES: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
PREFIXES_OF_TWO: Final = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_NUMBER: Final = r"\s*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*"
_FLOPS: Final = re.compile(_NUMBER + r"([kKMGTP]?)(?:FLOPS|FLOPs|FLOP/s|flops|flop/s)?\s*")
_BANDWIDTH: Final = re.compile(_NUMBER + r"([KMGT]i|[kKMGTP]?)(?:B/s|byte/s|bytes/s)?\s*")
EDGE: Final = "edge_dialect_exported_program"


def _rate(pattern: re.Pattern[str], examples: str) -> Any:
    """Return a callback that checks an option and turns a text such as `20G` into 2e10."""

    def parsed(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
        if text is None:
            return None
        match = pattern.fullmatch(text)
        if match is None:
            raise click.BadParameter(f"{text!r} is not a rate; write it like {examples}")
        value = float(match[1]) * (PREFIXES | PREFIXES_OF_TWO)[match[2]]
        if not 0 < value < float("inf"):
            raise click.BadParameter(f"{text} must be above 0, and finite")
        return value

    return parsed


@main.command()
@click.argument("capture")
@click.option(
    "--peak-flops",
    metavar="RATE",
    callback=_rate(_FLOPS, "20G, 20e9 or 20GFLOP/s"),
    help="Peak rate of the device in operations per second, such as 20G.",
)
@click.option(
    "--peak-bandwidth",
    metavar="RATE",
    callback=_rate(_BANDWIDTH, "15G, 15e9, 15GB/s or 14GiB/s; bytes, not bits"),
    help="Peak bandwidth of its memory in bytes per second, such as 15GB/s.",
)
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
    """Show how far each op is from the device's peak; needs a linked record.

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
    with open_target(capture, db, views_for("roofline"), read_options) as (warehouse, selector):
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
        write(warehouse, query, format, output, force=force, capture=selector, **arguments)
        note_excluded_runs(warehouse, selector, "roofline", arguments)


@main.command()
@click.argument("capture", metavar="CAPTURE|RECORD")
@click.option(
    "--by", type=click.Choice(["op_type", "node"]), default="op_type", show_default=True, help="Grouping of rows."
)
@warehouse_option
@output_options
def flops(capture: str, by: str, db: str, format: str | None, output: str | None, force: bool) -> None:
    """Show what a program's ops cost by their shapes: operations and bytes of one call, a multiply-add as two.

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

        warehouse, target = open_ephemeral_record(argument, ["node_costs", "op_costs"])
        with warehouse:
            report_record_findings(warehouse, target)
            yield warehouse, target.sha256
        return
    if is_file(argument, db):
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
            raise EtqError(
                f"{argument} has no ETRecord, which has the shapes; link one with: etq link {argument} RECORD"
            )
        yield warehouse, rows[0][0]
