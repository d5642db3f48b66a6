"""The command that writes a script which measures one op of a trace."""

from __future__ import annotations

import click

from etq.cli import main
from etq.cli.options import query_limits, warehouse_option
from etq.cli.targets import file_options, open_target, pop_file_options
from etq.errors import EtqError
from etq.render.writers import refuse_existing, write_text
from etq.warehouse.formats import TRACE


@main.command()
@click.argument("capture")
@click.option("--op", required=True, metavar="NAME", help="The op, such as aten::mm.")
@click.option(
    "--shapes",
    metavar="TEXT",
    help="Its inputs, as etq roofline shows them, or their sizes as a JSON list.  [default: those of most time]",
)
@click.option("-o", "--output", metavar="FILE", help="Write to that file instead of stdout (-).")
@click.option("--force", is_flag=True, help="Overwrite the file of -o.")
@query_limits
@warehouse_option
@file_options
def replay(capture: str, op: str, shapes: str | None, output: str | None, force: bool, db: str, **options: str) -> None:
    """Write a Python script that measures one op of a trace.

    The script needs torch alone. It calls the op with tensors of the sizes, types and strides of the trace and with its
    other arguments, and prints the time of a call and its rates. CAPTURE is a name, a hash prefix, @latest, a selector
    (key=value,...) or a file; it must have been recorded with shapes.

    \b
    etq replay train.pt.trace.json.gz --op aten::mm -o mm.py && python mm.py
    etq replay run --op aten::addmm --shapes "bf16[1024] bf16[8944,1024] bf16[1024,1024]" --db lab.duckdb
    """
    from etq.export.replay import script_of

    path = None if output == "-" else output
    refuse_existing(path, force)
    with open_target(capture, db, pop_file_options(options)) as (warehouse, selector):
        if selector.format != TRACE:
            raise EtqError(f"{capture}: replay is for PyTorch traces, and this is an ETDump")
        write_text(script_of(warehouse, selector, op, shapes), path, force=force, is_printable=True)
