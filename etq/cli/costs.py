"""The command about ops and the limits of the device."""

from __future__ import annotations

from typing import Any

import click

from etq.analysis.formats import TRACE
from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import output_options, peak_options, run_options, total_option, unit_option, warehouse_option
from etq.cli.showing import drop_methods, show_opened
from etq.cli.targets import file_options, open_target, pop_file_options
from etq.errors import EtqError
from etq.render.writers import Output


@main.command()
@click.argument("capture")
@peak_options
@click.option(
    "--device", metavar="NAME", help="For a trace: use the peaks of this device of device_peaks, such as H100."
)
@click.option(
    "--by",
    type=click.Choice(["op", "instruction", "op_type", "shape", "family"]),
    help="Grouping of rows.  [default: op; of a trace: shape]",
)
@total_option
@unit_option(None)
@run_options
@warehouse_option
@file_options
@output_options
def roofline(capture: str, by: str | None, device: str | None, db: str, output: Output, **options: Any) -> None:
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
    with open_target(capture, db, read_options) as target:
        is_trace = target[1].format == TRACE
        known = ("shape", "op", "family") if is_trace else ("op", "instruction", "op_type")
        if by is not None and by not in known:
            raise EtqError(f"--by {by} is not for {'traces' if is_trace else 'ETDumps'}; use {', '.join(known)}")
        if is_trace:
            drop_methods(options)
            show_opened("op_efficiency", capture, target, output, by=by or "shape", device=device, **options)
        elif device is not None:
            raise EtqError("--device is for traces of GPUs; give --peak-flops and --peak-bandwidth")
        else:
            show_opened("roofline", capture, target, output, by=by, **options)
            # Imported here, as only this case needs it.
            from etq.storage.metrics import PEAKS

            query = f"SELECT 1 FROM metrics AS m WHERE m.capture_id = $key AND starts_with(m.name, '{PEAKS}')"
            has_peaks = options["peak_flops"] is not None or options["peak_bandwidth"] is not None
            if not has_peaks and not target[0].rows(query, key=target[1].capture_id)[1]:
                say("Note: roof % needs the device's peaks: --peak-flops and --peak-bandwidth, or these metrics")
