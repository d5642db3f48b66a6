"""Commands about the costs of ops and the limits of the device: flops, roofline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from etq.cli import main
from etq.cli.no_rows import not_of_traces
from etq.cli.options import (
    PREFIXES,
    output_options,
    peak_options,
    run_options,
    total_option,
    unit_option,
    warehouse_option,
)
from etq.cli.showing import show_opened
from etq.cli.targets import file_options, is_record, open_file_or_warehouse, open_record, open_target, pop_file_options
from etq.errors import EtqError, printable
from etq.render.writers import write
from etq.warehouse.formats import TRACE

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Record, Warehouse

EDGE: Final = "edge_dialect_exported_program"


@main.command()
@click.argument("capture")
@peak_options
@click.option("--device", metavar="NAME", help="Of a trace: a device of device_peaks whose peaks count, such as H100.")
@click.option(
    "--by",
    type=click.Choice(["op", "instruction", "op_type", "shape", "family"]),
    help="Grouping of rows.  [default: op; of a trace: shape]",
)
@total_option
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
    device: str | None,
    total: bool,
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Show how far each op is from the device's peak. Times are those of an execute, or of a step of a trace.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file. For an ETDump, which needs a linked
    record, --by is op, instruction or op_type; for a trace, recorded with shapes, it is shape, op or family. The peaks
    are those of the GPU that a trace names. Without peaks, and without the capture's metrics peak_flops and
    peak_bandwidth, only rates and intensity are shown. above_roof_percent is the share of the time that an op would
    save if it ran at the device's peak.

    \b
    etq roofline run --peak-flops 20G --peak-bandwidth 15GB/s --db lab.duckdb
    etq roofline run.etdp --etrecord net.etrecord --by op_type
    etq roofline train.pt.trace.json.gz --by family
    """
    read_options = pop_file_options(options)
    written = (format, output, force)
    options |= {"peak_flops": peak_flops, "peak_bandwidth": peak_bandwidth}
    with open_target(capture, db, read_options) as target:
        is_trace = target[1].format == TRACE
        known = ("shape", "op", "family") if is_trace else ("op", "instruction", "op_type")
        if by is not None and by not in known:
            raise EtqError(f"--by of {'a trace' if is_trace else 'an ETDump'} is {', '.join(known)}, not {by}")
        if is_trace:
            show_efficiency(capture, target, written, by or "shape", total, device=device, **options)
        elif device is not None:
            raise EtqError("--device is for traces of GPUs; give --peak-flops and --peak-bandwidth")
        else:
            _show_roofline(capture, target, written, by, total, **options)


def _show_roofline(
    capture: str,
    target: tuple[Warehouse, Capture],
    output: tuple[str | None, str | None, bool],
    by: str | None,
    total: bool,
    **options: Any,
) -> None:
    show_opened(
        "roofline",
        capture,
        target,
        output,
        total=total,
        by=by,
        **options,
    )


def show_efficiency(
    capture: str,
    target: tuple[Warehouse, Capture],
    output: tuple[str | None, str | None, bool],
    by: str,
    total: bool,
    **options: Any,
) -> None:
    """Print `op_efficiency` of a trace."""
    if options.pop("method", None) is not None:
        raise EtqError("traces have no methods; leave out --method")
    options.pop("runs", None)
    show_opened(
        "op_efficiency",
        capture,
        target,
        output,
        total=total,
        by=by,
        **options,
    )


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
            WHERE g.record_id = _key_of('record', $record)
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


def _open_shapes(file: str) -> tuple[Warehouse, Record]:
    """Load an ETRecord. Raises `EtqError` for other files."""
    if is_record(file):
        return open_record(file)
    from etq.ingest.registry import is_json
    from etq.storage.sources import source_of

    if is_json(source_of(file).content):
        raise EtqError(f"{file}: {not_of_traces('roofline', 'flops')}")
    raise EtqError(f"{file}: has no shapes; give the ETRecord of its program")


@contextmanager
def _record(argument: str, db: str) -> Iterator[tuple[Warehouse, str]]:
    """Provide a warehouse with the record that the argument names, directly or by a capture,
    and the record's hash.
    """
    with open_file_or_warehouse(argument, db, _open_shapes) as (warehouse, record):
        if record is not None:
            yield warehouse, record.sha256
            return
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
